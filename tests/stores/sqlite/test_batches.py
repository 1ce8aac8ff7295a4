"""Transactions that become durable in batches."""

import asyncio
from pathlib import Path

import apsw
import pytest

from ctxmgr.core.store.batched import in_batches
from ctxmgr.core.store.contract import Match, Put
from ctxmgr.errors import Conflict, Unavailable
from ctxmgr.stores.sqlite import writer
from ctxmgr.stores.sqlite.store import SqliteStore


@pytest.fixture
async def store(tmp_path: Path):
    async with await SqliteStore.open(tmp_path / "s.db") as opened:
        yield opened


def _note(name: str, text: str = "") -> Put:
    return Put({"xt/id": name, "type": "note", "text": text})


async def _stored(path: Path) -> list[str]:
    """Return what another process sees."""
    async with await SqliteStore.open(path) as other:
        return [
            write.object_id
            for transaction in await other.feed(documents=False)
            for write in transaction.writes
        ]


async def test_a_batch_is_durable_when_it_has_ended(store, tmp_path: Path) -> None:
    """Until then nobody else sees a part of it, and each answer is final."""
    async with in_batches(store) as batch:
        commits = [await batch.commit([_note(f"n{n}")]) for n in range(3)]
        assert await _stored(tmp_path / "s.db") == []

    assert [commit.sequence for commit in commits] == [1, 2, 3]
    assert await _stored(tmp_path / "s.db") == ["n0", "n1", "n2"]


async def test_reading_sees_everything_that_was_committed(store) -> None:
    async with in_batches(store) as batch:
        commit = await batch.commit([_note("n", "one")])
        version = await batch.get("n")

    assert version is not None
    assert (version.document["text"], version.token) == ("one", commit.token)


@pytest.mark.parametrize(
    ("bound", "value"), [("BATCH_JOBS_MAX", 2), ("BATCH_BYTES_MAX", 60), ("BATCH_SECONDS_MAX", 0)]
)
async def test_a_batch_is_bounded(store, tmp_path: Path, monkeypatch, bound, value) -> None:
    """It holds the write lock, for which other processes wait."""
    monkeypatch.setattr(writer, bound, value)
    async with in_batches(store) as batch:
        for n in range(2):
            await batch.commit([_note(f"n{n}")])

        assert await _stored(tmp_path / "s.db") == ["n0", "n1"]


async def test_a_batch_ends_though_its_task_waits_for_something_else(
    store, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(writer, "BATCH_SECONDS_MAX", 0.05)
    async with in_batches(store) as batch:
        await batch.commit([_note("n")])
        for _ in range(1_000):
            if await _stored(tmp_path / "s.db"):
                return
            await asyncio.sleep(0.02)
    pytest.fail("the batch is still open")


async def test_a_commit_outside_of_the_batch_is_durable_and_follows_it(
    store, tmp_path: Path
) -> None:
    """Another task of the same process must not be answered before its COMMIT."""
    async with in_batches(store) as batch:
        await batch.commit([_note("inside")])
        await store.commit([_note("outside")])

        assert await _stored(tmp_path / "s.db") == ["inside", "outside"]


async def test_a_conflict_loses_nothing_of_the_batch(store) -> None:
    async with in_batches(store) as batch:
        await batch.commit([_note("n")])
        with pytest.raises(Conflict):
            await batch.commit([Match("n", None), _note("n", "again")])
        await batch.commit([_note("m")])

    assert (await store.get("n")).document["text"] == ""
    assert await store.get("m") is not None


async def test_the_batch_waits_while_another_process_writes(store, tmp_path: Path) -> None:
    """Then the thread commits, which may wait for the lock."""
    other = apsw.Connection(str(tmp_path / "s.db"))
    other.execute("BEGIN IMMEDIATE")
    async with in_batches(store) as batch:
        committing = asyncio.create_task(batch.commit([_note("n")]))
        await asyncio.sleep(0)
        other.execute("COMMIT")
        await committing

    assert await store.get("n") is not None


async def test_a_lost_batch_is_reported_by_every_later_call(store, monkeypatch) -> None:
    """What was answered is gone, so work that goes on from it must be refused."""
    async with in_batches(store) as batch:
        await batch.commit([_note("before")])
    apply = store._writer._applier.apply

    def failing(job):
        apply(job)
        raise apsw.FullError("disk full")

    async def fail() -> None:
        async with in_batches(store) as batch:
            await batch.commit([_note("answered")])
            monkeypatch.setattr(store._writer._applier, "apply", failing)
            with pytest.raises(Unavailable, match="disk is full"):
                await batch.commit([_note("failed")])
            monkeypatch.setattr(store._writer._applier, "apply", apply)
            with pytest.raises(Unavailable, match="not written"):
                await batch.commit([_note("later")])

    with pytest.raises(Unavailable, match="not written"):
        await fail()
    found = [await store.get(name) is not None for name in ("before", "answered", "later")]
    assert found == [True, False, False]
    await store.commit([_note("others")])  # who was not in the batch can go on
