"""Group commit: many tasks share one durable COMMIT, and each transaction is atomic."""

import asyncio
import threading
from pathlib import Path

import apsw
import pytest

from ctxmgr.core.store.contract import Match, Put
from ctxmgr.errors import Conflict, Incorrect, OutcomeUnknown, Unavailable
from ctxmgr.stores.sqlite import writer
from ctxmgr.stores.sqlite.store import SqliteStore
from ctxmgr.stores.sqlite.submission import MARK_EVERY


class Gate:
    """Blocks the writer before its next group, so that further jobs form one group."""

    def __init__(self, store: SqliteStore, monkeypatch) -> None:
        monkeypatch.setattr(writer, "INLINE_SECONDS_MAX", 0)  # only the thread commits
        self._open = threading.Event()
        self.groups: list[int] = []
        commit = store._writer._commit_group

        def gated(group) -> None:
            assert self._open.wait(60)
            self.groups.append(len(group))
            commit(group)

        monkeypatch.setattr(store._writer, "_commit_group", gated)

    def open(self) -> None:
        self._open.set()


@pytest.fixture
async def store(tmp_path: Path):
    async with await SqliteStore.open(tmp_path / "s.db") as opened:
        yield opened


async def test_transactions_that_wait_are_committed_together(store, monkeypatch):
    """A hundred agents share the cost of one flush to disk."""
    gate = Gate(store, monkeypatch)
    tasks = [asyncio.create_task(store.commit([Put(_note(f"n{n}"))])) for n in range(100)]
    await asyncio.sleep(0)

    gate.open()
    commits = await asyncio.gather(*tasks)

    assert [commit.sequence for commit in commits] == list(range(1, 101))
    assert len(gate.groups) <= 3


async def test_a_conflict_fails_only_its_own_transaction(store, monkeypatch):
    """Transactions that share a COMMIT are independent of each other."""
    gate = Gate(store, monkeypatch)
    good = [asyncio.create_task(store.commit([Put(_note(f"n{n}"))])) for n in range(3)]
    bad = asyncio.create_task(store.commit([Match("n0", "no-such"), Put(_note("bad"))]))
    late = asyncio.create_task(store.commit([Match("n1", None), Put(_note("n1"))]))
    await asyncio.sleep(0)

    gate.open()
    results = await asyncio.gather(*good, bad, late, return_exceptions=True)

    assert [type(result).__name__ for result in results] == ["Commit"] * 3 + ["Conflict"] * 2
    assert set(await store.get_many(["n0", "n1", "n2", "bad"])) == {"n0", "n1", "n2"}


async def test_one_of_several_matches_on_a_token_wins_within_a_group(store, monkeypatch):
    """A compare-and-set holds inside a group as it does between groups."""
    first = await store.commit([Put(_note("n"))])
    gate = Gate(store, monkeypatch)
    tasks = [
        asyncio.create_task(store.commit([Match("n", first.token), Put(_note("n", by=n))]))
        for n in range(10)
    ]
    await asyncio.sleep(0)

    gate.open()
    results = await asyncio.gather(*tasks, return_exceptions=True)

    assert sum(not isinstance(result, Conflict) for result in results) == 1
    assert (await store.status()).sequence == 2


async def test_cancelling_a_queued_commit_leaves_it_whole(store, monkeypatch):
    """An accepted transaction is written even if its task no longer waits."""
    gate = Gate(store, monkeypatch)
    task = asyncio.create_task(store.commit([Put(_note("a")), Put(_note("b"))]))
    await asyncio.sleep(0)

    task.cancel()
    gate.open()
    with pytest.raises(asyncio.CancelledError):
        await task
    await store.commit([])

    assert set(await store.get_many(["a", "b"])) == {"a", "b"}


