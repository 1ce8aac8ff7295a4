"""Events as a stream: complete, in order, resumed, and nobody waits for a slow listener."""

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
    """Join, and be sure of it."""
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


async def test_everybody_hears_everything_in_order(store: Store) -> None:
    """One reader of the feed serves all: none misses one, and none hears one twice."""
    hub = EventHub(store)
    streams = [await listening(hub) for _ in range(5)]
    names = [f"c{number:03}" for number in range(250)]
    for name in names:
        await call(store, name)

    result = await asyncio.gather(*(read_ids(stream, count=len(names)) for stream in streams))

    assert result == [names] * 5
    await hub.close()


async def test_who_comes_back_goes_on_after_the_last_it_has(store: Store) -> None:
    """What happened meanwhile is read from the store, then what is to come follows."""
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
async def test_who_is_ahead_of_a_restored_store_hears_what_is_new(
    store: Store, *, is_read: bool
) -> None:
    """A browser comes back by itself with an id that the backup has not reached."""
    newest = await call(store, "kept")
    hub = EventHub(store)
    if is_read:
        await listening(hub)

    stream = await listening(hub, last=EventId(newest.sequence + 2, 0))
    for name in ("c1", "c2", "c3"):
        await call(store, name)

    assert await read_ids(stream, count=3) == ["c1", "c2", "c3"]
    await hub.close()


async def test_who_is_ahead_of_an_empty_store_hears_its_first_event(store: Store) -> None:
    """There is no newest transaction that it could be compared with."""
    hub = EventHub(store)

    stream = await listening(hub, last=EventId(7, 0))
    await call(store, "c1")

    assert await read_ids(stream, count=1) == ["c1"]
    await hub.close()


async def test_who_has_more_than_the_reader_hears_nothing_twice(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader looks ten times a second; whoever joins in between has read the store itself."""
    monkeypatch.setattr(event_hub, "POLL_SECONDS", 0.5)
    hub = EventHub(store)
    other = await listening(hub)
    await call(store, "c0")
    assert await read_ids(other, count=1) == ["c0"]  # and now the reader waits
    for name in ("c1", "c2"):
        await call(store, name)

    stream = await listening(hub, last=START)
    await call(store, "c3")

    assert await read_ids(stream, count=1) == ["c3"]
    await hub.close()


async def test_nothing_is_lost_between_reading_on_and_joining(store: Store) -> None:
    """A write that comes just as a listener joins is told once, by one of the two."""
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


async def test_a_slow_listener_is_dropped_and_the_others_go_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last event says so, without an id: it comes back with the last that it has."""
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
    """What stands between closes connections on which nothing comes."""
    monkeypatch.setattr(event_hub, "HEARTBEAT_SECONDS", 0.01)
    hub = EventHub(store)

    stream = await listening(hub)

    assert await _next(stream) == HEARTBEAT
    await hub.close()


async def test_the_feed_is_read_only_while_somebody_listens(store: Store) -> None:
    """A server that nobody listens to leaves the store alone."""
    hub = EventHub(store)
    async with aclosing(await listening(hub)):
        assert hub._task is not None

    assert hub._task is None
    await call(store, "unheard")
    async with aclosing(await listening(hub)) as stream:
        await call(store, "c1")
        assert await read_ids(stream, count=1) == ["c1"]


async def test_only_so_many_may_listen(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one is told so, before a stream begins."""
    monkeypatch.setattr(event_hub, "LISTENERS_MAX", 1)
    hub = EventHub(store)
    await listening(hub)

    with pytest.raises(Unavailable, match="1 listeners"):
        await listening(hub)
    await hub.close()


class Failing:
    """A store whose feed fails as it is told to, and then is itself again."""

    def __init__(self, store: Store, error: Exception) -> None:
        self._store = store
        self._errors = [error]

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def feed(self, **asked: object) -> object:
        if self._errors:
            raise self._errors.pop()
        return await self._store.feed(**asked)  # type: ignore[arg-type]


async def test_a_store_that_is_away_for_a_while_is_waited_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Listeners stay, and miss nothing."""
    monkeypatch.setattr(event_hub, "RETRY_SECONDS", 0.01)
    hub = EventHub(Failing(store, Unavailable("away")))  # type: ignore[arg-type]
    stream = await listening(hub)

    await call(store, "c1")

    assert await read_ids(stream, count=1) == ["c1"]
    await hub.close()


async def test_a_feed_that_is_damaged_is_told_and_not_hidden(store: Store) -> None:
    """A stream that went silent would look like one on which nothing happens."""
    hub = EventHub(Failing(store, Corrupt("damaged")))  # type: ignore[arg-type]
    stream = await listening(hub)

    (last,) = events_of((await _next(stream)).decode())

    assert (last["event"], last["data"]["code"]) == ("failed", "corrupt")
    await hub.close()


async def test_a_session_that_is_not_there_cannot_be_listened_to(store: Store) -> None:
    """A mistyped name must not give a stream on which nothing ever comes."""
    with pytest.raises(NotFound):
        await _next(EventHub(store).stream(last=None, session_id="nobody", follow=True))


def test_a_change_is_heard_over_the_network(worked: Worked) -> None:
    """What one client changes over HTTP, or anybody in the store, another sees at once."""
    with serving(worked.url) as server, _stream(server, session=worked.sid) as lines:
        server.post("/unpin", session=worked.sid, object_id=f"{worked.sid}-1")
        result = _until(lines, "event: sets_changed")

    assert f'"removed":["{worked.sid}-1"]' in result


def test_last_event_id_resumes_over_the_network(worked: Worked) -> None:
    """The header that a browser sends by itself; it is stronger than the query."""
    with serving(worked.url) as server:
        everything = events_of(server.get("/events", after="start", follow="false").text)
        own = [item for item in everything if worked.sid in str(item["data"])]
        rest = httpx.get(
            f"{server.url}/events?after=start&follow=false",
            headers={"last-event-id": own[-3]["id"]},
            timeout=WAIT_SECONDS,
        )

    assert [each["id"] for each in events_of(rest.text)][:2] == [own[-2]["id"], own[-1]["id"]]


def test_a_wrong_question_is_refused_before_the_stream(worked_here: Server) -> None:
    """A status can only be told before the first event."""
    wrong = [{"after": "yesterday"}, {"after": "1"}, {"follow": "maybe"}, {"colour": "red"}]

    answers = [worked_here.get("/events", **query) for query in wrong]

    assert [answer.status_code for answer in answers] == [400] * 4
    assert {entry.json()["error"]["code"] for entry in answers} == {"incorrect"}


def test_streams_end_with_a_word_when_the_server_ends(worked_here: Server) -> None:
    """A client knows that it may come back, and the server does not wait for it."""
    with _stream(worked_here) as lines:
        code = worked_here.end()
        result = _until(lines, "event: closing")

    assert code == 143
    assert "connect again" in result


@pytest.fixture
async def worked_here(home: Path) -> AsyncIterator[Server]:
    """A server on a store that holds one event."""
    url = f"sqlite:///{home}/one.db"
    async with await ctxmgr.open_store(url) as store:
        await call(store, "c1")
    with serving(url) as running:
        yield running


@contextmanager
def _stream(server: Server, **query: str) -> Iterator[Iterator[str]]:
    """Listen; by the time it is given, nothing is missed."""
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
