"""Distribute the store's events to all subscribers. Runs one task while there are any.

    store's feed ─► events of a page, encoded once ─► a bounded queue for each subscriber

A slow subscriber fills only its own queue: it is dropped with a last event that says so, and can
resume from the last event it received. No subscriber waits for another.
"""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from typing import Any, Final

import orjson

from ctxmgr.core.events.events import Event, EventId, SetsChanged, ToolCallCreated
from ctxmgr.core.events.listeners import FEED_PAGE, derived, stored_events
from ctxmgr.core.objects.envelope import chat_id
from ctxmgr.core.store.contract import Store
from ctxmgr.errors import CtxmgrError, Unavailable
from ctxmgr.surfaces.encoding import plain
from ctxmgr.surfaces.views.lookup import require_session

POLL_SECONDS: Final = 0.1
"""Between two reads of the feed: other processes write too, and stores do not notify. Events that
arrive in between are sent to each subscriber in one write."""

RETRY_SECONDS: Final = 2.0
"""Before the feed is read again after it was unavailable."""

QUEUE_PAGES_MAX: Final = 64
"""Pages queued for one subscriber: six seconds of a busy store. All subscribers share the pages'
memory."""

LISTENERS_MAX: Final = 1_000

HEARTBEAT_SECONDS: Final = 15.0
"""Of silence, after which a comment keeps proxies from closing the connection."""

SESSION_INDEX: Final = "session_index"

_log = logging.getLogger(__name__)


class SessionFilter:
    """Selects the events of one session: its own, and those of the objects it has seen."""

    def __init__(self, session_id: str, object_ids: Iterable[str]) -> None:
        self._session_id = session_id
        self._chat = chat_id(session_id)
        self._object_ids = set(object_ids)

    def __call__(self, events: Sequence[Event]) -> list[Event]:
        """Select from the events of one transaction, which may add objects to the session."""
        for event in events:
            if isinstance(event, SetsChanged) and event.session_id == self._session_id:
                self._object_ids.update(event.added if event.set_name == SESSION_INDEX else ())
        return [event for event in events if self._is_wanted(event)]

    def _is_wanted(self, event: Event) -> bool:
        if isinstance(event, ToolCallCreated):
            return event.chat_ref == self._chat or event.object_id in self._object_ids
        of = getattr(event, "session_id", None)
        return (
            of == self._session_id if of else getattr(event, "object_id", None) in self._object_ids
        )


