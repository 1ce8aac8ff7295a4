"""The synchronous methods of LangGraph's checkpointers and stores, through the async ones.

LangGraph declares every method twice. A graph that is run with ``invoke`` calls the synchronous
ones from its own threads; the work is done on the event loop on which the checkpointer or store was
created. They block, so the thread of that loop must not call them. ``opened_in_thread`` creates one
for a program without an event loop.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, TypeVar

from ctxmgr import ExtraMissing, Incorrect, Store, Unavailable, open_store
from ctxmgr.integrations.document_kinds import KINDS
from ctxmgr.integrations.loop_thread import LoopThread

try:
    from langchain_core.runnables import RunnableConfig as Config
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from langgraph.store.base import BaseStore, Op, Result
except ImportError as error:
    raise ExtraMissing(extra="langgraph") from error

SECONDS_MAX: Final = 60.0
"""For one synchronous call; only a store that cannot be reached takes longer."""

T = TypeVar("T")


@contextmanager
def opened_in_thread(url: str, make: Callable[[Store], T]) -> Iterator[T]:
    """Open a store on an event loop in a thread of its own, and yield what is made of it there."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[T]:
        async with await open_store(url, kinds=KINDS) as store:
            yield make(store)

    thread: LoopThread[T] = LoopThread.holding(opened)
    with thread:
        yield thread.held


class PlainCheckpointer(BaseCheckpointSaver[str]):
    """A checkpointer whose async methods a subclass implements."""

    def __init__(self, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self._loop = BackgroundLoop()

    def put(self, *args: Any, **kwargs: Any) -> Config:
        return self._loop.run(self.aput(*args, **kwargs))

    def put_writes(self, *args: Any, **kwargs: Any) -> None:
        return self._loop.run(self.aput_writes(*args, **kwargs))

    def get_tuple(self, config: Config) -> CheckpointTuple | None:
        return self._loop.run(self.aget_tuple(config))

    def list(self, config: Config | None, **kwargs: Any) -> Iterator[CheckpointTuple]:
        async def collect() -> Sequence[CheckpointTuple]:
            return [checkpoint async for checkpoint in self.alist(config, **kwargs)]

        return iter(self._loop.run(collect()))

    def delete_thread(self, thread_id: str) -> None:
        self._loop.run(self.adelete_thread(thread_id))


class PlainStore(BaseStore):
    """A store whose ``abatch`` a subclass implements."""

    def __init__(self) -> None:
        self._loop = BackgroundLoop()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return self._loop.run(self.abatch(ops))


class BackgroundLoop:
    """The event loop on which it was created, for calls from other threads."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for its result."""
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is self._loop or self._loop.is_closed():
            work.close()
            raise Incorrect(
                "a synchronous method was called on the store's event loop, or after the loop was"
                " closed; use the async method"
            )
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(SECONDS_MAX)
        except TimeoutError as error:
            future.cancel()
            raise Unavailable(f"the store did not answer within {SECONDS_MAX} s") from error
