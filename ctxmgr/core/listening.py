"""Telling listeners what happened, from the store's transactions. Runs one task per listener.

    store's feed ─► events after the last one it handled ─► listener, one at a time, in order

A listener that was away, or whose process crashed, is told everything since. One that fails is
reported and told the same event again after the next transaction; it never fails a turn.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Final, Self

from ctxmgr.core.events import Event, EventId, Listener, compared, derive, unheard
from ctxmgr.core.store import AsOf, Store, Transaction

FEED_PAGE: Final = 100
"""Transactions read at once for a listener: what it holds in memory."""

_log = logging.getLogger(__name__)


class Listening:
    """Every listener of one client, each at its own pace."""

    def __init__(self, store: Store, *, listeners: tuple[Listener, ...]) -> None:
        self._tellings = [_Telling(store, each) for each in listeners]

    async def __aenter__(self) -> Self:
        for each in self._tellings:
            each.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await asyncio.gather(*(each.stop() for each in self._tellings))

    def wake(self) -> None:
        """Say that there may be something new."""
        for each in self._tellings:
            each.wake()

    async def heard(self) -> None:
        """Wait until each listener was told all there was, or failed at it."""
        await asyncio.gather(*(each.heard() for each in self._tellings))


class _Telling:
    def __init__(self, store: Store, listener: Listener) -> None:
        self._store = store
        self._listener = listener
        self._new = asyncio.Event()
        self._idle = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.wake()
        self._task = asyncio.create_task(self._run())

    def wake(self) -> None:
        self._idle.clear()
        self._new.set()

    async def heard(self) -> None:
        await self._idle.wait()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._new.wait()
            self._new.clear()
            try:
                await self._tell()
            except Exception:  # noqa: BLE001 (whatever a listener does wrong)
                _log.exception("listener %s failed; it is told again later", self._listener.name)
            if not self._new.is_set():
                self._idle.set()

    async def _tell(self) -> None:
        last = await self._listener.last_handled()
        async for events in told_after(self._store, last):
            for event in events:
                await self._listener.handle(event)


async def told_after(store: Store, last: EventId | None) -> AsyncIterator[tuple[Event, ...]]:
    """Tell what happened after an event, transaction by transaction, until there is no more."""
    # The last transaction is read once more: of its events only some may have been handled.
    after = None if last is None or last.sequence == 0 else last.sequence - 1
    while page := await store.feed(after=after, limit=FEED_PAGE):
        for transaction in page:
            yield tuple(unheard(await derived(store, transaction), last=last))
        after = page[-1].sequence


async def derived(store: Store, transaction: Transaction) -> tuple[Event, ...]:
    """Tell what happened in one transaction; reads the versions that it replaced."""
    ids = compared(transaction)
    if not ids or transaction.sequence == 0:
        return derive(transaction, before={})
    found = await store.get_many(ids, as_of=AsOf(sequence=transaction.sequence - 1))
    return derive(transaction, before={each: found[each].document for each in found})
