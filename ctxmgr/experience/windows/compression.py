"""Progressive compression: records of one unit of time become one record of that unit. Pure.

    TOKEN ─► REPLY ─► SESSION ─► DAY ─► WEEK ─► MONTH ─► QUARTER ─► YEAR
             one per   one per    by the start in UTC; a week belongs to the month,
             event     session    quarter and year of its Thursday, as in ISO 8601

Records of two units are never merged: ``unit_of`` says where a record belongs at a level, and
``compress_records`` refuses a mixture. One algorithm serves every level above REPLY;
``reply_records`` makes the first level from timesteps.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import Final

from ctxmgr.core.events.event_type import EventType
from ctxmgr.errors import Incorrect
from ctxmgr.experience.records.kinds import CompressionLevel
from ctxmgr.experience.records.timestep import NewTimestep, TimestepRecord

TOP_K: Final = 10
"""Concepts and tags that a record keeps."""

SUMMARY_CHARS_MAX: Final = 1_200
"""Characters of a summary that was made without a model."""

REPLY_CHARS_MAX: Final = 600
"""Characters that a reply keeps of its text: with ids and concepts about 1 KB a reply."""

PARTS_MAX: Final = 12
"""Summaries that one summary quotes; of more, those at even distances."""

Summarize = Callable[[Sequence[str]], str]
"""Makes one summary of several, which are in the order of time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressedRecord:
    """What is left of a reply, a session, a day and so on. Times are UTC milliseconds."""

    id: str
    level: CompressionLevel
    session_id: str | None
    """None above SESSION, where a record covers several sessions."""
    start_time: int
    end_time: int
    start_tick: int | None
    """Only replies have ticks, as has ``end_tick``."""
    end_tick: int | None
    summary: str = field(repr=False)
    top_k_activations: Mapping[str, float]
    """Concept id → sum of its scores, the highest first."""
    significant_tags: tuple[str, ...]
    """Ids of tags, the most frequent first."""
    source_record_ids: tuple[str, ...] = field(repr=False)
    """What it was made from. Of a reply: the ids of its first and its last timestep."""
    token_count: int
    """Tokens of the original that it stands for."""
    record_count: int
    """Records that it was made from."""
    superseded_by: str | None = None
    """The coarser record that this one went into; its text and its concepts are then empty."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit of time at a level, such as the week 2026-W07."""

    level: CompressionLevel
    name: str


def unit_of(record: CompressedRecord, level: CompressionLevel) -> Unit:
    """Return the unit of a level that a record belongs to."""
    if level <= CompressionLevel.SESSION:
        if record.session_id is None:
            raise Incorrect(f"{record.id} covers several sessions and cannot become {level.name}")
        return Unit(level, record.session_id)
    day = datetime.fromtimestamp(record.start_time / 1000, UTC).date()
    week = day.isocalendar()
    if record.level >= CompressionLevel.WEEK:
        day = date.fromisocalendar(week.year, week.week, 1) + timedelta(days=3)
    match level:
        case CompressionLevel.DAY:
            return Unit(level, day.isoformat())
        case CompressionLevel.WEEK:
            return Unit(level, f"{week.year}-W{week.week:02}")
        case CompressionLevel.MONTH:
            return Unit(level, f"{day.year}-{day.month:02}")
        case CompressionLevel.QUARTER:
            return Unit(level, f"{day.year}-Q{(day.month + 2) // 3}")
        case _:
            return Unit(level, str(day.year))


def next_level(level: CompressionLevel) -> CompressionLevel:
    """Return the next coarser level; ``Incorrect`` for YEAR, which is the last."""
    if level is CompressionLevel.YEAR:
        raise Incorrect("YEAR is the coarsest level")
    return CompressionLevel(level + 1)


def join_summaries(summaries: Sequence[str]) -> str:
    """Return one summary without a model: the beginnings of each, in their order."""
    texts = [text for text in (" ".join(each.split()) for each in summaries) if text]
    if len(texts) > PARTS_MAX:
        last = len(texts) - 1
        texts = [texts[round(n * last / (PARTS_MAX - 1))] for n in range(PARTS_MAX)]
    share = SUMMARY_CHARS_MAX // max(len(texts), 1) - len(" · ")
    return " · ".join(_shorten(text, share) for text in texts)


