"""``ctxmgr experience``: query, recall and export what was recorded. Through ``App`` only."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.operation import Param
from ctxmgr.surfaces.views.store.sql_rows import SqlRows

if TYPE_CHECKING:
    from ctxmgr.app import App

EventKind = Literal["input", "output", "tool_call", "tool_response", "steering", "system"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperienceOverview:
    """How much was recorded."""

    folder: str
    sessions: int
    steps: int
    tail_steps: int
    """Of these, steps that are not in a segment yet."""
    segments: int
    segment_bytes: int
    concepts: int
    tags: int
    comments: int
    windows: int
    checked: int
    """Segments whose files were compared with their hashes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledStep:
    """A timestep."""

    id: str
    time: str
    event_type: str
    role: str | None
    content: str
    concept_activations: dict[str, float]
    event_id: str | None
    session_id: str
    tick: int
    token_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledSteps:
    steps: tuple[RecalledStep, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """Some consecutive ticks of a session."""

    start_tick: int
    steps: int
    """Of these ticks, those that are kept token by token."""
    event_type: str
    """What most of them were part of."""
    concept_activations: dict[str, float]
    """The highest score of each concept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConceptCurves:
    """A whole session, with few points."""

    session_id: str
    last_tick: int
    ticks_per_point: int
    concepts: tuple[str, ...]
    """By their highest score."""
    points: tuple[CurvePoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedTable:
    """A file that was written."""

    table: str
    rows: int
    file: str


RECALL_MAX: Final = 2_000
"""Steps in one answer, which can be long texts."""

CURVE_POINTS_MAX: Final = 2_000
CURVE_CONCEPTS_MAX: Final = 50
"""What one answer holds, whatever the length of the session."""

_FOLDER = Param("The folder with the experience; default: the setting.", metavar="DIR", local=True)


async def experience_sql(
    app: "App",
    statement: Annotated[str, Param("One SELECT statement of DuckDB.", metavar="SQL")],
    *,
    limit: Annotated[int, Param("Rows to return.")] = 1_000,
    seconds: Annotated[int, Param("Stop after this time.")] = 60,
    folder: Annotated[Path | None, _FOLDER] = None,
) -> SqlRows:
    """Run SQL over what was recorded, also while agents write.

    Tables: timesteps, activations, tags, tag_applications, comments, time_windows,
    compressed_records, compactions. Nothing can be changed, and no other file be read.
    """
    async with app.xdb(folder) as xdb:
        result = await xdb.experience_log.sql(statement, rows_max=limit, seconds_max=seconds)
    return SqlRows(
        columns=result.columns,
        rows=tuple(
            {name: _value(value) for name, value in zip(result.columns, row, strict=True)}
            for row in result.rows
        ),
        truncated=result.truncated,
    )


async def experience_status(
    app: "App",
    *,
    check: Annotated[bool, Param("Compare all files with their hashes.")] = False,
    folder: Annotated[Path | None, _FOLDER] = None,
) -> ExperienceOverview:
    """Show how much was recorded.

    With --check, a file that is missing or was altered is named, and the command fails.
    """
    async with app.xdb(folder) as xdb:
        checked = await xdb.experience_log.check(hashes=True) if check else 0
        status = await xdb.experience_log.status()
    return ExperienceOverview(
        folder=status.folder,
        sessions=status.sessions,
        steps=status.steps,
        tail_steps=status.tail_steps,
        segments=status.segments,
        segment_bytes=status.segment_bytes,
        concepts=status.concepts,
        tags=status.tags,
        comments=status.comments,
        windows=status.windows,
        checked=checked,
    )


async def experience_recall(
    app: "App",
    text: Annotated[str | None, Param("Only steps whose content has this.")] = None,
    *,
    session: Annotated[str | None, Param("Only steps of this session.")] = None,
    concept: Annotated[
        str | None, Param("Only steps with a score of this concept.", metavar="ID")
    ] = None,
    min_score: Annotated[float, Param("The lowest score of the concept.")] = 0.5,
    tag: Annotated[str | None, Param("Only steps with this tag, by name or id.")] = None,
    kind: Annotated[EventKind | None, Param("Only steps of this event type.")] = None,
    ticks: Annotated[
        str | None, Param("Only steps between two ticks, such as 10-20.", metavar="RANGE")
    ] = None,
    since: Annotated[int | None, Param("Not before this time.", instant=True)] = None,
    until: Annotated[int | None, Param("Not after this time.", instant=True)] = None,
    limit: Annotated[int, Param("Steps to show.")] = 100,
    offset: Annotated[int, Param("Skip this many.")] = 0,
    folder: Annotated[Path | None, _FOLDER] = None,
) -> RecalledSteps:
    """Find recorded timesteps; all filters have to hold."""
    if not 1 <= limit <= RECALL_MAX:
        raise Incorrect(f"limit must be 1 to {RECALL_MAX:,}, not {limit}; use offset for more")
    from ctxmgr.surfaces.encoding import iso

    times = None
    if since is not None or until is not None:
        times = (since or 0, 2**53 if until is None else until)
    async with app.xdb(folder) as xdb:
        found = await xdb.experience_log.query(
            session_id=session,
            tick_range=None if ticks is None else tick_range(ticks),
            time_range=times,
            event_types=None if kind is None else (kind,),
            tags=None if tag is None else await xdb.tag_ids((tag,)),
            concept_activations={} if concept is None else {concept: (min_score, 1.0)},
            text_search=text,
            limit=limit,
            offset=offset,
        )
    steps = tuple(
        RecalledStep(
            id=step.id,
            time=iso(step.timestamp),
            event_type=step.event_type,
            role=step.role,
            content=step.content,
            concept_activations=dict(step.concept_activations),
            event_id=step.event_id,
            session_id=step.session_id,
            tick=step.tick,
            token_id=step.token_id,
        )
        for step in found
    )
    return RecalledSteps(steps=steps)


async def experience_curves(
    app: "App",
    session: Annotated[str, Param("The session.")],
    *,
    points: Annotated[int, Param("Points in which all ticks are summarised.")] = 500,
    concepts: Annotated[int, Param("Concepts to show, the highest ones.")] = 12,
    folder: Annotated[Path | None, _FOLDER] = None,
) -> ConceptCurves:
    """Show the concepts of a whole session as curves of few points.

    A point has the highest score of each concept among its ticks.
    """
    from ctxmgr.experience.records.timestep import check_session_id

    check_session_id(session)
    if not (0 < points <= CURVE_POINTS_MAX and 0 < concepts <= CURVE_CONCEPTS_MAX):
        raise Incorrect(
            f"points are 1 to {CURVE_POINTS_MAX:,} and concepts 1 to {CURVE_CONCEPTS_MAX}, not"
            f" {points} and {concepts}"
        )
    async with app.xdb(folder) as xdb:
        log, where = xdb.experience_log, f"session_id = {_quoted(session)}"
        last = await log.last_tick(session)
        width = max(1, -(-last // points))
        highest = await log.sql(
            f"SELECT concept_id FROM activations WHERE {where} GROUP BY concept_id"  # noqa: S608
            f" ORDER BY max(score) DESC, sum(score) DESC, concept_id LIMIT {concepts}"
        )
        names = tuple(str(name) for (name,) in highest.rows)
        scored = await log.sql(
            f"SELECT (tick - 1) // {width}, concept_id, max(score)"  # noqa: S608 (quoted)
            f" FROM activations WHERE {where}"
            f" AND concept_id IN ({', '.join(map(_quoted, names)) or 'NULL'}) GROUP BY ALL",
            rows_max=points * concepts,
        )
        kinds = await log.sql(
            f"SELECT (tick - 1) // {width} AS point, count(*), mode(event_type)"  # noqa: S608
            f" FROM timesteps WHERE {where} GROUP BY point ORDER BY point",
            rows_max=points,
        )
    scores: dict[int, dict[str, float]] = {}
    for point, name, score in scored.rows:
        scores.setdefault(point, {})[name] = round(score, 4)
    return ConceptCurves(
        session_id=session,
        last_tick=last,
        ticks_per_point=width,
        concepts=names,
        points=tuple(
            CurvePoint(
                start_tick=1 + point * width,
                steps=steps,
                event_type=kind,
                concept_activations=scores.get(point, {}),
            )
            for point, steps, kind in kinds.rows
        ),
    )


async def experience_export(
    app: "App",
    *,
    parquet: Annotated[Path, Param("The folder to create, with a file per table.", metavar="DIR")],
    folder: Annotated[Path | None, _FOLDER] = None,
) -> tuple[ExportedTable, ...]:
    """Write everything that was recorded as Parquet files."""
    async with app.xdb(folder) as xdb:
        counts = await xdb.experience_log.export(parquet)
    return tuple(
        ExportedTable(table=name, rows=rows, file=str(parquet / f"{name}.parquet"))
        for name, rows in counts.items()
    )


def tick_range(text: str) -> tuple[int, int]:
    """Read a range of ticks, such as 10-20, or one tick."""
    first, dash, last = text.partition("-")
    if not (first.isdecimal() and (not dash or last.isdecimal())):
        raise Incorrect(f"{text!r:.40} is not a range of ticks, such as 10-20")
    return int(first), int(last if dash else first)


def _quoted(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def _value(value: Any) -> Any:
    """Return a value of DuckDB as one that JSON has."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if value == value and abs(value) != float("inf") else str(value)  # noqa: PLR0124
        case dict():
            return {str(key): _value(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_value(inner) for inner in value]
        case bytes():
            return value.hex()
        case _:
            return value.isoformat() if hasattr(value, "isoformat") else str(value)