async def test_tasks_wait_for_a_slot_in_a_full_queue(store, monkeypatch):
    """Memory is bounded however many tasks commit."""
    monkeypatch.setattr(store._writer, "_slots", asyncio.Semaphore(2))
    gate = Gate(store, monkeypatch)
    tasks = [asyncio.create_task(store.commit([Put(_note(f"n{n}"))])) for n in range(20)]
    await asyncio.sleep(0)
    queued = store._writer._queue.qsize()

    gate.open()
    await asyncio.gather(*tasks)

    assert queued <= 2
    assert max(gate.groups) <= 2


async def test_an_io_error_of_commit_is_an_unknown_outcome(store):
    """After an I/O error the transaction may still turn out to be written."""
    store._writer._connection = _FailingCommit(store._writer._connection)

    with pytest.raises(OutcomeUnknown, match="same key"):
        await store.commit([Put(_note("a"))], key="k")

    retried = await store.commit([Put(_note("a"))], key="k")
    assert not retried.repeated
    assert await store.get("a") is not None


async def test_the_key_of_a_lost_commit_identifies_no_other_transaction(store):
    """003-R112: another transaction got the sequence, so a retry by key must write."""
    store._writer._connection = _FailingCommit(store._writer._connection)
    with pytest.raises(OutcomeUnknown) as lost:
        await store.commit([Put(_note("mine"))])
    await store.commit([Put(_note("someone-elses"))])

    retried = await store.commit([Put(_note("mine"))], key=lost.value.key)

    assert not retried.repeated
    assert await store.get("mine") is not None


async def test_every_transaction_is_found_by_its_returned_key(tmp_path: Path):
    """003-R112: also with a second writer, with and without keys, and after conflicts."""
    async with (
        await SqliteStore.open(tmp_path / "s.db") as one,
        await SqliteStore.open(tmp_path / "s.db") as two,
    ):
        operations_by_key = {}
        for number in range(2 * MARK_EVERY + 20):
            store = two if number % 50 in (7, 8, 30) else one
            operations = [Put(_note(f"n{number}"))]
            if number % 40 == 3:
                operations.insert(0, Match(f"n{number}", None))
            key = f"key-{number}" if number % 9 == 0 or 70 < number < 75 else None
            with pytest.raises(Conflict):
                await store.commit([Match("x", "no"), *operations])
            commit = await store.commit(operations, key=key)
            operations_by_key[commit.key] = operations

        assert [transaction.key for transaction in await one.feed()] == list(operations_by_key)
        for key, operations in operations_by_key.items():
            assert (await one.commit(operations, key=key)).repeated
            with pytest.raises(Incorrect, match="key"):
                await two.commit([Put(_note("other"))], key=key)
        assert len(await two.feed()) == len(operations_by_key)


async def test_a_bug_in_applying_fails_the_group_and_not_the_store(store, monkeypatch):
    """The writer's thread must survive every error."""
    with monkeypatch.context() as broken:
        broken.setattr(store._writer._applier, "begin", lambda: 1 / 0)
        with pytest.raises(Unavailable, match="ZeroDivisionError"):
            await store.commit([Put(_note("a"))])

    assert (await store.commit([Put(_note("a"))])).sequence == 1


@pytest.mark.parametrize("bug", [OverflowError("large"), apsw.ConstraintError("item.slot")])
async def test_a_job_that_cannot_be_applied_fails_alone(store, monkeypatch, bug):
    """A transaction that fails must not affect the others of its group."""
    apply = store._writer._applier.apply

    def failing(job):
        commit = apply(job)
        if job.key == "bad":
            raise bug
        return commit

    monkeypatch.setattr(store._writer._applier, "apply", failing)
    gate = Gate(store, monkeypatch)
    keys = ["k0", "bad", "k2"]
    tasks = [asyncio.create_task(store.commit([Put(_note(key))], key=key)) for key in keys]
    await asyncio.sleep(0)

    gate.open()
    results = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(result).__name__ for result in results] == ["Commit", "Unavailable", "Commit"]
    assert set(await store.get_many(keys)) == {"k0", "k2"}
    assert (await store.verify()).faults == ()


