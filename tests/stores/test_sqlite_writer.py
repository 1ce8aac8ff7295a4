"""Group commit: many tasks, one durable commit, each transaction by itself."""

import asyncio
import threading
from pathlib import Path

import apsw
import pytest

from ctxmgr.core.store import Match, Put
from ctxmgr.errors import Conflict, Incorrect, OutcomeUnknown, Unavailable
from ctxmgr.stores import sqlite_writer
from ctxmgr.stores.sqlite import SqliteStore
from ctxmgr.stores.sqlite_keys import MARK_EVERY


class Gate:
    """Holds the writer before its next group, so that what comes meanwhile forms one."""

    def __init__(self, store: SqliteStore, monkeypatch) -> None:
        monkeypatch.setattr(sqlite_writer, "HERE_SECONDS_MAX", 0)  # only the thread commits
        self._open = threading.Event()
        self.groups: list[int] = []
        commit = store._writer._commit

        def gated(group) -> None:
            assert self._open.wait(60)
            self.groups.append(len(group))
            commit(group)

        monkeypatch.setattr(store._writer, "_commit", gated)

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


async def test_a_conflict_in_a_group_is_nobody_elses(store, monkeypatch):
    """Transactions that happen to share a commit know nothing of each other."""
    gate = Gate(store, monkeypatch)
    good = [asyncio.create_task(store.commit([Put(_note(f"n{n}"))])) for n in range(3)]
    bad = asyncio.create_task(store.commit([Match("n0", "no-such"), Put(_note("bad"))]))
    late = asyncio.create_task(store.commit([Match("n1", None), Put(_note("n1"))]))
    await asyncio.sleep(0)

    gate.open()
    done = await asyncio.gather(*good, bad, late, return_exceptions=True)

    assert [type(each).__name__ for each in done] == ["Commit"] * 3 + ["Conflict"] * 2
    assert set(await store.get_many(["n0", "n1", "n2", "bad"])) == {"n0", "n1", "n2"}


async def test_of_writers_in_one_group_that_expect_the_same_one_wins(store, monkeypatch):
    """A compare-and-set holds inside a group as it does between groups."""
    first = await store.commit([Put(_note("n"))])
    gate = Gate(store, monkeypatch)
    tasks = [
        asyncio.create_task(store.commit([Match("n", first.token), Put(_note("n", by=n))]))
        for n in range(10)
    ]
    await asyncio.sleep(0)

    gate.open()
    done = await asyncio.gather(*tasks, return_exceptions=True)

    assert sum(not isinstance(each, Conflict) for each in done) == 1
    assert (await store.status()).sequence == 2


async def test_cancelling_a_queued_commit_leaves_it_whole(store, monkeypatch):
    """Once accepted it is written, whether or not anyone still waits for it."""
    gate = Gate(store, monkeypatch)
    task = asyncio.create_task(store.commit([Put(_note("a")), Put(_note("b"))]))
    await asyncio.sleep(0)

    task.cancel()
    gate.open()
    with pytest.raises(asyncio.CancelledError):
        await task
    await store.commit([])

    assert set(await store.get_many(["a", "b"])) == {"a", "b"}


async def test_more_writers_than_the_queue_has_places_wait_for_one(store, monkeypatch):
    """Memory has a bound, whatever the harness does."""
    monkeypatch.setattr(store._writer, "_places", asyncio.Semaphore(2))
    gate = Gate(store, monkeypatch)
    tasks = [asyncio.create_task(store.commit([Put(_note(f"n{n}"))])) for n in range(20)]
    await asyncio.sleep(0)
    queued = store._writer._queue.qsize()

    gate.open()
    await asyncio.gather(*tasks)

    assert queued <= 2
    assert max(gate.groups) <= 2


async def test_a_reply_that_the_disk_swallowed_is_an_unknown_outcome(store):
    """A COMMIT that fails in the disk may still be found written after a crash."""
    store._writer._connection = _FailingCommit(store._writer._connection)

    with pytest.raises(OutcomeUnknown, match="same key"):
        await store.commit([Put(_note("a"))], key="k")

    retried = await store.commit([Put(_note("a"))], key="k")
    assert not retried.repeated
    assert await store.get("a") is not None


async def test_a_lost_commit_without_a_key_is_not_taken_for_anothers(store):
    """003-R112: the sequence went to someone else, so a retry by key must write."""
    store._writer._connection = _FailingCommit(store._writer._connection)
    with pytest.raises(OutcomeUnknown) as lost:
        await store.commit([Put(_note("mine"))])
    await store.commit([Put(_note("someone-elses"))])

    retried = await store.commit([Put(_note("mine"))], key=lost.value.key)

    assert not retried.repeated
    assert await store.get("mine") is not None


