"""The log is moved into the file beside the writing, and stays short."""

import threading
from pathlib import Path

import apsw
import pytest

from ctxmgr.core.store import Put
from ctxmgr.stores import sqlite_log
from ctxmgr.stores.sqlite import SqliteStore

PAGE_BYTES = 16_384


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_log, "LOG_PAGES", 40)


async def test_a_log_begins_anew_while_commits_go_on(tmp_path: Path) -> None:
    """A store that is written for hours must not keep a log of hours."""
    async with await SqliteStore.open(tmp_path / "s.db") as store:
        for number in range(400):
            await store.commit([Put(_note(f"n{number}"))])

        longest = (tmp_path / "s.db-wal").stat().st_size / PAGE_BYTES

    assert longest < 400 * 5


async def test_a_log_that_somebody_reads_is_kept_and_moved_later(tmp_path: Path) -> None:
    """What another process still looks at cannot be moved, and nothing is lost by waiting."""
    async with await SqliteStore.open(tmp_path / "s.db") as store:
        await store.commit([Put(_note("first"))])
        reading = apsw.Connection(str(tmp_path / "s.db"))
        reading.execute("BEGIN")
        before = reading.execute("SELECT count(*) FROM tx").get
        for number in range(60):
            await store.commit([Put(_note(f"n{number}"))])
        seen = reading.execute("SELECT count(*) FROM tx").get
        reading.execute("COMMIT")
        reading.close()
        await store.commit([Put(_note("last"))])

        assert seen == before
        assert len(await store.feed()) == 62


async def test_a_small_store_needs_no_thread(tmp_path: Path) -> None:
    """And a store that was closed leaves none."""
    async with await SqliteStore.open(tmp_path / "s.db") as store:
        await store.commit([Put(_note("n"))])
        small = _threads()
        for number in range(200):
            await store.commit([Put(_note(f"n{number}"))])
        large = _threads()

    assert (small, large, _threads()) == (0, 1, 0)


async def test_a_log_that_cannot_be_moved_costs_no_commit(tmp_path: Path, monkeypatch) -> None:
    """What is in the log is durable; a full disk shows itself where something is written."""
    monkeypatch.setattr(sqlite_log.LogKeeper, "_connected", lambda _: None)
    async with await SqliteStore.open(tmp_path / "s.db") as store:
        for number in range(60):
            await store.commit([Put(_note(f"n{number}"))])

        assert len(await store.feed()) == 60


async def test_a_machine_without_threads_left_costs_no_commit(tmp_path: Path, monkeypatch) -> None:
    """The COMMIT that asks for the thread is durable by then: it must not be told as failed."""

    def refuse(_) -> None:
        raise RuntimeError("can't start new thread")

    async with await SqliteStore.open(tmp_path / "s.db") as store:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        commits = [await store.commit([Put(_note(f"n{number}"))]) for number in range(60)]
        monkeypatch.undo()

        assert [each.sequence for each in commits] == list(range(1, 61))


@pytest.mark.parametrize(("long", "left"), [(60, 0), (200, 60)])
def test_a_log_that_grew_long_is_ended_even_if_others_write(
    tmp_path: Path, monkeypatch, long: int, left: int
) -> None:
    """Several processes hardly leave a moment in which all of it was moved: one has to be made."""
    monkeypatch.setattr(sqlite_log, "LONG_PAGES", long)
    writing = _connected(tmp_path / "s.db")
    keeper = sqlite_log.LogKeeper(writing, url="s", open_=lambda: _connected(tmp_path / "s.db"))

    writing.execute("CREATE TABLE t (b); INSERT INTO t VALUES (zeroblob(1_000_000))")
    keeper.close()

    pages = (tmp_path / "s.db-wal").stat().st_size // PAGE_BYTES
    assert (pages > 0) == (left > 0)
    assert pages >= left


def _connected(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    connection.execute("PRAGMA journal_mode = WAL")
    return connection


def _threads() -> int:
    return sum(each.name == "ctxmgr-sqlite-log" for each in threading.enumerate())


def _note(object_id: str) -> dict[str, str]:
    return {"xt/id": object_id, "type": "note"}
