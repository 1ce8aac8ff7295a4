"""One deadline per call: a server that hangs, drips, restarts or leaves its work to another."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Any, Final

import pytest

import ctxmgr
from ctxmgr.core.store.contract import Put, Query
from ctxmgr.errors import Incorrect, OutcomeUnknown, Unavailable
from ctxmgr.settings import load_settings
from ctxmgr.stores.xtdb import deadline
from ctxmgr.stores.xtdb.address import read_address
from ctxmgr.stores.xtdb.store import TIMEOUT_S, XtdbStore
from tests.stores.xtdb.scripted_server import Reply, ScriptedServer, edn
from tests.xtdb.servers import PATIENCE_S, XtdbServer, require_xtdb

TIMEOUT: Final = 3.0
SLACK: Final = 2.9
"""Seconds that a busy machine may take to notice that the time is over: no second timeout fits."""

NOTE: Final = {"xt/id": "a", "type": "note", "title": "t"}
ROW: Final = (
    '([{:xt/id "a", :type "note", :title "t", :ctxmgr/tx "k", :ctxmgr/format 1} '
    '#inst "2026-01-01T00:00:00.000-00:00" nil])'
)

CALLS: Final[dict[str, Callable[[XtdbStore], Awaitable[Any]]]] = {
    "get": lambda store: store.get("a"),
    "get_many": lambda store: store.get_many([str(number) for number in range(2_500)]),
    "history": lambda store: store.history("a"),
    "find": lambda store: store.find(Query("note")),
    "feed": lambda store: store.feed(),
    "status": lambda store: store.status(),
    "commit": lambda store: store.commit([Put(NOTE)]),
}


async def _seconds(call: Awaitable[Any]) -> tuple[float, Exception]:
    """Return how long a call took to fail, and its error."""
    started = monotonic()
    with pytest.raises(Unavailable) as failed:
        await call
    return monotonic() - started, failed.value


@pytest.fixture(scope="module")
def server() -> Iterator[XtdbServer]:
    """A server of its own, which the tests stop and kill."""
    require_xtdb()
    with XtdbServer() as running:
        asyncio.run(_warmed_up(running))
        yield running


async def _warmed_up(server: XtdbServer) -> None:
    """The first calls of a new server take longest."""
    async with await XtdbStore.open(f"xtdb+{server.url}", timeout_s=PATIENCE_S) as store:
        await store.commit([Put(NOTE)])
        for call in CALLS.values():
            await call(store)


@asynccontextmanager
async def _stopped(server: XtdbServer) -> AsyncIterator[None]:
    """Let the process hang: the kernel accepts connections for it, and nobody answers."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


@pytest.mark.xtdb
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
async def test_a_hung_server_costs_one_timeout(
    server: XtdbServer, call: Callable[[XtdbStore], Awaitable[Any]]
) -> None:
    """003-R115: an agent waits as long as it was told to, whatever the call, and learns why."""
    async with await XtdbStore.open(f"xtdb+{server.url}", timeout_s=TIMEOUT) as store:
        await store.commit([Put(NOTE)])
        async with _stopped(server):
            seconds, error = await _seconds(call(store))

        assert TIMEOUT - 0.1 <= seconds <= TIMEOUT + SLACK
        assert f"within {TIMEOUT:g} s" in str(error)
        assert (await store.get("a")) is not None


@pytest.mark.xtdb
async def test_ending_a_turn_on_a_hung_server_costs_one_timeout(
    server: XtdbServer, tmp_path: Path
) -> None:
    """003-R112: the transaction is not sent again and again to a server that says nothing."""
    url = f"xtdb+{server.url}?timeout={TIMEOUT:g}"
    async with ctxmgr.connect(url, tracking=False) as client:
        session = await client.start(f"s-{tmp_path.name}", system_prompt="")
        await session.render("hello")
        async with _stopped(server):
            seconds, error = await _seconds(session.end_turn("hi"))

        assert seconds <= TIMEOUT + SLACK
        assert isinstance(error, OutcomeUnknown)
        assert f"within {TIMEOUT:g} s" in str(error)