class Subscriber:
    """A queue of what one connection has not been sent."""

    def __init__(
        self, *, joined: int | None, last: EventId | None, pick: SessionFilter | None
    ) -> None:
        self.joined = joined
        """The last transaction before those in the queue; None: the queue starts with the first."""
        self._last_seen = last
        """The last event it had when it joined, until the reader has passed it; then None."""
        self._pick = pick
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(QUEUE_PAGES_MAX)
        self._last: bytes | None = None

    def offer(self, page: Sequence[Sequence[Event]], encoded: bytes) -> None:
        """Queue a page, already encoded; if the queue is full, the subscriber is dropped."""
        if self._last is not None:
            return
        if self._last_seen is not None:
            page = [[event for event in events if event.id > self._last_seen] for events in page]
            encoded = b"".join(frame(event) for events in page for event in events)
            self._last_seen = None if any(page) else self._last_seen
        if self._pick is not None:
            encoded = b"".join(frame(event) for events in page for event in self._pick(events))
        if not encoded:
            return
        if self._queue.full():
            self._drop()
        else:
            self._queue.put_nowait(encoded)

    def end(self, last: bytes) -> None:
        """End the stream after the queued events, with a last frame."""
        if self._last is not None:
            return
        if self._queue.full():
            self._drop()
        self._last = last
        if self._queue.empty():
            self._queue.put_nowait(b"")

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield queued events, all at once, until the stream ends."""
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    parts = [await self._queue.get()]
            except TimeoutError:
                yield HEARTBEAT
                continue
            while not self._queue.empty():
                parts.append(self._queue.get_nowait())
            if self._last is not None:
                yield b"".join([*parts, self._last])
                return
            yield b"".join(parts)

    def _drop(self) -> None:
        while not self._queue.empty():
            self._queue.get_nowait()
        message = f"{QUEUE_PAGES_MAX} pages of events were waiting; connect again to resume"
        self._last = last_frame("dropped", "unavailable", message)
        self._queue.put_nowait(b"")


class EventHub:
    """All subscribers to one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._listeners: set[Subscriber] = set()
        self._starting = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._position: int | None = None
        self._closed = False

    async def stream(
        self, *, last: EventId | None, session_id: str | None, follow: bool
    ) -> AsyncGenerator[bytes]:
        """Yield the events after ``last`` and all new ones; None: only new ones.

        Past events are read from the store first, so that the queue need not hold them.
        """
        pick = None
        if session_id is not None:
            session = await require_session(self._store, session_id)
            pick = SessionFilter(session.session_id, session.session_index)
        if last is not None:
            # An id after the next event is from another store, or from this one before it was
            # restored from a backup; unchanged, it would skip events until the store catches up.
            newest = (await self._store.status()).sequence
            last = min(last, EventId(0 if newest is None else newest + 1, -1))
            async for events in stored_events(self._store, last):
                last = events[-1].id if events else last
                yield b"".join(map(frame, events if pick is None else pick(events)))
        if not follow:
            return
        listener = await self._join(last, pick)
        try:
            yield GREETING
            async for chunk in self._rest(listener, last, pick):
                yield chunk
            async for chunk in listener.chunks():
                yield chunk
        finally:
            self._listeners.discard(listener)
            if not self._listeners:
                await self._stop()

    async def close(self) -> None:
        """End every stream with a last event, and the reader."""
        self._closed = True
        for listener in self._listeners:
            listener.end(
                last_frame("closing", "unavailable", "the server is closing; connect again later")
            )
        await self._stop()

    async def _rest(
        self, listener: Subscriber, last: EventId | None, pick: SessionFilter | None
    ) -> AsyncIterator[bytes]:
        """Yield what was committed after the last event read and before the queue."""
        if last is None or listener.joined is None:
            return
        async for events in stored_events(self._store, last):
            if events and events[0].id.sequence > listener.joined:
                return
            yield b"".join(map(frame, events if pick is None else pick(events)))

    async def _join(self, last: EventId | None, pick: SessionFilter | None) -> Subscriber:
        if self._closed or len(self._listeners) >= LISTENERS_MAX:
            raise Unavailable(f"the server is closing, or has {LISTENERS_MAX} listeners already")
        async with self._starting:
            if self._task is None:
                self._position = (await self._store.status()).sequence
                self._task = asyncio.create_task(self._read())
            listener = Subscriber(joined=self._position, last=last, pick=pick)
            self._listeners.add(listener)
        return listener

    async def _stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _read(self) -> None:
        while True:
            try:
                full = await self._read_page()
            except Unavailable as error:
                _log.warning("the feed cannot be read, retrying: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            except CtxmgrError as error:
                _log.exception("the feed cannot be read; every stream ends")
                self._task = None
                for listener in self._listeners:
                    listener.end(last_frame("failed", error.code, str(error)))
                return
            if not full:
                await asyncio.sleep(POLL_SECONDS)

    async def _read_page(self) -> bool:
        """Pass a page to every subscriber; return whether there may be another."""
        page = await self._store.feed(after=self._position, limit=FEED_PAGE)
        if not page:
            return False
        events = [await derived(self._store, transaction) for transaction in page]
        encoded = b"".join(
            frame(event) for transaction_events in events for event in transaction_events
        )
        self._position = page[-1].sequence
        for listener in self._listeners:
            listener.offer(events, encoded)
        return len(page) == FEED_PAGE


def frame(event: Event) -> bytes:
    """Encode an event for ``text/event-stream``."""
    event_id = f"{event.id.sequence}.{event.id.position}"
    return f"id: {event_id}\nevent: {event.name}\ndata: ".encode() + _line(event) + b"\n\n"


def last_frame(name: str, code: str, message: str) -> bytes:
    """Encode the last event of a stream. It has no id, so clients resume from the one before."""
    body = {"code": code, "message": message}
    return f"event: {name}\ndata: ".encode() + orjson.dumps(body) + b"\n\n"


def _line(value: Any) -> bytes:
    value = plain(value)
    try:
        return orjson.dumps(value)
    except TypeError:  # an integer beyond 64 bits
        return json.dumps(value, ensure_ascii=False).encode()


GREETING: Final = b": listening\n\n"
HEARTBEAT: Final = b": still here\n\n"
