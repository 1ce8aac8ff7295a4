"""The experience log: recording, finding again, folding and merging."""

import asyncio
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ctxmgr.core.events.event_type import EventType
from ctxmgr.errors import Conflict, Corrupt, Incorrect, NotFound, Unavailable
from ctxmgr.experience.log import batches, fold, tail
from ctxmgr.experience.log.folder import NewFile
from ctxmgr.experience.log.log import ExperienceLog
from ctxmgr.experience.records.timestep import NewTimestep, TimestepRecord
from ctxmgr.stores.layer_file import LayerFile, SqlConnection

HONESTY = "org.hatcat/sumo-wordnet-v4::Honesty"


def step(number: int = 1, **changes: Any) -> NewTimestep:
    values: dict[str, Any] = {
        "timestamp": 1_800_000_000_000 + number,
        "event_type": EventType.OUTPUT,
        "content": f"token {number}",
        "concept_activations": {HONESTY: 0.5, "a.b/c:d": number % 10 / 10},
        "event_id": f"e{number // 5}",
        "event_start": number % 5 == 0,
        "event_end": number % 5 == 4,
        "token_id": number,
        "role": "assistant",
    }
    return NewTimestep(**{**values, **changes})


async def filled(root: Path, count: int, *, session: str = "s", folds: int = 0) -> ExperienceLog:
    """Return an open log; its steps are in the tail and in so many segments."""
    log = await ExperienceLog.open(root)
    for number in range(folds):
        part = range(number * count // (folds + 1), (number + 1) * count // (folds + 1))
        await log.append(session, [step(n) for n in part])
        await log.fold()
    await log.append(session, [step(n) for n in range(folds * count // (folds + 1), count)])
    return log


@pytest.mark.parametrize("folds", [0, 1])
async def test_every_field_is_kept(folds: int, tmp_path: Path) -> None:
    """000-R022 to 000-R034, 000-R113, 000-R114: in the tail and in a segment alike."""
    record = TimestepRecord(
        session_id="a-b-7",
        tick=3,
        timestamp=1_700_000_000_123,
        event_type=EventType.TOOL_RESPONSE,
        content="naïve 🙂\n\0 text",
        concept_activations={"org.x/p-1::A": 0.1234, "b": 1.0},
        event_id="call-1",
        event_start=True,
        event_end=False,
        token_id=17,
        role="tool",
    )
    async with await ExperienceLog.open(tmp_path) as log:
        identifier = await log.record_timestep(record)
        await log.record_timestep(
            TimestepRecord(session_id="a-b-7", tick=4, timestamp=0, event_type=EventType.INPUT)
        )
        if folds:
            assert await log.fold() == 2

        assert identifier == record.id == "ts-a-b-7-3"
        assert await log.get_timestep(identifier) == record
        bare = await log.get_timestep("ts-a-b-7-4")
        assert bare is not None
        assert (bare.role, bare.token_id, bare.event_id, bare.content) == (None, None, None, "")
        assert await log.get_timestep("ts-a-b-7-5") is None


async def test_ticks_grow(tmp_path: Path) -> None:
    """000-R025: a tick that was used, or is before one that was, is refused; nothing is stored."""
    async with await ExperienceLog.open(tmp_path) as log:
        record = TimestepRecord(session_id="s", tick=5, timestamp=0, event_type=EventType.INPUT)
        await log.record_timestep(record)

        for tick in (5, 4):
            with pytest.raises(Conflict):
                await log.record_timestep(replace(record, tick=tick))

        assert (await log.status()).steps == 1
        appended = await log.append("s", [step()])
        assert appended is not None
        assert appended.first_tick == 6


async def test_a_session_goes_on_after_a_restart(tmp_path: Path) -> None:
    """000-A15: the next process continues after the last tick."""
    async with await filled(tmp_path, 3):
        pass

    async with await ExperienceLog.open(tmp_path) as log:
        assert await log.last_tick("s") == 3
        appended = await log.append("s", [step()])

        assert appended is not None
        assert appended.first_tick == 4


async def test_only_the_highest_activations_are_stored(tmp_path: Path) -> None:
    """000-R185, 000-R207: ten by default, another number on request."""
    scores = {f"c{number:02}": number / 100 for number in range(30)}
    async with await ExperienceLog.open(tmp_path / "ten") as log:
        await log.append("s", [step(concept_activations=scores)])
        ten = await log.get_timestep("ts-s-1")
    async with await ExperienceLog.open(tmp_path / "two", top_k=2) as log:
        await log.append("s", [step(concept_activations=scores)])
        two = await log.get_timestep("ts-s-1")

    assert ten is not None
    assert two is not None
    assert set(ten.concept_activations) == {f"c{number}" for number in range(20, 30)}
    assert two.concept_activations == {"c29": 0.29, "c28": 0.28}


@pytest.mark.parametrize("folds", [0, 1])
async def test_a_score_at_a_threshold_is_found_by_it(folds: int, tmp_path: Path) -> None:
    """A score is rounded once: folding must not move it across a threshold."""
    async with await ExperienceLog.open(tmp_path) as log:
        await log.append("s", [step(concept_activations={"c": score}) for score in (0.69995, 0.7)])
        if folds:
            await log.fold()

        found = await log.query(concept_activations={"c": (0.7, 1.0)})
        above = await log.query(concept_activations={"c": (0.70001, 1.0)})

        assert [record.tick for record in found] == [1, 2]  # 0.69995 is stored as 0.7
        assert above == []


async def test_concept_ids_may_have_dots_slashes_and_colons(tmp_path: Path) -> None:
    """PG-17, 000-A29, 000-R120: they are values, not paths."""
    async with await filled(tmp_path, 20, folds=1) as log:
        found = await log.query(concept_activations={"a.b/c:d": (0.9, 0.9), HONESTY: (0.5, 0.5)})

        assert [record.tick for record in found] == [10, 20]


async def test_results_are_paged(tmp_path: Path) -> None:
    """000-R122: 100 records by default, in an order that pages can rely on."""
    async with await filled(tmp_path, 250, folds=2) as log:
        first = await log.query()
        rest = await log.query(offset=100, limit=1_000)

        ticks = [record.tick for record in first + rest]
        assert len(first) == 100
        assert ticks == list(range(1, 251))


async def test_the_highest_scores_come_first(tmp_path: Path) -> None:
    """The best examples of a concept, in the tail and in segments."""
    async with await filled(tmp_path, 30, folds=1) as log:
        top = await log.top_by_concept("a.b/c:d", limit=4)

        assert [(each.score, each.record.tick) for each in top] == [
            (0.9, 10),
            (0.9, 20),
            (0.9, 30),
            (0.8, 9),
        ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"content": "\ud800"}, "half of a character"),
        ({"concept_activations": {"c": float("nan")}}, "not a number"),
        ({"concept_activations": {"": 0.5}}, "not a concept id"),
        ({"role": "boss"}, "not a role"),
        ({"timestamp": 2**70}, "cannot be stored"),
        ({"event_type": "dance"}, "cannot be stored"),
        ({"token_id": "x"}, "cannot be stored"),
    ],
)
async def test_what_cannot_be_stored_is_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    """Data of a model is checked where it enters; nothing of a refused append is stored."""
    async with await ExperienceLog.open(tmp_path) as log:
        with pytest.raises(Incorrect, match=message):
            await log.append("s", [step(), step(**changes)])

        assert (await log.status()).steps == 0


@pytest.mark.parametrize("session", ["", "x" * 201, "a\nb"])
async def test_a_session_id_is_checked(session: str, tmp_path: Path) -> None:
    """It becomes a part of ids, which people read and copy."""
    async with await ExperienceLog.open(tmp_path) as log:
        with pytest.raises(Incorrect, match="not a session id"):
            await log.append(session, [step()])


async def test_folding_moves_steps_and_loses_none(tmp_path: Path) -> None:
    """000-R186: a segment is sorted by session; its activations by concept."""
    async with await ExperienceLog.open(tmp_path) as log:
        for number in range(20):
            await log.append(f"s{number % 3}", [step(number)])
        assert await log.fold() == 20
        status = await log.status()

        assert (status.steps, status.tail_steps, status.segments) == (20, 0, 1)
        assert status.activations == 40
        (timesteps,) = (tmp_path / "segments").glob("timesteps-*.parquet")
        (activations,) = (tmp_path / "segments").glob("activations-*.parquet")
        steps = pq.read_table(timesteps).to_pylist()
        acts = pq.read_table(activations).to_pylist()
        order = [(row["session_id"], row["tick"]) for row in steps]
        by_concept = [(row["concept_id"], row["session_id"], row["tick"]) for row in acts]
        assert order == sorted(order)
        assert by_concept == sorted(by_concept)
        assert await log.check(hashes=True) == 1


async def test_many_small_segments_are_merged(tmp_path: Path) -> None:
    """A query opens every segment that can match, so there must not be too many."""
    async with await ExperienceLog.open(tmp_path) as log:
        for number in range(fold.MERGE_SEGMENTS):
            await log.append(f"s{number % 3}", [step(n) for n in range(9)])
            await log.fold()
        status = await log.status()

        assert (status.segments, status.steps) == (1, 72)
        assert [r.tick for r in await log.query(session_id="s2", limit=1_000)] == list(range(1, 19))
        assert await log.check(hashes=True) == 1


async def test_what_is_dropped_is_not_found_again(tmp_path: Path) -> None:
    """A merge then removes it from the files."""
    async with await filled(tmp_path, 20, folds=1) as log:
        await log.drop("s", 8, 12)

        ticks = [record.tick for record in await log.query()]
        hits = await log.query(concept_activations={HONESTY: (0.5, 0.5)})
        assert ticks == [record.tick for record in hits] == [*range(1, 8), *range(13, 21)]
        assert await log.get_timestep("ts-s-8") is None
        assert await log.get_timestep("ts-s-12") is None
        assert (await log.sql("SELECT count(*), min(tick) FROM timesteps")).rows == ((15, 1),)
        top = await log.top_by_concept(HONESTY, limit=100)
        assert len(top) == 15

        for number in range(fold.MERGE_SEGMENTS):
            await log.append("t", [step(number)] * 9)
            await log.fold()

        assert (await log.status()).steps == 15 + 9 * fold.MERGE_SEGMENTS
        assert len(await log.query(session_id="s")) == 15


async def test_a_missing_segment_is_named(tmp_path: Path) -> None:
    """PG-18, 000-A33: a query error is an error, never an empty result."""
    async with await filled(tmp_path, 20, folds=1) as log:
        (lost,) = (tmp_path / "segments").glob("timesteps-*")
        lost.rename(tmp_path / "elsewhere")

        for attempt in (log.query(), log.get_timestep("ts-s-1"), log.sql("FROM timesteps")):
            with pytest.raises(Corrupt, match=f"{lost.name} is missing"):
                await attempt
        assert await log.get_timestep("ts-s-20") is not None  # still in the tail


async def test_a_damaged_segment_is_named(tmp_path: Path) -> None:
    """000-A33: truncated files are noticed by every query, altered ones by the check."""
    async with await filled(tmp_path, 20, folds=1) as log:
        (file,) = (tmp_path / "segments").glob("activations-*")
        content = file.read_bytes()

        file.write_bytes(content[:-20] + bytes(20))
        with pytest.raises(Corrupt, match=f"{file.name} was altered"):
            await log.check(hashes=True)
        file.write_bytes(content[:-20])
        with pytest.raises(Corrupt, match=f"{file.name} has"):
            await log.top_by_concept(HONESTY)


async def test_a_damaged_batch_is_an_error(tmp_path: Path) -> None:
    """Whatever a store holds is checked where it enters."""
    async with await filled(tmp_path, 2) as log:
        await log.file.write(
            lambda connection: connection.execute("UPDATE tail SET body = x'00'").fetchall()
        )

        with pytest.raises(Corrupt, match=r"log\.sqlite: a batch cannot be read"):
            await log.query()


async def test_files_that_a_killed_process_left_are_removed(tmp_path: Path) -> None:
    """A file that the catalogue does not list is never read."""
    async with await filled(tmp_path, 4, folds=1):
        pass
    orphans = [tmp_path / "segments" / name for name in ("timesteps-0.parquet", "timesteps-1.tmp")]
    for orphan in orphans:
        orphan.write_bytes(b"half")

    async with await ExperienceLog.open(tmp_path) as log:
        assert not any(orphan.exists() for orphan in orphans)
        assert len(await log.query()) == 4


async def test_an_appender_folds_when_the_tail_is_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writers that never pause must not outrun the process that folds."""
    monkeypatch.setattr(fold, "FOLD_STEPS", 10)
    async with await ExperienceLog.open(tmp_path) as log:
        log._fold_in_background = lambda: None  # type: ignore[method-assign]
        for number in range(60):
            await log.append("s", [step(number)] * 2)
            assert (await log.status()).tail_steps <= 10 * (fold.TAIL_FOLDS_MAX + 1)

        assert len(await log.query(limit=1_000)) == 120


async def test_the_tail_is_folded_in_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has to call anything."""
    monkeypatch.setattr(fold, "FOLD_STEPS", 10)
    async with await ExperienceLog.open(tmp_path) as log:
        await log.append("s", [step(n) for n in range(25)])
        assert log._fold_task is not None
        await log._fold_task

        assert (await log.status()).segments == 1


async def test_several_writers_of_one_session_get_different_ticks(tmp_path: Path) -> None:
    """000-R023, 000-R025: ticks are given under the lock of the file."""
    async with (
        await ExperienceLog.open(tmp_path) as one,
        await ExperienceLog.open(tmp_path) as two,
    ):
        await asyncio.gather(*(log.append("s", [step()] * 3) for log in [one, two] * 10))

        ticks = [record.tick for record in await two.query(limit=1_000)]
        assert ticks == list(range(1, 61))


async def test_opening_what_does_not_exist_creates_nothing(tmp_path: Path) -> None:
    """A mistyped folder is reported."""
    with pytest.raises(NotFound):
        await ExperienceLog.open(tmp_path / "x", create=False)

    assert not (tmp_path / "x").exists()


async def test_concepts_of_a_failed_write_have_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite gives the same number to the next concept; both logs name the same one."""
    async with await ExperienceLog.open(tmp_path) as log, await ExperienceLog.open(tmp_path) as two:
        writing = LayerFile.writing

        @contextmanager
        def failing(self: LayerFile) -> Iterator[SqlConnection]:
            with writing(self) as connection:
                yield connection
                raise Unavailable("the disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(LayerFile, "writing", failing)
            with pytest.raises(Unavailable):
                await log.append("s", [step(1, concept_activations={"lost": 0.5})])
        await two.append("s", [step(1, concept_activations={"other": 0.5})])
        await log.append("s", [step(2, concept_activations={"lost": 0.75})])

        for each in (log, two):
            steps = await each.query(session_id="s")
            assert [dict(one.concept_activations) for one in steps] == [
                {"other": 0.5},
                {"lost": 0.75},
            ]


async def test_an_append_that_is_too_large_for_one_batch_has_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was acknowledged can be read; a single step over the limit is refused."""
    monkeypatch.setattr(batches, "BODY_BYTES_MAX", 8_000)
    contents = [f"{number}" * 500 for number in range(10)]
    async with await ExperienceLog.open(tmp_path) as log:
        await log.append("s", [step(n, content=text) for n, text in enumerate(contents)])
        with pytest.raises(Incorrect, match="too large"):
            await log.append("s", [step(1), step(2, content="x" * 9_000)])

        assert [each.content for each in await log.query(session_id="s")] == contents
        assert await log.fold() == 10


async def test_decoded_batches_are_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader of one session keeps no folded batches, and not too many others."""
    async with await ExperienceLog.open(tmp_path) as log:
        for number in range(6):
            await log.append("s", [step(number)] * 10)
            await log.query(session_id="s")
        decoded = log._tail._decoded
        assert sum(batch.num_rows for batch in decoded.values()) == 60

        monkeypatch.setattr(tail, "CACHED_STEPS_MAX", 30)
        assert len(await log.query(session_id="s", limit=100)) == 60
        decoded = log._tail._decoded
        assert sum(batch.num_rows for batch in decoded.values()) == 30

        await log.fold()
        assert len(await log.query(session_id="s", limit=100)) == 60
        assert log._tail._decoded == {}


async def test_pages_hold_every_step_of_a_range(tmp_path: Path) -> None:
    """000-R116: whatever its length, and however far its ticks are apart."""
    async with await ExperienceLog.open(tmp_path / "log") as log:
        for tick in (1, 2, 3, 900_000, 900_001):
            await log.append("s", [step()], first_tick=tick)

        pages = [[step.tick for step in page] async for page in log.pages("s", (2, 2**53), steps=2)]

    assert pages == [[2, 3], [900_000, 900_001]]


@pytest.mark.parametrize("written", [1, 30])
async def test_a_fold_on_a_full_disk_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    """000-R113: what was appended stays in the tail, and a full disk does not fill up further."""
    writes, write = iter(range(written)), NewFile.write

    def limited(file: NewFile, data: bytes) -> int:
        if next(writes, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data)

    async with await ExperienceLog.open(tmp_path / "log") as log:
        await log.append("s", [step(n) for n in range(1, 5)])
        with monkeypatch.context() as patched:
            patched.setattr(NewFile, "write", limited)
            with pytest.raises(Unavailable, match="No space left"):
                await log.fold()

        assert list((tmp_path / "log" / "segments").iterdir()) == []
        assert await log.fold() == 4
        assert len(await log.query(session_id="s")) == 4
