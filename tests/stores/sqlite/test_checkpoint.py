"""Checkpoints run concurrently with the writer and keep the write-ahead log short."""

import threading
from pathlib import Path

import apsw
import pytest

from ctxmgr.core.store.contract import Put
from ctxmgr.stores.sqlite import checkpoint
from ctxmgr.stores.sqlite.store import SqliteStore

PAGE_BYTES = 16_384


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "WAL_PAGES", 40)


async def test_the_wal_restarts_while_commits_continue(tmp_path: Path) -> None:
    """The WAL of a store that is written to for hours must not grow without limit."""
    async with await SqliteStore.open(tmp_path / "s.db") as store:
        for number in range(400):
            await store.commit([Put(_note(f"n{number}"))])

        longest = (tmp_path / "s.db-wal").stat().st_size / PAGE_BYTES

    assert longest < 400 * 5


async def test_a_wal_that_another_process_reads_is_checkpointed_later(tmp_path: Path) -> None:
    """Pages that another process still reads cannot be checkpointed; waiting loses nothing."""
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
    """The thread starts with the first checkpoint, and closing the store ends it."""
    async with await SqliteStore.open(tmp_path / "s.db") as store:
        await store.commit([Put(_note("n"))])
        small = _threads()
        for number in range(200):
            await store.commit([Put(_note(f"n{number}"))])
        large = _threads()

    assert (small, large, _threads()) == (0, 1, 0)


async def test_a_failed_checkpoint_does_not_fail_a_commit(tmp_path: Path, monkeypatch) -> None:
    """A commit in the WAL is durable; a full disk fails the write that needs it."""
    monkeypatch.setattr(checkpoint.WalCheckpointer, "_connect", lambda _: None)
    async with await SqliteStore.open(tmp_path / "s.db") as store:
        for number in range(60):
            await store.commit([Put(_note(f"n{number}"))])

        assert len(await store.feed()) == 60


async def test_a_thread_that_cannot_start_does_not_fail_a_commit(
    tmp_path: Path, monkeypatch
) -> None:
    """The COMMIT that starts the thread is durable by then: it must not be reported as failed."""

    def refuse(_) -> None:
        raise RuntimeError("can't start new thread")

    async with await SqliteStore.open(tmp_path / "s.db") as store:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        commits = [await store.commit([Put(_note(f"n{number}"))]) for number in range(60)]
        monkeypatch.undo()

        assert [commit.sequence for commit in commits] == list(range(1, 61))


@pytest.mark.parametrize(("long", "left"), [(60, 0), (200, 60)])
def test_a_long_wal_is_truncated_even_if_others_write(
    tmp_path: Path, monkeypatch, long: int, left: int
) -> None:
    """With several writers, all of the WAL is hardly ever checkpointed unless they are blocked."""
    monkeypatch.setattr(checkpoint, "TRUNCATE_PAGES", long)
    writing = _connected(tmp_path / "s.db")
    checkpointer = checkpoint.WalCheckpointer(
        writing, url="s", open_=lambda: _connected(tmp_path / "s.db")
    )

    writing.execute("CREATE TABLE t (b); INSERT INTO t VALUES (zeroblob(1_000_000))")
    checkpointer.close()

    pages = (tmp_path / "s.db-wal").stat().st_size // PAGE_BYTES
    assert (pages > 0) == (left > 0)
    assert pages >= left


def _connected(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    connection.execute("PRAGMA journal_mode = WAL")
    return connection


def _threads() -> int:
    return sum(thread.name == "ctxmgr-sqlite-log" for thread in threading.enumerate())


def _note(object_id: str) -> dict[str, str]:
    return {"xt/id": object_id, "type": "note"}