async def test_a_full_disk_fails_the_whole_group(store, monkeypatch):
    """SQLite may have rolled back the whole group, so all of it fails."""
    apply = store._writer._applier.apply

    def failing(job):
        apply(job)
        raise apsw.FullError("full")

    with monkeypatch.context() as full:
        full.setattr(store._writer._applier, "apply", failing)
        with pytest.raises(Unavailable, match="disk is full"):
            await store.commit([Put(_note("a"))])

    assert (await store.commit([Put(_note("a"))])).sequence == 1


async def test_a_writer_that_stops_fails_every_waiting_task(tmp_path):
    """No task waits forever for a thread that has ended."""
    async with await SqliteStore.open(tmp_path / "s.db") as store:
        store._writer._connection = _FailingRollback(store._writer._connection)
        tasks = [asyncio.create_task(store.commit([Put(_note(f"n{n}"))])) for n in range(300)]

        results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)

        assert {type(result) for result in results} == {Unavailable}
        with pytest.raises(Unavailable, match="open the store again"):
            await asyncio.wait_for(store.commit([Put(_note("late"))]), 60)

    async with await SqliteStore.open(tmp_path / "s.db") as again:
        assert await again.feed() == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(
    ("stage", "error"), [("_commit_group", Unavailable), ("_end", OutcomeUnknown)]
)
async def test_a_writer_that_dies_leaves_no_task_waiting(store, monkeypatch, stage, error):
    """Even after an unexpected error, tasks get what is known of the outcome."""

    def die(_):
        raise SystemError

    monkeypatch.setattr(store._writer, "_roll_back", lambda: die(None))
    monkeypatch.setattr(store._writer, stage, die)

    with pytest.raises(error):
        await asyncio.wait_for(store.commit([Put(_note("a"))]), 60)


async def test_closing_leaves_no_thread_and_no_log(tmp_path: Path):
    """A closed store is one file, which can be copied."""
    before = set(threading.enumerate())
    store = await SqliteStore.open(tmp_path / "own.db")
    await store.commit([Put(_note("a"))])
    await store.feed()

    await store.close()

    left = {thread.name for thread in set(threading.enumerate()) - before}
    assert not {name for name in left if name.startswith("ctxmgr")}
    assert _names(tmp_path) == {"own.db"}


async def test_system_time_never_decreases(tmp_path: Path):
    """003-A26: if the clock is set back, a newer version must not be hidden by an older one."""
    now = [5_000]
    async with await SqliteStore.open(tmp_path / "c.db", clock=lambda: now[0]) as store:
        first = await store.commit([Put(_note("a", by=1))])
        now[0] = 1_000
        second = await store.commit([Put(_note("a", by=2))])
        version = await store.get("a")

    assert (first.system_time, second.system_time) == (5_000, 5_000)
    assert version is not None
    assert version.document["by"] == 2


def test_a_group_fits_into_the_queue():
    """Otherwise a group could never be full."""
    assert writer.GROUP_MAX <= writer.QUEUE_MAX


class _FailingCommit:
    """A connection whose first COMMIT fails with an I/O error."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._failed = False

    def execute(self, sql, *bindings):
        if sql == "COMMIT" and not self._failed:
            self._failed = True
            raise apsw.IOError("disk I/O error")
        return self._connection.execute(sql, *bindings)

    def __getattr__(self, name):
        return getattr(self._connection, name)


class _FailingRollback:
    """A connection on which COMMIT and ROLLBACK fail."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def execute(self, sql, *bindings):
        if sql == "COMMIT":
            raise apsw.FullError("full")
        if sql == "ROLLBACK":
            raise apsw.IOError("disk I/O error")
        return self._connection.execute(sql, *bindings)

    def __getattr__(self, name):
        return getattr(self._connection, name)


def _note(object_id, by=0):
    return {"xt/id": object_id, "type": "note", "by": by}


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}
