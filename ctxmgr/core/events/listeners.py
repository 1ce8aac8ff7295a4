"""Deliver events to listeners, from the store's transactions. Runs one task per listener.

    store's feed ─► events after the last one handled ─► listener, one at a time, in order

A listener that was not running, or whose process crashed, receives everything since. If it fails,
this is logged, and the same event is delivered again after the next transaction; a listener never
fails a turn.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Final, Self

from ctxmgr.core.events.derive import compared, derive, events_after
from ctxmgr.core.events.events import Event, EventId, Listener
from ctxmgr.core.store.contract import AsOf, Store, Transaction

FEED_PAGE: Final = 100
"""Transactions in one read. A page is held in memory per listener."""

_log = logging.getLogger(__name__)


class ListenerFeed:
    """The listeners of one client, each with its own task."""

    def __init__(self, store: Store, *, listeners: tuple[Listener, ...]) -> None:
        self._deliveries = [_Delivery(store, listener) for listener in listeners]

    async def __aenter__(self) -> Self:
        for delivery in self._deliveries:
            delivery.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await asyncio.gather(*(delivery.stop() for delivery in self._deliveries))

    async def committed(self, _: object = None) -> None:
        """Wake the listeners after a commit."""
        for delivery in self._deliveries:
            delivery.wake()

    async def heard(self) -> None:
        """Wait until every listener has handled all events so far, or has failed."""
        await asyncio.gather(*(delivery.idle() for delivery in self._deliveries))


class _Delivery:
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

    async def idle(self) -> None:
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
                last = await self._listener.last_handled()
                async for events in stored_events(self._store, last):
                    for event in events:
                        await self._listener.handle(event)
            except Exception:  # noqa: BLE001 (whatever a listener does wrong)
                _log.exception("listener %s failed; it will be retried", self._listener.name)
            if not self._new.is_set():
                self._idle.set()


async def stored_events(store: Store, last: EventId | None) -> AsyncIterator[tuple[Event, ...]]:
    """Yield the events after ``last``, transaction by transaction, up to the newest."""
    # The last transaction is read again: only some of its events may have been handled.
    after = None if last is None or last.sequence == 0 else last.sequence - 1
    while page := await store.feed(after=after, limit=FEED_PAGE):
        for transaction in page:
            yield tuple(events_after(await derived(store, transaction), last=last))
        after = page[-1].sequence


async def derived(store: Store, transaction: Transaction) -> tuple[Event, ...]:
    """Return the events of one transaction; reads the versions that it replaced."""
    ids = compared(transaction)
    if not ids or transaction.sequence == 0:
        return derive(transaction, before={})
    versions = await store.get_many(ids, as_of=AsOf(sequence=transaction.sequence - 1))
    before = {object_id: version.document for object_id, version in versions.items()}
    return derive(transaction, before=before)
