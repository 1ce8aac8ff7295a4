"""An event loop in a thread of its own, for programs without one. Starts a thread.

A store belongs to the event loop on which it was opened. ``LoopThread`` opens it on a loop that
lives as long as the program needs it, so that synchronous code, and code that runs one loop after
the other, can use it:

    with LoopThread.holding(lambda: connect(url)) as thread:
        thread.held                the client
        thread.run(coroutine)      from synchronous code
        await thread.call(…)       from another event loop
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from threading import Thread
from typing import Any, Final, Generic, Self, TypeVar

from ctxmgr import Incorrect

T = TypeVar("T")
R = TypeVar("R")

CLOSE_SECONDS_MAX: Final = 30.0
"""To wait for the resource to be closed."""


class LoopThread(Generic[T]):
    """Keeps an async context manager open on an event loop of its own."""

    def __init__(self, held: T, loop: asyncio.AbstractEventLoop, thread: Thread) -> None:
        self.held = held
        self._loop = loop
        self._thread = thread
        self._end: Callable[[], None] = lambda: None

    @classmethod
    def holding(cls, opened: Callable[[], AbstractAsyncContextManager[T]]) -> Self:
        """Open a resource in a new thread; what opening it raises is raised here."""
        loop = asyncio.new_event_loop()
        thread = Thread(target=loop.run_forever, name="ctxmgr", daemon=True)
        thread.start()
        ended = asyncio.Event()
        ready: asyncio.Future[T] = loop.create_future()

        async def hold() -> None:
            try:
                async with opened() as held:
                    ready.set_result(held)
                    await ended.wait()
            except BaseException as error:
                if ready.done():
                    raise
                ready.set_exception(error)

        async def opening() -> T:
            return await ready

        task = asyncio.run_coroutine_threadsafe(hold(), loop)
        try:
            held = asyncio.run_coroutine_threadsafe(opening(), loop).result()
        except BaseException:
            _stop(loop, thread)
            raise
        made = cls(held, loop, thread)

        def end() -> None:
            loop.call_soon_threadsafe(ended.set)
            task.result(CLOSE_SECONDS_MAX)

        made._end = end
        return made

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine on the loop and wait for its result."""
        return asyncio.run_coroutine_threadsafe(work, self._open_for(work)).result()

    async def call(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine on the loop without blocking the loop of the caller."""
        future = asyncio.run_coroutine_threadsafe(work, self._open_for(work))
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Close the resource and end the thread. Closing twice is allowed."""
        if self._loop.is_closed():
            return
        try:
            self._end()
        finally:
            _stop(self._loop, self._thread)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open_for(self, work: Coroutine[Any, Any, Any]) -> asyncio.AbstractEventLoop:
        if self._loop.is_closed():
            work.close()
            raise Incorrect("it was used after it was closed")
        return self._loop


def _stop(loop: asyncio.AbstractEventLoop, thread: Thread) -> None:
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
