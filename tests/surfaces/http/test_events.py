"""Event streams: complete, ordered, resumable, and not delayed by a slow listener."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path

import httpx
import pytest

import ctxmgr
from ctxmgr.core.events.events import EventId
from ctxmgr.core.objects.codec import to_document
from ctxmgr.core.objects.toolcall import ToolCall
from ctxmgr.core.store.contract import Commit, Put, Store
from ctxmgr.errors import Corrupt, NotFound, Unavailable
from ctxmgr.surfaces.http import event_hub
from ctxmgr.surfaces.http.event_hub import GREETING, HEARTBEAT, EventHub
from tests.surfaces.http.servers import WAIT_SECONDS, Server, events_of, serving
from tests.surfaces.worked_sessions import Worked

START = EventId(0, -1)


@pytest.fixture
async def store(home: Path) -> AsyncIterator[Store]:
    async with await ctxmgr.open_store(f"sqlite:///{home}/events.db") as opened:
        yield opened


async def call(store: Store, name: str) -> Commit:
    """Commit one tool call, which is one event."""
    made = ToolCall(
        toolcall_id=name, tool="t", args={}, status="ok", chat_ref="chat:s1", content="."
    )
    return await store.commit([Put(to_document(made))])


async def listening(hub: EventHub, *, last: EventId | None = None) -> AsyncGenerator[bytes]:
    """Subscribe, and wait until the subscription is active."""
    stream = hub.stream(last=last, session_id=None, follow=True)
    while await _next(stream) != GREETING:
        pass
    return stream


async def read_ids(stream: AsyncGenerator[bytes], *, count: int) -> list[str]:
    """Return the ids of the objects that the next events are about."""
    object_ids: list[str] = []
    while len(object_ids) < count:
        events = events_of((await _next(stream)).decode())
        object_ids += [event["data"]["object_id"] for event in events]
    return object_ids


async def _next(stream: AsyncGenerator[bytes]) -> bytes:
    async with asyncio.timeout(WAIT_SECONDS):
        return await anext(stream)


async def test_every_listener_receives_every_event_in_order(store: Store) -> None:
    """One reader of the feed serves all listeners, without gaps or duplicates."""
    hub = EventHub(store)
    streams = [await listening(hub) for _ in range(5)]
    names = [f"c{number:03}" for number in range(250)]
    for name in names:
        await call(store, name)

    result = await asyncio.gather(*(read_ids(stream, count=len(names)) for stream in streams))

    assert result == [names] * 5
    await hub.close()


async def test_a_returning_listener_continues_after_its_last_event(store: Store) -> None:
    """Missed events are read from the store, and then live events follow."""
    first = await call(store, "seen")
    await call(store, "missed")
    hub = EventHub(store)

    stream = hub.stream(last=EventId(first.sequence, 0), session_id=None, follow=True)
    missed = await read_ids(stream, count=1)
    await call(store, "new")

    assert missed == ["missed"]
    assert await read_ids(stream, count=1) == ["new"]
    await hub.close()


@pytest.mark.parametrize("is_read", [False, True], ids=["first", "beside another"])
async def test_a_listener_ahead_of_a_restored_store_receives_new_events(
    store: Store, *, is_read: bool
) -> None:
    """A browser reconnects with an id that the restored backup has not reached."""
    newest = await call(store, "kept")
    hub = EventHub(store)
    if is_read:
        await listening(hub)

    stream = await listening(hub, last=EventId(newest.sequence + 2, 0))
    for name in ("c1", "c2", "c3"):
        await call(store, name)

    assert await read_ids(stream, count=3) == ["c1", "c2", "c3"]
    await hub.close()


async def test_a_listener_ahead_of_an_empty_store_receives_its_first_event(store: Store) -> None:
    """There is no latest transaction to compare its position with."""
    hub = EventHub(store)

    stream = await listening(hub, last=EventId(7, 0))
    await call(store, "c1")

    assert await read_ids(stream, count=1) == ["c1"]
    await hub.close()


async def test_a_listener_ahead_of_the_reader_receives_nothing_twice(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader polls ten times a second; a new listener may have read the store in between."""
    monkeypatch.setattr(event_hub, "POLL_SECONDS", 0.5)
    hub = EventHub(store)
    other = await listening(hub)
    await call(store, "c0")
    assert await read_ids(other, count=1) == ["c0"]  # now the reader waits
    for name in ("c1", "c2"):
        await call(store, name)

    stream = await listening(hub, last=START)
    await call(store, "c3")

    assert await read_ids(stream, count=1) == ["c3"]
    await hub.close()


async def test_nothing_is_lost_between_catching_up_and_subscribing(store: Store) -> None:
    """A write during the subscription is delivered exactly once."""
    await call(store, "c0")
    hub, names = EventHub(store), [f"c{number}" for number in range(60)]
    other = await listening(hub)
    stream = hub.stream(last=START, session_id=None, follow=True)

    async def write() -> None:
        for name in names[1:]:
            await call(store, name)

    async with asyncio.TaskGroup() as group:
        group.create_task(write())
        result = group.create_task(read_ids(stream, count=len(names)))
        group.create_task(read_ids(other, count=len(names) - 1))

    assert result.result() == names
    await hub.close()