async def test_every_transaction_is_known_by_the_key_it_was_told(tmp_path: Path):
    """003-R112: whoever else writes, with keys or without, and whatever is refused in between."""
    async with (
        await SqliteStore.open(tmp_path / "s.db") as one,
        await SqliteStore.open(tmp_path / "s.db") as two,
    ):
        told = {}
        for number in range(2 * MARK_EVERY + 20):
            store = two if number % 50 in (7, 8, 30) else one
            operations = [Put(_note(f"n{number}"))]
            if number % 40 == 3:
                operations.insert(0, Match(f"n{number}", None))
            key = f"key-{number}" if number % 9 == 0 or 70 < number < 75 else None
            with pytest.raises(Conflict):
                await store.commit([Match("x", "no"), *operations])
            told[(await store.commit(operations, key=key)).key] = operations

        assert [each.key for each in await one.feed()] == list(told)
        for key, operations in told.items():
            assert (await one.commit(operations, key=key)).repeated
            with pytest.raises(Incorrect, match="key"):
                await two.commit([Put(_note("other"))], key=key)
        assert len(await two.feed()) == len(told)


async def test_a_bug_in_applying_fails_the_group_and_not_the_store(store, monkeypatch):
    """The thread that writes must outlive whatever happens in it."""
    with monkeypatch.context() as broken:
        broken.setattr(store._writer._applier, "begin", lambda: 1 / 0)
        with pytest.raises(Unavailable, match="ZeroDivisionError"):
            await store.commit([Put(_note("a"))])

    assert (await store.commit([Put(_note("a"))])).sequence == 1


@pytest.mark.parametrize("bug", [OverflowError("large"), apsw.ConstraintError("item.slot")])
async def test_a_job_that_cannot_be_applied_fails_alone(store, monkeypatch, bug):
    """One agent's odd transaction must not cost the others theirs."""
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
    done = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(each).__name__ for each in done] == ["Commit", "Unavailable", "Commit"]
    assert set(await store.get_many(keys)) == {"k0", "k2"}
    assert (await store.verify()).faults == ()


async def test_a_full_disk_fails_the_whole_group(store, monkeypatch):
    """What SQLite may have rolled back as a whole is told to all of them."""
    apply = store._writer._applier.apply

    def failing(job):
        apply(job)
        raise apsw.FullError("full")

    with monkeypatch.context() as full:
        full.setattr(store._writer._applier, "apply", failing)
        with pytest.raises(Unavailable, match="disk is full"):
            await store.commit([Put(_note("a"))])

    assert (await store.commit([Put(_note("a"))])).sequence == 1


async def test_a_writer_that_cannot_go_on_says_so_to_everyone(tmp_path):
    """Nobody waits for ever for a thread that has ended."""
    async with await SqliteStore.open(tmp_path / "s.db") as store:
        store._writer._connection = _FailingRollback(store._writer._connection)
        tasks = [asyncio.create_task(store.commit([Put(_note(f"n{n}"))])) for n in range(300)]

        done = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20)

        assert {type(each) for each in done} == {Unavailable}
        with pytest.raises(Unavailable, match="open it again"):
            await asyncio.wait_for(store.commit([Put(_note("late"))]), 20)

    async with await SqliteStore.open(tmp_path / "s.db") as again:
        assert await again.feed() == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(("stage", "told"), [("_commit", Unavailable), ("_end", OutcomeUnknown)])
async def test_a_writer_that_dies_leaves_nobody_waiting(store, monkeypatch, stage, told):
    """Even where nothing was foreseen it is said what is known of the outcome."""

    def die(_):
        raise SystemError

    monkeypatch.setattr(store._writer, "_roll_back", lambda: die(None))
    monkeypatch.setattr(store._writer, stage, die)

    with pytest.raises(told):
        await asyncio.wait_for(store.commit([Put(_note("a"))]), 20)


async def test_closing_leaves_no_thread_and_no_log(tmp_path: Path):
    """A closed store is one file, which can be copied."""
    before = set(threading.enumerate())
    store = await SqliteStore.open(tmp_path / "own.db")
    await store.commit([Put(_note("a"))])
    await store.feed()

    await store.close()

    left = {each.name for each in set(threading.enumerate()) - before}
    assert not {name for name in left if name.startswith("ctxmgr")}
    assert _names(tmp_path) == {"own.db"}


async def test_the_store_moves_no_clock_back(tmp_path: Path):
    """003-A26: a machine whose clock was set back never hides a newer version behind an older."""
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
    assert sqlite_writer.GROUP_MAX <= sqlite_writer.QUEUE_MAX


class _FailingCommit:
    """A connection whose first COMMIT fails as a broken disk makes it."""

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
    """A connection to a disk that is full, and then gone."""

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
    return {each.name for each in folder.iterdir()}