def compress_records(
    records: Sequence[CompressedRecord],
    *,
    record_id: str,
    earlier: CompressedRecord | None = None,
    k: int = TOP_K,
    summarize: Summarize = join_summaries,
) -> CompressedRecord:
    """Compress records of one level and one unit to one record of the next coarser level.

    ``earlier`` is the record of the same unit if there is one: the result then replaces it and
    keeps its id. ``Incorrect`` if the records belong to several levels or units.
    """
    if not records:
        raise Incorrect("there are no records to compress")
    levels = {record.level for record in records}
    if len(levels) > 1:
        raise Incorrect(f"records of {len(levels)} levels cannot be compressed together")
    level = next_level(records[0].level)
    units = {unit_of(record, level) for record in records}
    if earlier is not None:
        units.add(unit_of(earlier, level))
    if len(units) > 1:
        names = ", ".join(sorted(unit.name for unit in units))
        raise Incorrect(f"records of several units cannot be compressed together: {names:.200}")
    inputs = sorted(records, key=lambda record: (record.start_time, record.id))
    before = [] if earlier is None else [earlier]
    everything = [*before, *inputs]
    return CompressedRecord(
        id=record_id if earlier is None else earlier.id,
        level=level,
        session_id=inputs[0].session_id if level is CompressionLevel.SESSION else None,
        start_time=min(record.start_time for record in everything),
        end_time=max(record.end_time for record in everything),
        start_tick=None,
        end_tick=None,
        summary=summarize([record.summary for record in everything]),
        top_k_activations=strongest((record.top_k_activations for record in everything), k),
        significant_tags=most_frequent((record.significant_tags for record in everything), k),
        source_record_ids=(
            *(() if earlier is None else earlier.source_record_ids),
            *(record.id for record in inputs),
        ),
        token_count=sum(record.token_count for record in everything),
        record_count=(0 if earlier is None else earlier.record_count) + len(inputs),
    )


def reply_records(
    steps: Sequence[TimestepRecord],
    *,
    record_ids: Iterable[str],
    tags_of: Callable[[int, int], Sequence[str]],
    k: int = TOP_K,
) -> list[CompressedRecord]:
    """Return one record per event of one session's timesteps, which are in the order of ticks.

    Consecutive timesteps with one event id are an event; one without an id is an event by itself.
    ``tags_of`` returns the tags of a range of ticks, each as often as it applies.
    """
    ids = iter(record_ids)
    return [_reply(event, next(ids), tags_of, k) for event in _events(steps)]


def token_count(step: NewTimestep) -> int:
    """Return the tokens of a timestep: 1 in an answer, otherwise the words of its content."""
    return 1 if step.event_type is EventType.OUTPUT else max(1, len(step.content.split()))


def _events(steps: Sequence[TimestepRecord]) -> list[list[TimestepRecord]]:
    return [
        list(event)
        for _, event in groupby(
            steps, key=lambda step: ("event", step.event_id) if step.event_id else ("", step.tick)
        )
    ]


def _reply(
    event: Sequence[TimestepRecord],
    record_id: str,
    tags_of: Callable[[int, int], Sequence[str]],
    k: int,
) -> CompressedRecord:
    first, last = event[0], event[-1]
    return CompressedRecord(
        id=record_id,
        level=CompressionLevel.REPLY,
        session_id=first.session_id,
        start_time=min(step.timestamp for step in event),
        end_time=max(step.timestamp for step in event),
        start_tick=first.tick,
        end_tick=last.tick,
        summary=_shorten("".join(step.content for step in event), REPLY_CHARS_MAX),
        top_k_activations=strongest((step.concept_activations for step in event), k),
        significant_tags=most_frequent([tags_of(first.tick, last.tick)], k),
        source_record_ids=(first.id,) if first is last else (first.id, last.id),
        token_count=sum(map(token_count, event)),
        record_count=len(event),
    )


def strongest(scores: Iterable[Mapping[str, float]], k: int) -> dict[str, float]:
    """Return the k concepts with the highest sums of their scores."""
    sums: Counter[str] = Counter()
    for each in scores:
        sums.update(each)
    ranked = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    return {concept: round(score, 4) for concept, score in ranked[:k]}


def most_frequent(tags: Iterable[Sequence[str]], k: int) -> tuple[str, ...]:
    """Return the k tags that occur most often."""
    counts = Counter(tag for each in tags for tag in each)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(tag for tag, _ in ranked[:k])


def _shorten(text: str, chars: int) -> str:
    """Return a text, or its beginning and its end with an ellipsis between them."""
    text = text.strip()
    if len(text) <= chars:
        return text
    head = chars * 2 // 3
    return f"{text[:head].rstrip()} … {text[len(text) - (chars - head - 3) :].lstrip()}"
