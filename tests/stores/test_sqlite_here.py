"""A task that commits alone is served on the event loop, where the disk is quick."""

import asyncio
from pathlib import Path

import apsw
import pytest

from ctxmgr.core.store import Match, Put
from ctxmgr.errors import Conflict, OutcomeUnknown, Unavailable
from ctxmgr.stores import sqlite_writer
from ctxmgr.stores.sqlite import SqliteStore


class Seen:
    """Counts the groups that the thread commits."""

    def __init__(self, store: SqliteStore, monkeypatch) -> None:
        self.groups: list[int] = []
        commit = store._writer._commit

        def counted(group) -> None:
            self.groups.append(len(group))
            commit(group)

        monkeypatch.setattr(store._writer, "_commit", counted)


@pytest.fixture
async def store(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(sqlite_writer, "HERE_SECONDS_MAX", 3600)  # any disk is quick
    async with await SqliteStore.open(tmp_path / "s.db") as opened:
        opened._writer._commit_seconds = 0
        yield opened


async def test_who_commits_alone_wakes_no_thread(store, monkeypatch):
    """An agent's turn is small transactions in a row: two wake-ups each would be a third."""
    seen = Seen(store, monkeypatch)

    commits = [await store.commit([Put(_note(f"n{number}"))]) for number in range(5)]

    assert seen.groups == []
    assert [each.sequence for each in commits] == [1, 2, 3, 4, 5]


async def test_who_commits_at_once_shares_a_commit(store, monkeypatch):
    """Committed one by one on the event loop, tasks would never meet."""
    seen = Seen(store, monkeypatch)

    await asyncio.gather(*(store.commit([Put(_note(f"n{number}"))]) for number in range(40)))

    assert sum(seen.groups) == 40
    assert len(seen.groups) < 20


@pytest.mark.parametrize(
    "operations",
    [
        [Put({"xt/id": "n", "type": "note", "text": "x" * (sqlite_writer.HERE_BYTES_MAX + 1)})],
        [
            Put({"xt/id": f"n{number}", "type": "note"})
            for number in range(sqlite_writer.HERE_CHANGES_MAX + 1)
        ],
    ],
)
async def test_what_takes_long_is_left_to_the_thread(store, monkeypatch, operations):
    """Other tasks must not wait while a large transaction is laid out."""
    seen = Seen(store, monkeypatch)

    await store.commit(operations)

    assert seen.groups == [1]


async def test_a_slow_disk_is_left_to_the_thread(store, monkeypatch):
    """The event loop waits for no flush that takes longer than its other work."""
    seen = Seen(store, monkeypatch)
    monkeypatch.setattr(sqlite_writer, "HERE_SECONDS_MAX", 0)

    await store.commit([Put(_note("n"))])

    assert seen.groups == [1]


async def test_another_process_that_writes_is_waited_for_by_the_thread(store, tmp_path: Path):
    """Ten seconds of waiting for a lock are not spent on the event loop."""
    other = apsw.Connection(str(tmp_path / "s.db"))
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.create_task(store.commit([Put(_note("n"))]))
    while not store._writer._in_thread:  # noqa: ASYNC110 (it is the writer's, and no event)
        await asyncio.sleep(0)

    other.execute("ROLLBACK")
    other.close()

    assert (await waiting).sequence == 1


async def test_a_refused_commit_leaves_nothing_behind(store):
    """A conflict is told as it is by the thread, and the next commit is not disturbed."""
    with pytest.raises(Conflict):
        await store.commit([Match("n", "no-such"), Put(_note("n"))])

    assert (await store.commit([Put(_note("n"))])).sequence == 1


async def test_who_is_cancelled_while_the_thread_writes_leaves_it_the_connection(
    store, monkeypatch
):
    """Two threads in one transaction would write each other's halves."""
    task = asyncio.create_task(store.commit([Put(_note(f"m{number}")) for number in range(20)]))
    while not store._writer._in_thread:  # noqa: ASYNC110 (it is the writer's, and no event)
        await asyncio.sleep(0)
    task.cancel()

    await store.commit([Put(_note("n"))])

    assert len(await store.get_many([f"m{number}" for number in range(20)])) == 20


async def test_a_connection_that_cannot_roll_back_writes_no_more(store):
    """Nobody knows what the next COMMIT would make durable."""
    store._writer._connection = _Stuck(store._writer._connection)
    with pytest.raises(OutcomeUnknown, match="disk I/O error"):
        await store.commit([Put(_note("a"))])

    with pytest.raises(Unavailable, match="open it again"):
        await store.commit([Put(_note("b"))])

    assert await store.get("b") is None


async def test_what_breaks_after_a_commit_is_durable_is_an_unknown_outcome(store):
    """SQLite calls whoever keeps its log within the COMMIT; that nothing was written is a lie."""
    store._writer._connection.set_wal_hook(lambda *_: 1 / 0)

    with pytest.raises(OutcomeUnknown, match="division") as unknown:
        await store.commit([Put(_note("a"))])

    assert (await store.commit([Put(_note("a"))], key=unknown.value.key)).repeated


async def test_what_sqlite_rolled_back_is_not_told_as_committed(store, monkeypatch):
    """It may do so by itself; whoever was told 'durable' would have lost a transaction."""
    apply = store._writer._applier.apply

    def rolled_back(job):
        commit = apply(job)
        store._writer._connection.execute("ROLLBACK")
        return commit

    with monkeypatch.context() as broken:
        broken.setattr(store._writer._applier, "apply", rolled_back)
        with pytest.raises(Unavailable, match="nothing was written"):
            await store.commit([Put(_note("a"))])

    assert await store.get("a") is None
    assert (await store.commit([Put(_note("a"))])).sequence == 1


async def test_a_job_that_fails_halfway_begins_no_second_time(store, tmp_path: Path, monkeypatch):
    """Nobody else's work is to be saved, and the lock may be another's by then."""
    apply = store._writer._applier.apply
    calls = []

    def failing(job):
        calls.append(apply(job))
        raise OverflowError("large")

    monkeypatch.setattr(store._writer._applier, "apply", failing)

    with pytest.raises(Unavailable, match="large"):
        await store.commit([Put(_note("a"))])

    assert len(calls) == 1
    assert await store.get("a") is None


async def test_an_interrupt_leaves_no_transaction_open(store, monkeypatch):
    """Ctrl-C may come between two statements; the next commit must not finish what it cut off."""
    apply = store._writer._applier.apply

    def interrupted(job):
        apply(job)
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(store._writer._applier, "apply", interrupted)
        committing = store.commit([Put(_note("cut"))])
        committing.send(None)
        with pytest.raises(KeyboardInterrupt):
            committing.send(None)

    assert (await store.commit([Put(_note("next"))])).sequence == 1
    assert await store.get("cut") is None


class _Stuck:
    """A connection whose COMMIT and ROLLBACK fail."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, *rest):
        if statement in {"COMMIT", "ROLLBACK"}:
            raise apsw.IOError("disk I/O error")
        return self._connection.execute(statement, *rest)

    def __getattr__(self, name: str):
        return getattr(self._connection, name)


def _note(object_id: str) -> dict[str, str]:
    return {"xt/id": object_id, "type": "note"}