async def test_a_slow_listener_is_dropped_and_the_others_continue(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its final event says so and has no id, so it can reconnect with its last id."""
    monkeypatch.setattr(event_hub, "QUEUE_PAGES_MAX", 2)
    hub = EventHub(store)
    slow, fast = await listening(hub), await listening(hub)
    for number in range(4):
        await call(store, f"c{number}")
        assert await read_ids(fast, count=1) == [f"c{number}"]

    (last,) = events_of((await _next(slow)).decode())

    assert (last["id"], last["event"]) == (None, "dropped")
    assert last["data"]["code"] == "unavailable"
    with pytest.raises(StopAsyncIteration):
        await _next(slow)
    again = hub.stream(last=START, session_id=None, follow=False)
    assert await read_ids(again, count=4) == ["c0", "c1", "c2", "c3"]
    await hub.close()


async def test_silence_is_broken_by_a_comment(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proxies close idle connections."""
    monkeypatch.setattr(event_hub, "HEARTBEAT_SECONDS", 0.01)
    hub = EventHub(store)

    stream = await listening(hub)

    assert await _next(stream) == HEARTBEAT
    await hub.close()


async def test_the_feed_is_read_only_while_there_are_listeners(store: Store) -> None:
    """A server without listeners must not poll the store."""
    hub = EventHub(store)
    async with aclosing(await listening(hub)):
        assert hub._task is not None

    assert hub._task is None
    await call(store, "unheard")
    async with aclosing(await listening(hub)) as stream:
        await call(store, "c1")
        assert await read_ids(stream, count=1) == ["c1"]


async def test_the_number_of_listeners_is_limited(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one is refused before its stream starts."""
    monkeypatch.setattr(event_hub, "LISTENERS_MAX", 1)
    hub = EventHub(store)
    await listening(hub)

    with pytest.raises(Unavailable, match="1 listeners"):
        await listening(hub)
    await hub.close()


class Failing:
    """A store whose feed fails once with the given error."""

    def __init__(self, store: Store, error: Exception) -> None:
        self._store = store
        self._errors = [error]

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def feed(self, **asked: object) -> object:
        if self._errors:
            raise self._errors.pop()
        return await self._store.feed(**asked)  # type: ignore[arg-type]


async def test_a_temporarily_unavailable_store_is_retried(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Listeners stay, and miss nothing."""
    monkeypatch.setattr(event_hub, "RETRY_SECONDS", 0.01)
    hub = EventHub(Failing(store, Unavailable("away")))  # type: ignore[arg-type]
    stream = await listening(hub)

    await call(store, "c1")

    assert await read_ids(stream, count=1) == ["c1"]
    await hub.close()


async def test_a_damaged_feed_is_reported(store: Store) -> None:
    """A silent stream would look like one without events."""
    hub = EventHub(Failing(store, Corrupt("damaged")))  # type: ignore[arg-type]
    stream = await listening(hub)

    (last,) = events_of((await _next(stream)).decode())

    assert (last["event"], last["data"]["code"]) == ("failed", "corrupt")
    await hub.close()


async def test_a_missing_session_has_no_stream(store: Store) -> None:
    """A mistyped name must not give a stream without events."""
    with pytest.raises(NotFound):
        await _next(EventHub(store).stream(last=None, session_id="nobody", follow=True))


def test_a_change_is_streamed_over_the_network(worked: Worked) -> None:
    """Changes over HTTP or in the store are visible to other clients at once."""
    with serving(worked.url) as server, _stream(server, session=worked.sid) as lines:
        server.post("/unpin", session=worked.sid, object_id=f"{worked.sid}-1")
        result = _until(lines, "event: sets_changed")

    assert f'"removed":["{worked.sid}-1"]' in result


def test_last_event_id_resumes_over_the_network(worked: Worked) -> None:
    """Browsers send this header automatically; it takes precedence over the query."""
    with serving(worked.url) as server:
        everything = events_of(server.get("/events", after="start", follow="false").text)
        own = [item for item in everything if worked.sid in str(item["data"])]
        rest = httpx.get(
            f"{server.url}/events?after=start&follow=false",
            headers={"last-event-id": own[-3]["id"]},
            timeout=WAIT_SECONDS,
        )

    assert [event["id"] for event in events_of(rest.text)][:2] == [own[-2]["id"], own[-1]["id"]]


def test_an_invalid_request_is_refused_before_the_stream(worked_here: Server) -> None:
    """A status can only be sent before the first event."""
    wrong = [{"after": "yesterday"}, {"after": "1"}, {"follow": "maybe"}, {"colour": "red"}]

    answers = [worked_here.get("/events", **query) for query in wrong]

    assert [answer.status_code for answer in answers] == [400] * 4
    assert {entry.json()["error"]["code"] for entry in answers} == {"incorrect"}


def test_streams_end_with_an_event_when_the_server_stops(worked_here: Server) -> None:
    """Clients know that they may reconnect, and the server need not wait for them."""
    with _stream(worked_here) as lines:
        code = worked_here.end()
        result = _until(lines, "event: closing")

    assert code == 143
    assert "connect again" in result


@pytest.fixture
async def worked_here(home: Path) -> AsyncIterator[Server]:
    """A server on a store with one event."""
    url = f"sqlite:///{home}/one.db"
    async with await ctxmgr.open_store(url) as store:
        await call(store, "c1")
    with serving(url) as running:
        yield running


@contextmanager
def _stream(server: Server, **query: str) -> Iterator[Iterator[str]]:
    """Subscribe; once this returns, no event is missed."""
    with httpx.stream(
        "GET", f"{server.url}/events", params=query, timeout=WAIT_SECONDS
    ) as response:
        lines = response.iter_lines()
        assert next(lines) == ": listening"
        yield lines


def _until(lines: Iterator[str], wanted: str) -> str:
    """Read to an event of this name; return its data."""
    for line in lines:
        if line == wanted:
            return next(lines)
    raise AssertionError(f"the stream ended without {wanted!r}")
