"""Calls from threads without a loop, carried out on the loop that a store lives on.

Frameworks that have every method twice, plain and async, are given the plain one here. It waits,
so the thread of the loop itself must not call it.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from ctxmgr import Incorrect, Unavailable

SECONDS_MAX: Final = 60.0
"""A plain call waits so long: whoever needs more has a store that is not there."""

T = TypeVar("T")


class Loop:
    """The loop that runs where this is made."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Have the work done there, and wait for it."""
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is self._loop or self._loop.is_closed():
            work.close()
            raise Incorrect("called on the store's own event loop, or after it: use the async form")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(SECONDS_MAX)
        except TimeoutError as error:
            future.cancel()
            raise Unavailable(f"the store gave no answer within {SECONDS_MAX} s") from error
