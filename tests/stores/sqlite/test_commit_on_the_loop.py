"""A task that commits alone commits on the event loop if the disk is fast."""

import asyncio
from pathlib import Path

import apsw
import pytest

from ctxmgr.core.store.contract import Match, Put
from ctxmgr.errors import Conflict, OutcomeUnknown, Unavailable
from ctxmgr.stores.sqlite import writer
from ctxmgr.stores.sqlite.store import SqliteStore


class ThreadGroups:
    """Records the sizes of the groups that the thread commits."""

    def __init__(self, store: SqliteStore, monkeypatch) -> None:
        self.groups: list[int] = []
        commit = store._writer._commit_group

        def counted(group) -> None:
            self.groups.append(len(group))
            commit(group)

        monkeypatch.setattr(store._writer, "_commit_group", counted)


@pytest.fixture
async def store(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(writer, "INLINE_SECONDS_MAX", 3600)  # every disk is fast enough
    async with await SqliteStore.open(tmp_path / "s.db") as opened:
        opened._writer._commit_seconds = 0
        yield opened


async def test_a_single_task_does_not_wake_the_thread(store, monkeypatch):
    """An agent's turn is a series of small transactions; two wake-ups each would add a third."""
    thread = ThreadGroups(store, monkeypatch)

    commits = [await store.commit([Put(_note(f"n{number}"))]) for number in range(5)]

    assert thread.groups == []
    assert [commit.sequence for commit in commits] == [1, 2, 3, 4, 5]


async def test_concurrent_tasks_share_a_commit(store, monkeypatch):
    """If each committed inline, tasks would never form a group."""
    thread = ThreadGroups(store, monkeypatch)

    await asyncio.gather(*(store.commit([Put(_note(f"n{number}"))]) for number in range(40)))

    assert sum(thread.groups) == 40
    assert len(thread.groups) < 20


@pytest.mark.parametrize(
    "operations",
    [
        [Put({"xt/id": "n", "type": "note", "text": "x" * (writer.INLINE_BYTES_MAX + 1)})],
        [
            Put({"xt/id": f"n{number}", "type": "note"})
            for number in range(writer.INLINE_CHANGES_MAX + 1)
        ],
    ],
)
async def test_a_large_transaction_is_committed_by_the_thread(store, monkeypatch, operations):
    """Other tasks must not wait while a large transaction is applied."""
    thread = ThreadGroups(store, monkeypatch)

    await store.commit(operations)

    assert thread.groups == [1]


async def test_the_thread_commits_on_a_slow_disk(store, monkeypatch):
    """The event loop must not wait for a slow flush."""
    thread = ThreadGroups(store, monkeypatch)
    monkeypatch.setattr(writer, "INLINE_SECONDS_MAX", 0)

    await store.commit([Put(_note("n"))])

    assert thread.groups == [1]


async def test_the_thread_waits_for_the_lock_of_another_process(store, tmp_path: Path):
    """Waiting for a lock can take ten seconds, and must not block the event loop."""
    other = apsw.Connection(str(tmp_path / "s.db"))
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.create_task(store.commit([Put(_note("n"))]))
    while not store._writer._thread_jobs:  # noqa: ASYNC110 (the writer has no event for it)
        await asyncio.sleep(0)

    other.execute("ROLLBACK")
    other.close()

    assert (await waiting).sequence == 1


async def test_a_refused_commit_leaves_nothing_behind(store):
    """A conflict is reported as it is by the thread, and the next commit is not affected."""
    with pytest.raises(Conflict):
        await store.commit([Match("n", "no-such"), Put(_note("n"))])

    assert (await store.commit([Put(_note("n"))])).sequence == 1


async def test_after_a_cancelled_commit_the_thread_keeps_the_connection(store, monkeypatch):
    """Two threads in one transaction would commit each other's partial writes."""
    task = asyncio.create_task(store.commit([Put(_note(f"m{number}")) for number in range(20)]))
    while not store._writer._thread_jobs:  # noqa: ASYNC110 (the writer has no event for it)
        await asyncio.sleep(0)
    task.cancel()

    await store.commit([Put(_note("n"))])

    assert len(await store.get_many([f"m{number}" for number in range(20)])) == 20


async def test_a_connection_that_cannot_roll_back_stops_writing(store):
    """The next COMMIT would make the failed transaction durable."""
    store._writer._connection = _Stuck(store._writer._connection)
    with pytest.raises(OutcomeUnknown, match="disk I/O error"):
        await store.commit([Put(_note("a"))])

    with pytest.raises(Unavailable, match="open the store again"):
        await store.commit([Put(_note("b"))])

    assert await store.get("b") is None


async def test_an_error_after_the_commit_is_an_unknown_outcome(store):
    """SQLite calls the WAL hook within COMMIT, when the transaction is already durable."""
    store._writer._connection.set_wal_hook(lambda *_: 1 / 0)

    with pytest.raises(OutcomeUnknown, match="division") as unknown:
        await store.commit([Put(_note("a"))])

    assert (await store.commit([Put(_note("a"))], key=unknown.value.key)).repeated


async def test_a_transaction_that_sqlite_rolled_back_is_not_reported_as_committed(
    store, monkeypatch
):
    """SQLite rolls back by itself on some errors; a success would be a lost transaction."""
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


async def test_a_single_job_that_fails_halfway_is_not_applied_again(
    store, tmp_path: Path, monkeypatch
):
    """There are no other jobs to save, and another process may have the lock by then."""
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
    """Ctrl-C may come between two statements; the next commit must not include the first."""
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
