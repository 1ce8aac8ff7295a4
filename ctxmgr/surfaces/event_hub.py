"""One reader of the store's feed, and everybody who listens. Runs one task while anybody does.

    store's feed ─► events of a page, encoded once ─► a bounded queue for each listener

Whoever is slow fills a queue of its own: it is dropped with a last event that says so, and goes on
from the last one it has. Nobody waits for anybody.
"""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from typing import Any, Final

import orjson

from ctxmgr.core.envelopes import chat_id
from ctxmgr.core.events import Event, EventId, SetsChanged, ToolCallCreated
from ctxmgr.core.listening import derived, told_after
from ctxmgr.core.store import Store
from ctxmgr.errors import CtxmgrError, Unavailable
from ctxmgr.surfaces.naming import require_session
from ctxmgr.surfaces.tables import plain

POLL_SECONDS: Final = 0.1
"""Between two looks at the feed: other processes write too, and no store tells of it. Events that
come in between share a write to each listener."""

RETRY_SECONDS: Final = 2.0
"""Before the feed is asked again after it could not be reached."""

FEED_PAGE: Final = 100
"""Transactions read at once."""

QUEUE_PAGES_MAX: Final = 64
"""Pages that wait for one listener: six seconds of a busy store, and as its memory the pages
themselves, which all listeners share."""

LISTENERS_MAX: Final = 1_000

HEARTBEAT_SECONDS: Final = 15.0
"""Of silence, after which a comment keeps what stands between from closing the connection."""

SESSION_INDEX: Final = "session_index"

_log = logging.getLogger(__name__)


class OfSession:
    """Picks the events of one session: its own, and those of the objects it has met."""

    def __init__(self, session_id: str, met: Iterable[str]) -> None:
        self._session_id = session_id
        self._chat = chat_id(session_id)
        self._met = set(met)

    def __call__(self, events: Sequence[Event]) -> list[Event]:
        """Pick from the events of one transaction, in which objects may be met."""
        for each in events:
            if isinstance(each, SetsChanged) and each.session_id == self._session_id:
                self._met.update(each.added if each.set_name == SESSION_INDEX else ())
        return [each for each in events if self._is_wanted(each)]

    def _is_wanted(self, event: Event) -> bool:
        if isinstance(event, ToolCallCreated):
            return event.chat_ref == self._chat or event.object_id in self._met
        of = getattr(event, "session_id", None)
        return of == self._session_id if of else getattr(event, "object_id", None) in self._met


class Listener:
    """A queue of what one connection has not been sent."""

    def __init__(self, *, joined: int | None, last: EventId | None, pick: OfSession | None) -> None:
        self.joined = joined
        """The last transaction before those of the queue; None: it begins with the first."""
        self._known = last
        """The last it had when it joined, which the reader may not have reached; None: it has."""
        self._pick = pick
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(QUEUE_PAGES_MAX)
        self._last: bytes | None = None

    def offer(self, page: Sequence[Sequence[Event]], encoded: bytes) -> None:
        """Take a page, encoded as a whole; one that finds the queue full ends it."""
        if self._last is not None:
            return
        if self._known is not None:
            page = [[each for each in events if each.id > self._known] for events in page]
            encoded = b"".join(frame(each) for events in page for each in events)
            self._known = None if any(page) else self._known
        if self._pick is not None:
            encoded = b"".join(frame(each) for events in page for each in self._pick(events))
        if not encoded:
            return
        if self._queue.full():
            self._drop()
        else:
            self._queue.put_nowait(encoded)

    def end(self, last: bytes) -> None:
        """Let it have what waits, and this."""
        if self._last is not None:
            return
        if self._queue.full():
            self._drop()
        self._last = last
        if self._queue.empty():
            self._queue.put_nowait(b"")

    async def chunks(self) -> AsyncIterator[bytes]:
        """Give what comes, all that waits at once, until it ends."""
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
        message = f"{QUEUE_PAGES_MAX} pages of events were waiting; connect again to go on"
        self._last = last_frame("dropped", "unavailable", message)
        self._queue.put_nowait(b"")