@pytest.mark.xtdb
async def test_a_server_that_restarts_does_not_end_a_session(tmp_path: Path) -> None:
    """003-R113: what was acknowledged is there, and what is asked meanwhile is answered."""
    require_xtdb()
    server = XtdbServer().start(config="rocksdb", data_dir=tmp_path)
    try:
        async with await XtdbStore.open(f"xtdb+{server.url}", timeout_s=120) as store:
            await store.commit([Put(NOTE)])
            server.kill()
            restarting = asyncio.create_task(asyncio.to_thread(server.restart))

            written, read = await asyncio.gather(
                store.commit([Put({**NOTE, "xt/id": "b"})]), store.get("a")
            )
            await restarting

            assert read is not None
            assert read.document == NOTE
            assert not written.repeated
            assert await store.get("b") is not None
    finally:
        server.stop()


async def test_opening_does_not_wait_for_a_server_that_is_down() -> None:
    """A wrong port is told at once, not after ten seconds."""
    async with ScriptedServer() as server:
        url = server.url

    seconds, error = await _seconds(XtdbStore.open(url))

    assert seconds < TIMEOUT_S
    assert "cannot be reached" in str(error)


async def test_a_reply_that_drips_ends_at_the_deadline() -> None:
    """003-R115: each byte comes in time, and the answer never does."""

    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/edn\r\n\r\n(")
        while not writer.is_closing():
            writer.write(b" ")
            try:
                await writer.drain()
            except ConnectionError:
                break
            await asyncio.sleep(0.02)
        writer.close()
        ended.set()

    ended = asyncio.Event()
    async with ScriptedServer() as server:
        store = await XtdbStore.open(server.url, timeout_s=1.5)
    dripping = await asyncio.start_server(drip, "127.0.0.1", server.port)
    async with dripping:
        async with store:
            seconds, error = await _seconds(store.get("a"))
        await asyncio.wait_for(ended.wait(), 60)

    assert seconds <= 1.5 + SLACK
    assert "within 1.5 s" in str(error)


async def test_a_hung_node_leaves_time_for_the_next() -> None:
    """003-R006: one of two machines hangs, and the other answers within the same call."""
    async with ScriptedServer() as hung, ScriptedServer() as healthy:
        hung.answer("query", Reply(hang=True))
        healthy.answer("query", edn(ROW))
        url = f"{hung.url},127.0.0.1:{healthy.port}"
        async with await XtdbStore.open(url, timeout_s=TIMEOUT) as store:
            started = monotonic()

            assert await store.get("a") is not None

            assert monotonic() - started <= TIMEOUT + SLACK


def test_much_work_gets_more_time() -> None:
    """A server that reads 32 MB or indexes 10,000 documents is busy, not hung (003-R016)."""
    with deadline.call_deadline(TIMEOUT) as call:
        call.extend(transferred_bytes=10 * deadline.BYTES_PER_S)
        call.extend(writes=10 * deadline.WRITES_PER_S)

        assert TIMEOUT + 19 < call.left_s <= TIMEOUT + 20


async def _timeout_of(server: ScriptedServer, url: str, **options: Any) -> str:
    """Return the timeout that a store reports when its server hangs."""
    server.answer("query", Reply(hang=True))
    async with await ctxmgr.open_store(url, **options) as store:
        _, error = await _seconds(store.get("a"))
    return str(error).rpartition("within ")[2]


async def test_the_timeout_is_set_by_argument_url_or_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever starts an agent knows how long it may wait; the nearest word counts."""
    async with ScriptedServer() as server:
        url = f"{server.url}?timeout=1.2"

        assert await _timeout_of(server, url) == "1.2 s"
        assert await _timeout_of(server, url, timeout_s=1.3) == "1.3 s"
        monkeypatch.setenv("CTXMGR_STORE", url)
        assert await _timeout_of(server, None) == "1.2 s"  # type: ignore[arg-type]
        monkeypatch.setenv("CTXMGR_STORE_TIMEOUT", "1.4")
        assert await _timeout_of(server, None) == "1.4 s"  # type: ignore[arg-type]

    assert load_settings().settings.store_timeout == 1.4


@pytest.mark.parametrize("query", ["", "timeout", "timeout=", "timeout=x", "timeout=0", "wait=1"])
def test_a_bad_timeout_in_a_url_is_refused(query: str) -> None:
    """A mistyped parameter would otherwise be ignored (003-R198)."""
    with pytest.raises(Incorrect, match="timeout"):
        read_address(f"xtdb+http://host?{query}")


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan"), 1e9])
async def test_a_bad_timeout_is_refused(timeout_s: float) -> None:
    """No call waits for ever (003-R115)."""
    with pytest.raises(Incorrect, match="timeout"):
        await XtdbStore.open("xtdb+http://127.0.0.1:9", timeout_s=timeout_s)
