"""A step that a cancellation waits for. Runs it as a task of its own."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def uncut(step: Coroutine[Any, Any, T]) -> T:
    """Do the step to its end; a cancellation that came meanwhile goes on after it.

    For a transaction and what is noted of it here: cut between the two, the caller would not know
    what it has stored. An error of the step goes before the cancellation.
    """
    task = asyncio.ensure_future(step)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        task.result()
        raise
