"""Windows of an agent's experience: what is retained, submitted and expired."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr import Incorrect, NotFound, QuotaExceeded
from ctxmgr.core.events.event_type import EventType
from ctxmgr.experience.log.log import ExperienceLog
from ctxmgr.experience.records.kinds import CompressionLevel, Fidelity
from ctxmgr.experience.records.timestep import TimestepRecord
from ctxmgr.experience.windows.evidence import verify_package
from ctxmgr.experience.windows.time_windows import Ticks, merge_ticks, uncovered
from ctxmgr.experience.windows.window_book import WindowBook
from ctxmgr.stores.layer_file import LayerFile

QUOTA = 100
LAST = 200
EVENT = 5
"""Timesteps of each event: 1–5, 6–10, and so on."""


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[ExperienceLog]:
    """Two sessions of 200 steps, the first of them folded in part."""
    async with await ExperienceLog.open(tmp_path / "experience") as log:
        await log.append("s1", _steps("s1", 1, 60))
        await log.fold()
        await log.append("s1", _steps("s1", 61, LAST))
        await log.append("s2", _steps("s2", 1, LAST))
        yield log


def _steps(session_id: str, first: int, last: int) -> list[TimestepRecord]:
    return [
        TimestepRecord(
            session_id=session_id,
            tick=tick,
            timestamp=1_000 + tick,
            event_type=EventType.OUTPUT,
            content=f"t{tick} ",
            event_id=f"e{(tick - 1) // EVENT}",
            concept_activations={"a/b::C.d": 0.5},
        )
        for tick in range(first, last + 1)
    ]


@pytest.fixture
def file(log: ExperienceLog) -> LayerFile:
    return log.file


@pytest.fixture
def book(log: ExperienceLog) -> WindowBook:
    return WindowBook(log, warm_quota_tokens=QUOTA)


def tag(file: LayerFile, tag_id: str, **target: object) -> None:
    with file.writing() as db:
        db.execute(
            "INSERT OR IGNORE INTO tags (id, name, tag_type, created_at, created_by)"
            " VALUES (?, ?, 'bud', 0, 'system')",
            (tag_id, tag_id),
        )
        columns = ", ".join(target)
        kind = next(iter(target)).partition("_")[0]
        db.execute(
            "INSERT INTO tag_applications (id, tag_id, session_id, target_type, confidence, source,"
            f" created_at, {columns}) VALUES (hex(randomblob(6)), ?, 's1', ?, 1.0, 'manual', 0,"
            f" {', '.join('?' * len(target))})",
            (tag_id, kind, *target.values()),  # type: ignore[arg-type]
        )


async def test_a_retained_range_is_warm_and_pinned(book: WindowBook) -> None:
    """000-R062, 000-R045 to R048, 000-R050: with the reason that was given."""
    done = await book.retain("s1", Ticks(11, 30), reason="bud:kindness")

    [window] = await book.windows("s1")
    assert done.windows == (window,)
    assert (window.ticks, window.fidelity, window.token_count) == (Ticks(11, 30), Fidelity.WARM, 20)
    assert (window.pinned, window.pinned_reason) == (True, "bud:kindness")
    assert (window.start_time, window.end_time) == (1_011, 1_030)
    assert window.compression_level is CompressionLevel.TOKEN


async def test_retaining_beyond_the_quota_is_refused_with_the_shortfall(book: WindowBook) -> None:
    """000-R063, 000-A23: tokens are counted, and nothing is retained in part."""
    await book.retain("s1", Ticks(1, 60))

    with pytest.raises(QuotaExceeded, match="by 15") as refused:
        await book.retain("s2", Ticks(1, 55))

    assert refused.value.shortfall == 15
    assert await book.windows("s2") == []
    await book.retain("s2", Ticks(1, 40))


async def test_what_is_retained_already_counts_once(book: WindowBook) -> None:
    """000-A23: the report says what was really pinned."""
    await book.retain("s1", Ticks(1, 60))

    done = await book.retain("s1", Ticks(41, 80))

    assert done.tokens == 20
    assert [window.ticks for window in await book.windows("s1")] == [Ticks(1, 60), Ticks(61, 80)]


async def test_expired_ticks_become_replies(book: WindowBook, file: LayerFile) -> None:
    """000-R061, 000-R069, 000-R070: text, concepts, tags and the summary of the compaction stay."""
    tag(file, "event", event_id="e0")
    tag(file, "step", timestep_id="ts-s1-7")
    tag(file, "range", range_start=4, range_end=6)

    [window] = await book.expire("s1", before_tick=11, summary="What happened.")

    assert (window.ticks, window.fidelity) == (Ticks(1, 10), Fidelity.COLD)
    assert (window.compression_level, window.summary) == (CompressionLevel.REPLY, "What happened.")
    replies = [(await book.lineage(name))[0] for name in window.source_record_ids]
    assert [reply.summary for reply in replies] == ["t1 t2 t3 t4 t5", "t6 t7 t8 t9 t10"]
    assert [reply.significant_tags for reply in replies] == [("event", "range"), ("range", "step")]
    assert dict(replies[0].top_k_activations) == {"a/b::C.d": 2.5}


async def test_a_cold_window_says_what_it_was_about(book: WindowBook, file: LayerFile) -> None:
    """000-R049: its summary, the sums of its concepts and its most frequent tags."""
    tag(file, "rare", timestep_id="ts-s1-3")
    tag(file, "often", range_start=1, range_end=10)

    [cold] = await book.expire("s1", before_tick=11, summary="what happened")
    [stored] = await book.windows("s1")

    assert stored == cold
    assert cold.summary == "what happened"
    assert cold.top_k_activations == {"a/b::C.d": 5.0}
    assert cold.significant_tags == ("often", "rare")


async def test_windows_are_found_by_tag_and_by_submission(
    book: WindowBook, file: LayerFile
) -> None:
    """000-R098: and no other window is."""
    tag(file, "bud", timestep_id="ts-s1-3")
    [kept] = (await book.retain("s1", Ticks(1, 5))).windows
    await book.retain("s1", Ticks(11, 15))
    await book.submit_graft("bud", "graft-1")

    assert [window.id for window in await book.get_windows_for_tag("bud")] == [kept.id]
    assert [window.id for window in await book.get_windows_for_submission("graft-1")] == [kept.id]
    assert await book.get_windows_for_submission("graft-2") == []
    assert await book.get_windows_for_tag("other") == []


async def test_retained_windows_do_not_expire(book: WindowBook) -> None:
    """000-R087: neither when the context compacts, nor under pressure."""
    await book.retain("s1", Ticks(6, 10))

    cold = await book.expire("s1", before_tick=16)

    assert [window.ticks for window in cold] == [Ticks(1, 5), Ticks(11, 15)]
    assert [window.fidelity.value for window in await book.windows("s1")] == [
        *("cold", "warm", "cold")
    ]


async def test_a_released_window_expires(book: WindowBook) -> None:
    """000-A24: to replies, when the maintenance next runs over it."""
    [window] = (await book.retain("s1", Ticks(6, 10))).windows
    await book.release(window.id)

    await book.expire("s1", before_tick=16)

    assert {window.fidelity for window in await book.windows("s1")} == {Fidelity.COLD}


async def test_an_event_is_not_divided(book: WindowBook) -> None:
    """000-R070: one record per event; what the context still shows in part stays in the log."""
    [window] = await book.expire("s1", before_tick=9)

    assert window.ticks == Ticks(1, 5)
    assert await book.expire("s1", before_tick=9) == []


async def test_expired_tokens_are_gone_from_the_log(book: WindowBook, log: ExperienceLog) -> None:
    """000-R069, 000-R019: from folded steps as from the tail."""
    await book.expire("s1", before_tick=101)

    left = await log.query(session_id="s1", limit=1_000)

    assert [step.tick for step in left] == list(range(101, LAST + 1))
    found = await log.sql("SELECT fidelity, count(*) FROM timesteps GROUP BY 1 ORDER BY 1")
    assert [tuple(row) for row in found.rows] == [("hot", 2 * LAST - 100)]


async def test_fidelity_is_that_of_the_window(book: WindowBook, log: ExperienceLog) -> None:
    """000-R184, 000-R060: no timestep is rewritten for it."""
    await book.retain("s2", Ticks(1, 7))

    found = await log.sql(
        "SELECT fidelity, compression_level, count(*) FROM timesteps WHERE session_id = 's2'"
        " GROUP BY ALL ORDER BY 1"
    )

    assert [tuple(row) for row in found.rows] == [("hot", 0, LAST - 7), ("warm", 0, 7)]


async def test_events_that_overlap_lose_no_step(tmp_path: Path) -> None:
    """000-R070: parallel tool calls; nothing after the first unfinished event expires."""
    async with await ExperienceLog.open(tmp_path / "parallel") as log:
        for tick, event in enumerate(("a", "b", "a", "b", "c"), start=1):
            await log.append("s", [replace(_steps("s", tick, tick)[0], event_id=event)])
        book = WindowBook(log, warm_quota_tokens=QUOTA)

        assert await book.expire("s", before_tick=4) == []
        assert len(await log.query(session_id="s")) == 5
        [window] = await book.expire("s", before_tick=5)

        assert window.ticks == Ticks(1, 4)
        texts = [(await book.lineage(f"ts-s-{tick}"))[0].summary for tick in range(1, 5)]
        assert texts == ["t1", "t2", "t3", "t4"]


async def test_lost_examples_are_reported_after_a_merge(
    log: ExperienceLog, book: WindowBook, file: LayerFile
) -> None:
    """000-A22: also when their files are rewritten without them."""
    tag(file, "bud", event_id="e1")
    await book.expire("s1", before_tick=21)
    for number in range(9):
        await log.append("s3", _steps("s3", number + 1, number + 1))
        await log.fold()

    done = await book.submit_graft("bud", "graft-1")

    assert done.partial


async def test_a_range_beyond_the_end_is_retained_to_the_end(book: WindowBook) -> None:
    """000-R063: however large it is; nothing is there to retain after the last tick."""
    done = await book.retain("s1", Ticks(LAST - 9, 2**53))

    assert [window.ticks for window in done.windows] == [Ticks(LAST - 9, LAST)]
    with pytest.raises(NotFound):
        await book.retain("nosuch", Ticks(0, 2**53))


async def test_lineage_always_resolves(book: WindowBook) -> None:
    """000-A20: the id of a timestep leads to what is left of it."""
    await book.expire("s1", before_tick=6)

    [reply] = await book.lineage("ts-s1-3")

    assert (reply.start_tick, reply.end_tick) == (1, 5)
    assert await book.lineage("ts-s1-7") == []
    with pytest.raises(NotFound, match="ts-s1-5000"):
        await book.lineage("ts-s1-5000")


async def test_what_is_gone_cannot_be_retained(book: WindowBook) -> None:
    """000-A23: the report names the part that was compressed before."""
    await book.expire("s1", before_tick=11)

    done = await book.retain("s1", Ticks(6, 15))

    assert done.gone == (Ticks(1, 10),)
    assert [window.ticks for window in done.windows] == [Ticks(11, 15)]
    with pytest.raises(NotFound, match="nothing is left of the ticks 1 to 5"):
        await book.retain("s1", Ticks(1, 5))


async def test_a_submission_keeps_every_example(book: WindowBook, file: LayerFile) -> None:
    """000-R064, 000-R066, 000-R092, 000-R093, 000-A09: of tags on timesteps, events and ranges."""
    tag(file, "bud", timestep_id="ts-s1-3")
    tag(file, "bud", event_id="e4")
    tag(file, "bud", range_start=41, range_end=45)
    await book.retain("s1", Ticks(40, 50))

    done = await book.submit_graft("bud", "graft-1")

    windows = await book.get_windows_for_submission("graft-1")
    assert [window.ticks for window in windows] == [Ticks(3, 3), Ticks(21, 25), Ticks(40, 50)]
    assert sorted(done.window_ids) == sorted(window.id for window in windows)
    assert {window.submission_ids for window in windows} == {("graft-1",)}
    assert not done.partial
    assert await book.get_windows_for_tag("bud") == windows


async def test_examples_that_are_gone_are_reported(book: WindowBook, file: LayerFile) -> None:
    """000-A22: the submission says that it is partial."""
    tag(file, "bud", timestep_id="ts-s1-3")
    tag(file, "bud", timestep_id="ts-s1-8")
    await book.expire("s1", before_tick=6)

    done = await book.submit_graft("bud", "graft-1")

    assert done.partial
    assert done.missing == ("s1:1-5",)
    assert len(done.window_ids) == 1


async def test_submitted_windows_do_not_count_against_the_quota(
    book: WindowBook, file: LayerFile
) -> None:
    """000-R067: evidence is not what the agent chose to keep."""
    await book.retain("s1", Ticks(1, 100))
    tag(file, "bud", range_start=1, range_end=5)
    await book.submit_graft("bud", "graft-1")

    await book.retain("s2", Ticks(1, 100))

    assert {window.fidelity for window in await book.windows("s1")} == {Fidelity.SUBMITTED}


@pytest.mark.parametrize(
    ("accepted", "fidelity"), [(True, Fidelity.COLD), (False, Fidelity.WARM)], ids=["yes", "no"]
)
async def test_a_resolved_submission_releases_its_windows(
    book: WindowBook, file: LayerFile, *, accepted: bool, fidelity: Fidelity
) -> None:
    """000-R094, 000-R096, 000-R097: accepted ones are compressed, rejected ones unpinned."""
    tag(file, "bud", event_id="e1")
    await book.submit_graft("bud", "graft-1")

    resolved = await book.resolve_submission("graft-1", accepted=accepted)

    assert [(window.ticks, window.fidelity) for window in resolved] == [(Ticks(6, 10), fidelity)]
    assert [window.pinned for window in await book.windows("s1")] == [False]
    assert await book.get_windows_for_submission("graft-1") == []


async def test_a_window_of_two_submissions_waits_for_both(
    book: WindowBook, file: LayerFile
) -> None:
    """The second submission counts although the window was taken.

    Rows: PG-14, 000-R065, 000-R095, 000-A21.
    """
    tag(file, "bud", event_id="e1")
    await book.submit_graft("bud", "graft-1")
    await book.submit_graft("bud", "graft-2")

    await book.resolve_submission("graft-1", accepted=True)
    await book.expire("s1", before_tick=150)

    [window] = await book.get_windows_for_submission("graft-2")
    assert (window.ticks, window.fidelity) == (Ticks(6, 10), Fidelity.SUBMITTED)
    await book.resolve_submission("graft-2", accepted=True)
    assert {window.fidelity for window in await book.windows("s1")} == {Fidelity.COLD}


async def test_the_evidence_of_a_submission_is_exported(
    book: WindowBook, file: LayerFile, tmp_path: Path
) -> None:
    """000-R199, 000-R200: timesteps, with the tags on them, and nothing of other windows."""
    tag(file, "bud", event_id="e1")
    tag(file, "other", timestep_id="ts-s1-90")
    await book.submit_graft("bud", "graft-1")

    package = await book.export_submission("graft-1", tmp_path / "exports", be_id="be-7")

    assert verify_package(package.path) == package
    assert package.records["timesteps.jsonl"] == EVENT
    [applied] = (package.path / "tag_applications.jsonl").read_text().splitlines()
    assert json.loads(applied)["tag_name"] == "bud"
    first = json.loads((package.path / "timesteps.jsonl").read_text().splitlines()[0])
    assert (first["id"], first["content"]) == ("ts-s1-6", "t6 ")
    with pytest.raises(NotFound, match="graft-2"):
        await book.export_submission("graft-2", tmp_path, be_id="be-7")


async def test_a_submission_that_does_not_exist_cannot_be_resolved(book: WindowBook) -> None:
    """A typing error must not look like success."""
    with pytest.raises(NotFound, match="graft-9"):
        await book.resolve_submission("graft-9", accepted=True)


async def test_only_warm_windows_are_released(book: WindowBook, file: LayerFile) -> None:
    """000-R065: evidence stays until its submission is resolved."""
    tag(file, "bud", event_id="e1")
    [window_id] = (await book.submit_graft("bud", "graft-1")).window_ids

    with pytest.raises(Incorrect, match="submitted"):
        await book.release(window_id)


RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=12).map(
    lambda pairs: [Ticks(min(pair), max(pair)) for pair in pairs]
)


@given(RANGES, st.tuples(st.integers(0, 60), st.integers(0, 60)))
def test_uncovered_ticks_are_those_that_no_range_has(
    taken: list[Ticks], pair: tuple[int, int]
) -> None:
    """A tick has one window at most (000-R019)."""
    wanted = Ticks(min(pair), max(pair))
    ticks = {tick for part in taken for tick in range(part.start, part.end + 1)}

    parts = list(uncovered(wanted, taken))

    found = [tick for part in parts for tick in range(part.start, part.end + 1)]
    assert found == [tick for tick in range(wanted.start, wanted.end + 1) if tick not in ticks]


@given(RANGES)
def test_merged_ranges_are_disjoint_and_equal(ranges: list[Ticks]) -> None:
    """Tags that overlap make one window."""
    merged = merge_ticks(ranges)

    assert all(left.end + 1 < right.start for left, right in pairwise(merged))
    assert {tick for part in merged for tick in range(part.start, part.end + 1)} == {
        tick for part in ranges for tick in range(part.start, part.end + 1)
    }


async def test_ticks_may_be_far_apart(tmp_path: Path) -> None:
    """000-R025, 000-R062, 000-R069: ticks only grow; they may be times in milliseconds."""
    ticks = [1, 70_000, 1_790_000_000_000, 1_790_000_900_000]
    async with await ExperienceLog.open(tmp_path / "gaps") as log:
        for tick in ticks:
            [step] = _steps("s1", tick, tick)
            await log.record_timestep(step)
        book = WindowBook(log, warm_quota_tokens=QUOTA)

        retained = await book.retain("s1", Ticks(ticks[0], ticks[1]))
        [cold] = await book.expire("s1", before_tick=ticks[3])
        left = [step.tick for step in await log.query(session_id="s1")]

    assert (retained.tokens, [each.ticks for each in retained.windows]) == (2, [Ticks(1, 70_000)])
    assert (cold.ticks, cold.token_count) == (Ticks(ticks[2], ticks[2]), 1)
    assert left == [ticks[0], ticks[1], ticks[3]]
