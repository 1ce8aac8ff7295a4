"""Commits that survive a lost reply or a cancelled caller. Runs tasks.

commit_once             send a transaction again if its outcome is unknown
finish_despite_cancel   run a coroutine to completion even if the caller is cancelled
"""

import asyncio
import uuid
from collections.abc import Coroutine, Iterable
from typing import Any, Final, TypeVar

from ctxmgr.core.store.batched import BatchedStore
from ctxmgr.core.store.contract import Commit, Operation, Store
from ctxmgr.errors import OutcomeUnknown

SENDS_MAX: Final = 3
"""How often a transaction is sent if its reply is lost; its key makes that safe."""

T = TypeVar("T")


async def commit_once(store: Store, operations: Iterable[Operation]) -> Commit:
    """Commit, and retry if the outcome is unknown; the transaction is written at most once.

    A store that has used up its time is not asked again: the caller has waited long enough. In a
    batch no key is needed, which saves its digest: what becomes of it is known when it ends.
    """
    if isinstance(store, BatchedStore):
        return await store.commit(operations)
    operations, key = tuple(operations), uuid.uuid4().hex
    for _ in range(SENDS_MAX - 1):
        try:
            return await store.commit(operations, key=key)
        except OutcomeUnknown as error:
            if error.expired:
                raise
    return await store.commit(operations, key=key)


async def finish_despite_cancel(step: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to completion; if the caller is cancelled meanwhile, cancel it afterwards.

    For a transaction and the state that records it: interrupted between the two, the caller would
    not know what it has stored. An error of the coroutine takes precedence over the cancellation.
    """
    task = asyncio.ensure_future(step)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        task.result()
        raise
