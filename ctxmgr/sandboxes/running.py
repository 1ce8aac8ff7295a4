"""The commands that a sandbox has under way, so that closing it can end them."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from ctxmgr.core.sandbox import Command, Ran
from ctxmgr.errors import Unavailable


class Running:
    """Every command under way is a task here; after ``end_all`` none can be started."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Ran]] = set()
        self._closed = False

    async def one(self, work: Coroutine[Any, Any, Ran]) -> Ran:
        """Run a command for a caller; cancelling the caller ends it first."""
        if self._closed:
            work.close()
            raise Unavailable("the sandbox is closed")
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await task
        except asyncio.CancelledError:
            if self._closed and not _is_cancelled():
                raise Unavailable("the sandbox was closed meanwhile") from None
            raise

    async def end_all(self) -> None:
        """End every command under way, and wait until all are gone."""
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def shell_words(command: Command) -> tuple[str, ...]:
    """Return the program and arguments that a command stands for."""
    return ("bash", "-c", command) if isinstance(command, str) else tuple(command)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