class Hub:
    """Everybody who listens to one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._listeners: set[Listener] = set()
        self._starting = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._position: int | None = None
        self._closed = False

    async def stream(
        self, *, last: EventId | None, session_id: str | None, follow: bool
    ) -> AsyncGenerator[bytes]:
        """Give the events after ``last``, and those to come; None: only those to come.

        What was missed is read from the store first, so that the queue need not hold it.
        """
        pick = await self._picker(session_id)
        if last is not None:
            last = min(last, await self._next_id())
            async for events in told_after(self._store, last):
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
            await self._leave(listener)

    async def close(self) -> None:
        """End every stream with a last event, and the reader."""
        self._closed = True
        for each in self._listeners:
            each.end(last_frame("closing", "unavailable", "the server ends; connect again later"))
        await self._stop()

    async def _next_id(self) -> EventId:
        """Return what comes before all events to come.

        An id beyond it is of another store, or of this one before it was restored from a backup:
        taken as it is, it would leave out whatever happens until the store has caught up.
        """
        newest = (await self._store.status()).sequence
        return EventId(0 if newest is None else newest + 1, -1)

    async def _picker(self, session_id: str | None) -> OfSession | None:
        if session_id is None:
            return None
        session = await require_session(self._store, session_id)
        return OfSession(session.session_id, session.session_index)

    async def _rest(
        self, listener: Listener, last: EventId | None, pick: OfSession | None
    ) -> AsyncIterator[bytes]:
        """Give what was committed between the last that was read and the first of the queue."""
        if last is None or listener.joined is None:
            return
        async for events in told_after(self._store, last):
            if events and events[0].id.sequence > listener.joined:
                return
            yield b"".join(map(frame, events if pick is None else pick(events)))

    async def _join(self, last: EventId | None, pick: OfSession | None) -> Listener:
        if self._closed or len(self._listeners) >= LISTENERS_MAX:
            raise Unavailable(f"this server ends, or has {LISTENERS_MAX} listeners already")
        async with self._starting:
            if self._task is None:
                self._position = (await self._store.status()).sequence
                self._task = asyncio.create_task(self._read())
            listener = Listener(joined=self._position, last=last, pick=pick)
            self._listeners.add(listener)
        return listener

    async def _leave(self, listener: Listener) -> None:
        self._listeners.discard(listener)
        if not self._listeners:
            await self._stop()

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
                _log.warning("the feed cannot be read, and is asked again: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            except CtxmgrError as error:
                _log.exception("the feed cannot be read; every listener is told")
                self._fail(error)
                return
            if not full:
                await asyncio.sleep(POLL_SECONDS)

    async def _read_page(self) -> bool:
        """Give a page to everybody; return whether there may be another at once."""
        page = await self._store.feed(after=self._position, limit=FEED_PAGE)
        if not page:
            return False
        events = [await derived(self._store, each) for each in page]
        encoded = b"".join(frame(each) for one in events for each in one)
        self._position = page[-1].sequence
        for listener in self._listeners:
            listener.offer(events, encoded)
        return len(page) == FEED_PAGE

    def _fail(self, error: CtxmgrError) -> None:
        self._task = None
        for each in self._listeners:
            each.end(last_frame("failed", error.code, str(error)))


def frame(event: Event) -> bytes:
    """Encode an event as the event streams of HTML have it."""
    place = f"{event.id.sequence}.{event.id.position}"
    return f"id: {place}\nevent: {event.name}\ndata: ".encode() + _line(event) + b"\n\n"


def last_frame(name: str, code: str, message: str) -> bytes:
    """Encode what a stream ends with. It has no id: whoever resumes does so from the one before."""
    told = {"code": code, "message": message}
    return f"event: {name}\ndata: ".encode() + orjson.dumps(told) + b"\n\n"


def _line(value: Any) -> bytes:
    found = plain(value)
    try:
        return orjson.dumps(found)
    except TypeError:  # an integer beyond 64 bits
        return json.dumps(found, ensure_ascii=False).encode()


GREETING: Final = b": listening\n\n"
HEARTBEAT: Final = b": still here\n\n"
