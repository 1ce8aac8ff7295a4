"""Progressive compression: one algorithm, units that are never mixed."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr import Incorrect
from ctxmgr.core.events.event_type import EventType
from ctxmgr.experience.records.kinds import CompressionLevel
from ctxmgr.experience.records.timestep import TimestepRecord
from ctxmgr.experience.windows.compression import (
    REPLY_CHARS_MAX,
    SUMMARY_CHARS_MAX,
    CompressedRecord,
    compress_records,
    join_summaries,
    next_level,
    reply_records,
    unit_of,
)


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def record(
    name: str = "r1",
    *,
    level: CompressionLevel = CompressionLevel.REPLY,
    time: int = 0,
    session: str | None = "s1",
    scores: dict[str, float] | None = None,
    tags: Sequence[str] = (),
    summary: str = "",
    tokens: int = 1,
) -> CompressedRecord:
    return CompressedRecord(
        id=name,
        level=level,
        session_id=session,
        start_time=time,
        end_time=time + 5,
        start_tick=None,
        end_tick=None,
        summary=summary,
        top_k_activations=scores or {},
        significant_tags=tuple(tags),
        source_record_ids=(),
        token_count=tokens,
        record_count=1,
    )


def test_records_become_one_of_the_next_level() -> None:
    """000-R075, 000-R079 to R082: times, counts and lineage are those of the inputs."""
    first = record("a", time=100, tokens=3, summary="one")
    second = record("b", time=50, tokens=4, summary="two")

    session = compress_records([first, second], record_id="compressed-SESSION-0123abcd")

    assert (session.id, session.level) == ("compressed-SESSION-0123abcd", CompressionLevel.SESSION)
    assert (session.start_time, session.end_time) == (50, 105)
    assert (session.start_tick, session.end_tick) == (None, None)
    assert (session.token_count, session.record_count) == (7, 2)
    assert session.source_record_ids == ("b", "a")
    assert session.summary == "two · one"
    assert session.session_id == "s1"


def test_scores_are_summed_and_the_strongest_kept() -> None:
    """000-R076: a concept that is weak in many records outweighs one that is strong in one."""
    records = [record(str(n), scores={"often": 0.4, f"once/{n}": 0.9}) for n in range(4)]

    coarse = compress_records(records, record_id="x", k=2)

    assert dict(coarse.top_k_activations) == {"often": 1.6, "once/0": 0.9}


def test_ten_concepts_and_tags_are_kept_by_default() -> None:
    """000-R075, 000-R207: k is 10 unless given."""
    scores = {f"c{n:02}": n / 100 for n in range(30)}
    coarse = compress_records(
        [record(scores=scores, tags=[f"t{n:02}" for n in range(30)])], record_id="x"
    )

    assert list(coarse.top_k_activations) == [f"c{n}" for n in range(29, 19, -1)]
    assert coarse.significant_tags == tuple(f"t{n:02}" for n in range(10))


def test_tags_are_counted_and_the_most_frequent_kept() -> None:
    """000-R077: the order is that of their frequency."""
    records = [record("a", tags=["x", "y"]), record("b", tags=["y"]), record("c", tags=["z", "y"])]

    assert compress_records(records, record_id="i", k=2).significant_tags == ("y", "x")


def test_a_summarizer_that_is_given_is_used() -> None:
    """000-R078: it gets the summaries in the order of time."""
    records = [record("b", time=2, summary="later"), record("a", time=1, summary="sooner")]

    coarse = compress_records(records, record_id="i", summarize=" then ".join)

    assert coarse.summary == "sooner then later"


def test_a_unit_that_has_a_record_gets_what_came_later() -> None:
    """000-A18: one record per session, however many passes it took."""
    early = compress_records([record("a", tokens=2), record("b", tokens=3)], record_id="first")

    both = compress_records([record("c", tokens=5)], record_id="second", earlier=early)

    assert (both.id, both.source_record_ids) == ("first", ("a", "b", "c"))
    assert (both.token_count, both.record_count) == (10, 3)


@pytest.mark.parametrize(
    "records",
    [
        pytest.param([], id="none"),
        pytest.param([record("a", session="s1"), record("b", session="s2")], id="two sessions"),
        pytest.param([record("a"), record("b", level=CompressionLevel.SESSION)], id="two levels"),
        pytest.param([record(level=CompressionLevel.YEAR)], id="beyond a year"),
    ],
)
def test_what_does_not_belong_together_is_refused(records: list[CompressedRecord]) -> None:
    """000-A18: units are never mixed, and 000-R088: YEAR is terminal."""
    with pytest.raises(Incorrect):
        compress_records(records, record_id="x")


@pytest.mark.parametrize(
    ("time", "level", "target", "unit"),
    [
        ("2026-03-01T23:59:59", "SESSION", "DAY", "2026-03-01"),
        ("2024-12-30T00:00:00", "DAY", "WEEK", "2025-W01"),
        ("2024-12-30T00:00:00", "WEEK", "MONTH", "2025-01"),
        ("2024-12-29T12:00:00", "WEEK", "MONTH", "2024-12"),
        ("2026-03-30T00:00:00", "WEEK", "MONTH", "2026-04"),
        ("2026-04-01T00:00:00", "MONTH", "QUARTER", "2026-Q2"),
        ("2026-12-01T00:00:00", "QUARTER", "YEAR", "2026"),
    ],
)
def test_a_record_belongs_to_one_unit(time: str, level: str, target: str, unit: str) -> None:
    """000-A30, 000-R072: days are UTC days, and a week is in the month of its Thursday."""
    found = unit_of(record(level=CompressionLevel[level], time=at(time)), CompressionLevel[target])

    assert found.name == unit


@given(
    st.lists(
        st.integers(min_value=at("2020-01-01"), max_value=at("2030-01-01")), min_size=1, max_size=60
    )
)
def test_tokens_survive_every_level(times: list[int]) -> None:
    """000-R082, 000-R019: from sessions to a year no token is lost, and none is counted twice."""
    records = [
        record(str(n), level=CompressionLevel.SESSION, time=time, tokens=n + 1)
        for n, time in enumerate(times)
    ]
    total = sum(each.token_count for each in records)
    for level in list(CompressionLevel)[CompressionLevel.DAY :]:
        units: dict[str, list[CompressedRecord]] = {}
        for each in records:
            units.setdefault(unit_of(each, level).name, []).append(each)
        records = [compress_records(unit, record_id=name) for name, unit in units.items()]
        assert {each.level for each in records} == {level}
        assert [unit_of(each, level).name for each in records] == list(units)
    assert sum(each.token_count for each in records) == total


def test_an_event_becomes_a_reply() -> None:
    """000-R070, 000-R022: tokens of one event are one record; an input is one by itself."""
    steps = [
        _step(1, "Fix the tests", EventType.INPUT),
        _step(2, "It ", event="e1", scores={"x": 0.5}),
        _step(3, "works", event="e1", scores={"x": 0.25, "y": 0.1}),
    ]

    replies = reply_records(steps, record_ids=["a", "b"], tags_of=lambda start, _: ["t"] * start)

    assert [reply.summary for reply in replies] == ["Fix the tests", "It works"]
    assert [(reply.start_tick, reply.end_tick) for reply in replies] == [(1, 1), (2, 3)]
    assert [reply.token_count for reply in replies] == [3, 2]
    assert dict(replies[1].top_k_activations) == {"x": 0.75, "y": 0.1}
    assert replies[1].source_record_ids == ("ts-s1-2", "ts-s1-3")
    assert replies[1].significant_tags == ("t",)
    assert {reply.level for reply in replies} == {CompressionLevel.REPLY}


@given(st.lists(st.text(max_size=3_000), max_size=40))
def test_a_summary_is_bounded(texts: list[str]) -> None:
    """000-R203: a coarse record stays small, whatever went into it."""
    assert len(join_summaries(texts)) <= SUMMARY_CHARS_MAX + 40


def test_a_long_reply_keeps_its_beginning_and_its_end() -> None:
    """000-R203: about 1 KB a reply."""
    step = _step(1, "begin " + "x" * 5_000 + " end")
    [reply] = reply_records([step], record_ids=["a"], tags_of=lambda *_: [])

    assert reply.summary.startswith("begin x")
    assert reply.summary.endswith("x end")
    assert len(reply.summary) <= REPLY_CHARS_MAX


def test_levels_follow_each_other() -> None:
    """000-R086: the order is fixed."""
    assert [next_level(level).name for level in list(CompressionLevel)[:-1]] == [
        *("REPLY", "SESSION", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
    ]


def _step(
    tick: int,
    content: str,
    kind: EventType = EventType.OUTPUT,
    *,
    event: str | None = None,
    scores: dict[str, float] | None = None,
) -> TimestepRecord:
    return TimestepRecord(
        session_id="s1",
        tick=tick,
        timestamp=1_000 + tick,
        event_type=kind,
        content=content,
        event_id=event,
        concept_activations=scores or {},
    )
