"""Read timesteps from the tail and the segments. Reads ``log.sqlite`` and Parquet files.

    one read transaction ─► segments that can match, batches of the tail, what is gone, tags
    DuckDB ─► the places (session, tick) that match, in order
    the catalogue and one row group for each place ─► their records

A query sees the log as of one moment. If a file was merged away before DuckDB opened it, the query
begins again with a fresh list; a listed file that is missing or altered is ``Corrupt``.
"""

import logging
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ctxmgr.core.events.event_type import EventType
from ctxmgr.errors import Corrupt
from ctxmgr.experience.log.batches import END, EVENT_TYPES, records_of, shown_score
from ctxmgr.experience.log.concept_codes import ConceptCodes
from ctxmgr.experience.log.filters import StepFilters
from ctxmgr.experience.log.folder import LogFolder
from ctxmgr.experience.log.segments import SegmentRow
from ctxmgr.experience.log.stored_steps import StoredSteps
from ctxmgr.experience.log.tag_targets import TagTargets, tag_targets
from ctxmgr.experience.log.tail import Tail, TailRow, tail_rows
from ctxmgr.experience.records.timestep import TimestepRecord
from ctxmgr.stores.duckdb_engine import DuckdbEngine, quoted
from ctxmgr.stores.layer_file import LayerFile, SqlConnection, rows_of

ATTEMPTS: Final = 5
"""How often a query begins again because files were merged meanwhile."""

_RANGES: Final = pa.schema([("session", pa.string()), ("tick0", pa.int64()), ("tick1", pa.int64())])
_EVENTS: Final = pa.schema([("session", pa.string()), ("event_id", pa.string())])
_HITS: Final = pa.schema([("session_id", pa.string()), ("tick", pa.int64())])
_SCORED: Final = pa.schema([*_HITS, ("score", pa.float32())])

_log = logging.getLogger(__name__)
T = TypeVar("T")


class StepPlace(NamedTuple):
    """Where a step is: the order of results."""

    session_id: str
    tick: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredStep:
    """A step, and the score of the concept that was asked for."""

    record: TimestepRecord
    score: float


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """What a query reads: all of it as of one moment."""

    segments: tuple[SegmentRow, ...]
    tail: tuple[tuple[TailRow, pa.RecordBatch], ...]
    gone: pa.Table
    tags: tuple[TagTargets, ...] = ()

    def present(self, places: Sequence[StepPlace]) -> list[StepPlace]:
        """Return the places that are not gone."""
        if not self.gone.num_rows:
            return list(places)
        gone: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for row in self.gone.to_pylist():
            gone[row["session"]].append((row["tick0"], row["tick1"]))
        return [
            place
            for place in places
            if not any(low <= place.tick <= high for low, high in gone[place.session_id])
        ]


class LogReader:
    """Reads one log. Thread-safe."""

    def __init__(
        self,
        folder: LogFolder,
        file: LayerFile,
        tail: Tail,
        codes: ConceptCodes,
    ) -> None:
        self._folder = folder
        self._file = file
        self._tail = tail
        self._codes = codes
        self._engine = DuckdbEngine()
        self._stored = StoredSteps(folder)

    def close(self) -> None:
        self._stored.close()
        self._engine.close()

    def get(self, place: StepPlace) -> TimestepRecord | None:
        """Return the step at a place; None if there is none."""
        ticks = (place.tick, place.tick)

        def read() -> TimestepRecord | None:
            snapshot = self._snapshot(session_id=place.session_id, ticks=ticks)
            return self._records(snapshot, [place]).get(place)

        return self._retried(read)

    def query(self, filters: StepFilters) -> list[TimestepRecord]:
        """Return the steps that match, by session and tick."""

        def read() -> list[TimestepRecord]:
            snapshot = self._snapshot(
                session_id=filters.session_id,
                ticks=filters.tick_range,
                times=filters.time_range,
                filters=filters,
            )
            places = self._places(snapshot, filters)
            records = self._records(snapshot, places)
            return [records[place] for place in places if place in records]

        return self._retried(read)

    def top(
        self, concept_id: str, *, session_id: str | None, minimum: float, maximum: float, limit: int
    ) -> list[ScoredStep]:
        """Return the steps with the highest scores of a concept, highest first."""

        def read() -> list[ScoredStep]:
            snapshot = self._snapshot(session_id=session_id)
            hits = self._tail_hits(snapshot, concept_id, minimum, maximum, session_id, scored=True)
            sql, values = _activations(
                self._files(snapshot.segments, activations=True),
                "session_id, tick, score",
                tail="tail_hits" if hits.num_rows else None,
                concept_id=concept_id,
                scores=(minimum, maximum),
                session_id=session_id,
            )
            rows = self._engine.rows(
                f"SELECT session_id, tick, score FROM ({sql}) AS t"
                f" WHERE {_not_gone(snapshot)}"
                " ORDER BY score DESC, session_id, tick LIMIT ?",
                [*values, limit],
                tables={"tail_hits": hits, "gone": snapshot.gone},
            )
            scores = {StepPlace(session, tick): score for session, tick, score in rows}
            records = self._records(snapshot, list(scores))
            return [
                ScoredStep(record=records[place], score=shown_score(score))
                for place, score in scores.items()
                if place in records
            ]

        return self._retried(read)

    def events_in_range(
        self, session_id: str, ticks: tuple[int, int], event_ids: Sequence[str]
    ) -> list[str]:
        """Return which of these events have a step between two ticks."""
        if not event_ids:
            return []

        def read() -> list[str]:
            snapshot = self._snapshot(session_id=session_id, ticks=ticks)
            tail = self._tail_steps(snapshot)
            steps = self._steps(snapshot, tail, "session_id, tick, event_id")
            rows = self._engine.rows(
                f"SELECT DISTINCT event_id FROM ({steps}) AS t WHERE session_id = ?"
                " AND tick BETWEEN ? AND ? AND list_contains(?, event_id)",
                [session_id, *ticks, list(event_ids)],
                tables={"tail_steps": tail},
            )
            return [event_id for (event_id,) in rows]

        return self._retried(read)

    def event_ticks(self, session_id: str, event_ids: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Return the first and the last tick of these events; missing ones are left out."""

        def read() -> dict[str, tuple[int, int]]:
            snapshot = self._snapshot(session_id=session_id)
            tail = self._tail_steps(snapshot)
            steps = self._steps(snapshot, tail, "session_id, tick, event_id")
            rows = self._engine.rows(
                f"SELECT event_id, min(tick), max(tick) FROM ({steps}) AS t WHERE session_id = ?"
                " AND list_contains(?, event_id) GROUP BY event_id",
                [session_id, list(event_ids)],
                tables={"tail_steps": tail},
            )
            return {event_id: (first, last) for event_id, first, last in rows}

        return self._retried(read)

    def has_ended_event(self, session_id: str, event_id: str) -> bool:
        """Return whether a step of a session is the end of an event."""

        def read() -> bool:
            snapshot = self._snapshot(session_id=session_id)
            for _, batch in reversed(snapshot.tail):
                ends = pc.not_equal(pc.bit_wise_and(batch.column("flags"), END), 0)
                if pc.any(pc.and_(ends, pc.equal(batch.column("event_id"), event_id))).as_py():
                    return True
            files = self._files(snapshot.segments)
            return bool(files) and bool(
                self._engine.rows(
                    f"SELECT 1 FROM {parquet(files)} WHERE session_id = ? AND event_id = ?"
                    " AND event_end LIMIT 1",
                    [session_id, event_id],
                )
            )

        return self._retried(read)

    def _retried(self, read: Callable[[], T]) -> T:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return read()
            except Corrupt as error:
                self.check_files()  # raises if a listed file is missing or altered
                if attempt == ATTEMPTS:
                    raise
                _log.debug("segments changed during a query, which begins again: %s", error)
        raise AssertionError

    def check_files(self, *, hashes: bool = False) -> int:
        """Check every listed file; ``Corrupt`` names the first that is not as it was written."""
        for _ in range(ATTEMPTS):
            with self._file.reading() as connection:
                segments = matching_segments(connection)
            for segment in segments:
                try:
                    self._check(segment, hashes=hashes)
                except Corrupt:
                    with self._file.reading() as connection:
                        listed = {each.name for each in matching_segments(connection)}
                    if segment.name in listed:
                        raise
                    break  # it was merged meanwhile
            else:
                return len(segments)
        return 0

    def _check(self, segment: SegmentRow, *, hashes: bool) -> None:
        for path, size, sha256 in (
            (
                self._folder.timesteps(segment.name),
                segment.timesteps_bytes,
                segment.timesteps_sha256,
            ),
            (
                self._folder.activations(segment.name),
                segment.activations_bytes,
                segment.activations_sha256,
            ),
        ):
            self._folder.check_file(path, size=size, sha256=sha256 if hashes else None)

    # What a query reads.

    def _snapshot(
        self,
        *,
        session_id: str | None = None,
        ticks: tuple[int, int] | None = None,
        times: tuple[int, int] | None = None,
        filters: StepFilters | None = None,
    ) -> _Snapshot:
        with self._file.reading() as connection:
            self._codes.names(connection)
            tags: tuple[TagTargets, ...] = ()
            if filters is not None:
                wanted = [filters.tags] if filters.tags is not None else []
                wanted += [(tag,) for tag in filters.tags_all or ()]
                tags = tuple(tag_targets(connection, ids, session_id) for ids in wanted)
            rows = tail_rows(connection, session_id=session_id, ticks=ticks, times=times)
            batches = tuple((row, self._tail.batch(connection, row)) for row in rows)
            self._tail.forget_folded(connection)
            return _Snapshot(
                matching_segments(connection, session_id=session_id, ticks=ticks, times=times),
                batches,
                _gone(connection, session_id),
                tags,
            )

    def _places(self, snapshot: _Snapshot, filters: StepFilters) -> list[StepPlace]:
        """Return where the steps are that match, in order."""
        if filters.concept_activations and not _looks_at_steps(filters):
            sql, values, tables = self._by_concept(snapshot, filters)
            sql = f"SELECT session_id, tick FROM ({sql}) AS t WHERE {_not_gone(snapshot)}"
        else:
            sql, values, tables = self._by_step(snapshot, filters)
        tables["gone"] = snapshot.gone
        rows = self._engine.rows(
            f"{sql} ORDER BY session_id, tick LIMIT ? OFFSET ?",
            [*values, filters.limit, filters.offset],
            tables=tables,
        )
        return [StepPlace(*row) for row in rows]

    def _by_concept(
        self, snapshot: _Snapshot, filters: StepFilters
    ) -> tuple[str, list[object], dict[str, pa.Table]]:
        """Return a statement for the places at which all concepts have such scores."""
        parts, values, tables = list[str](), list[object](), dict[str, pa.Table]()
        files = self._files(snapshot.segments, activations=True)
        for number, (concept_id, scores) in enumerate(filters.concept_activations.items()):
            name = f"tail_hits_{number}"
            hits = self._tail_hits(snapshot, concept_id, *scores, filters.session_id)
            if filters.tick_range is not None:
                low, high = filters.tick_range
                ticks = hits.column("tick")
                hits = hits.filter(
                    pc.and_(pc.greater_equal(ticks, low), pc.less_equal(ticks, high))
                )
            sql, own = _activations(
                files,
                "session_id, tick",
                tail=name if hits.num_rows else None,
                concept_id=concept_id,
                scores=scores,
                session_id=filters.session_id,
                ticks=filters.tick_range,
            )
            tables[name] = hits
            parts.append(f"({sql})")
            values += own
        return " INTERSECT ".join(parts), values, tables

    def _by_step(
        self, snapshot: _Snapshot, filters: StepFilters
    ) -> tuple[str, list[object], dict[str, pa.Table]]:
        """Return a statement for the places whose steps match."""
        conditions, values, tables = [_not_gone(snapshot)], list[object](), dict[str, pa.Table]()
        if filters.session_id is not None:
            conditions.append("session_id = ?")
            values.append(filters.session_id)
        if filters.tick_range is not None:
            conditions.append("tick BETWEEN ? AND ?")
            values += filters.tick_range
        if filters.time_range is not None:
            conditions.append("ts BETWEEN make_timestamp_ms(?) AND make_timestamp_ms(?)")
            values += filters.time_range
        if filters.event_types is not None:
            kinds = ", ".join(quoted(EventType(kind)) for kind in filters.event_types)
            conditions.append(f"event_type IN ({kinds})" if kinds else "false")
        if filters.text_search:
            conditions.append("contains(lower(content), lower(?))")
            values.append(filters.text_search)
        for number, targets in enumerate(snapshot.tags):
            tables[f"ranges_{number}"] = _rows_table(targets.ranges, _RANGES)
            tables[f"events_{number}"] = _rows_table(targets.events, _EVENTS)
            conditions.append(
                f"(EXISTS (FROM ranges_{number} AS r WHERE r.session = t.session_id"
                " AND t.tick BETWEEN r.tick0 AND r.tick1)"
                f" OR EXISTS (FROM events_{number} AS e WHERE e.session = t.session_id"
                " AND e.event_id = t.event_id))"
            )
        if filters.concept_activations:
            sql, own, hits = self._by_concept(snapshot, filters)
            conditions.append(f"(session_id, tick) IN ({sql})")
            values += own
            tables |= hits
        tables["tail_steps"] = self._tail_steps(snapshot)
        columns = "session_id, tick, ts, event_type, content, event_id"
        steps = self._steps(snapshot, tables["tail_steps"], columns)
        sql = f"SELECT session_id, tick FROM ({steps}) AS t WHERE {' AND '.join(conditions)}"
        return sql, values, tables

    def _records(
        self, snapshot: _Snapshot, places: Sequence[StepPlace]
    ) -> dict[StepPlace, TimestepRecord]:
        """Return the steps at places, from the tail or from the segments that hold them."""
        found: dict[StepPlace, TimestepRecord] = {}
        wanted: dict[str, list[int]] = defaultdict(list)
        rows: dict[str, list[tuple[TailRow, pa.RecordBatch]]] = defaultdict(list)
        for row, batch in snapshot.tail:
            rows[row.session].append((row, batch))
        for place in snapshot.present(places):
            own = rows[place.session_id]
            number = bisect_right(own, place.tick, key=lambda each: each[0].tick0) - 1
            if number < 0 or place.tick >= own[number][0].tick0 + own[number][0].n:
                wanted[place.session_id].append(place.tick)
            else:
                row, batch = own[number]
                records = records_of(
                    batch.slice(place.tick - row.tick0, 1),
                    session_id=place.session_id,
                    tick0=place.tick,
                    name_of=self._codes.name_of,
                )
                found[place] = next(records)
        if wanted:
            found |= self._folded(wanted)
        return found

    def _folded(self, wanted: Mapping[str, Sequence[int]]) -> dict[StepPlace, TimestepRecord]:
        # Read anew: these steps never change, but may have been folded or merged meanwhile.
        with self._file.reading() as connection:
            held = self._stored.holding(connection, wanted)
        records = self._stored.read(held)
        return {StepPlace(each.session_id, each.tick): each for each in records}

    def _steps(self, snapshot: _Snapshot, tail: pa.Table, columns: str) -> str:
        """Return a statement for the steps of segments, and of the tail if it has some."""
        files = self._files(snapshot.segments)
        sources = [parquet(files)] if files else []
        if tail.num_rows or not files:
            sources.append("tail_steps")
        return " UNION ALL ".join(f"SELECT {columns} FROM {source}" for source in sources)

    def _tail_hits(
        self,
        snapshot: _Snapshot,
        concept_id: str,
        low: float,
        high: float,
        session_id: str | None,
        *,
        scored: bool = False,
    ) -> pa.Table:
        """Return the places in the tail at which a concept has such a score."""
        schema = _SCORED if scored else _HITS
        code = self._codes.code_of(concept_id)
        tables = [schema.empty_table()]
        if code is None:
            return tables[0]
        bounds = [np.float32(low), np.float32(high)]
        for row, batch in snapshot.tail:
            if session_id is not None and row.session != session_id:
                continue
            codes = batch.column("codes")
            scores = batch.column("scores").flatten().to_numpy()
            chosen = codes.flatten().to_numpy() == code
            chosen &= (scores >= bounds[0]) & (scores <= bounds[1])
            if not chosen.any():
                continue
            steps = np.repeat(np.arange(len(codes)), np.diff(codes.offsets.to_numpy()))[chosen]
            columns = [pa.array([row.session] * len(steps)), pa.array(steps + row.tick0)]
            columns += [pa.array(scores[chosen])] if scored else []
            tables.append(pa.table(columns, schema=schema))
        return pa.concat_tables(tables)

    def _tail_steps(self, snapshot: _Snapshot) -> pa.Table:
        schema = pa.schema(
            [
                *_HITS,
                *(("ts", pa.timestamp("ms")), ("event_type", pa.string())),
                *(("content", pa.string()), ("event_id", pa.string())),
            ]
        )
        kinds = pa.array(list(EVENT_TYPES), pa.string())
        tables = [schema.empty_table()]
        for row, batch in snapshot.tail:
            columns = [
                pa.array([row.session] * row.n, pa.string()),
                pa.array(np.arange(row.tick0, row.tick0 + row.n)),
                batch.column("ts").cast(pa.timestamp("ms")),
                kinds.take(batch.column("event_type")),
                batch.column("content"),
                batch.column("event_id"),
            ]
            tables.append(pa.table(columns, schema=schema))
        return pa.concat_tables(tables)

    def _files(
        self, segments: Sequence[SegmentRow], *, activations: bool = False
    ) -> tuple[Path, ...]:
        path = self._folder.activations if activations else self._folder.timesteps
        return tuple(path(segment.name) for segment in segments)


def matching_segments(
    connection: SqlConnection,
    *,
    session_id: str | None = None,
    ticks: tuple[int, int] | None = None,
    times: tuple[int, int] | None = None,
) -> tuple[SegmentRow, ...]:
    """Return the segments that can hold such steps."""
    conditions, values = ["1"], list[object]()
    if session_id is not None:
        conditions.append("session = ?")
        values.append(session_id)
    if ticks is not None:
        conditions.append("tick0 <= ? AND tick1 >= ?")
        values += [ticks[1], ticks[0]]
    if times is not None:
        conditions.append("ts0 <= ? AND ts1 >= ?")
        values += [times[1], times[0]]
    chosen = ""
    if values:
        chosen = f"WHERE id IN (SELECT segment FROM part WHERE {' AND '.join(conditions)})"
    sql = (
        "SELECT id, name, steps, acts, timesteps_sha256, activations_sha256, timesteps_bytes,"
        f" activations_bytes FROM segment {chosen} ORDER BY id"
    )
    return tuple(SegmentRow(*row) for row in rows_of(connection, sql, values))


def parquet(files: Sequence[Path]) -> str:
    """Return the table function that reads these files, and no others."""
    return f"read_parquet([{', '.join(quoted(str(file)) for file in files)}])"


def _activations(
    files: Sequence[Path],
    columns: str,
    *,
    tail: str | None,
    concept_id: str,
    scores: tuple[float, float],
    session_id: str | None,
    ticks: tuple[int, int] | None = None,
) -> tuple[str, list[object]]:
    """Return a statement for the activations of segments and of the table ``tail``."""
    in_tail = [f"SELECT {columns} FROM {tail}"] if tail is not None else []
    if not files:
        none = f"SELECT {columns} FROM (SELECT '' AS session_id, 0 AS tick, 0 AS score) WHERE false"
        return (in_tail or [none])[0], []
    conditions = ["concept_id = ?", "score BETWEEN ?::FLOAT AND ?::FLOAT"]
    values: list[object] = [concept_id, *scores]
    if session_id is not None:
        conditions.append("session_id = ?")
        values.append(session_id)
    if ticks is not None:
        conditions.append("tick BETWEEN ? AND ?")
        values += ticks
    stored = f"SELECT {columns} FROM {parquet(files)} WHERE {' AND '.join(conditions)}"
    return " UNION ALL ".join([stored, *in_tail]), values


def _gone(connection: SqlConnection, session_id: str | None) -> pa.Table:
    if session_id is None:
        rows = connection.execute("SELECT session, tick0, tick1 FROM gone")
    else:
        rows = connection.execute(
            "SELECT session, tick0, tick1 FROM gone WHERE session = ?", (session_id,)
        )
    return _rows_table(rows.fetchall(), _RANGES)


def _not_gone(snapshot: _Snapshot) -> str:
    if not snapshot.gone.num_rows:
        return "true"
    return (
        "NOT EXISTS (FROM gone AS g WHERE g.session = t.session_id"
        " AND t.tick BETWEEN g.tick0 AND g.tick1)"
    )


def _rows_table(rows: Sequence[Sequence[object]], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [() for _ in schema]
    arrays = [
        pa.array(list(values), field.type) for values, field in zip(columns, schema, strict=True)
    ]
    return pa.table(arrays, schema=schema)


def _looks_at_steps(filters: StepFilters) -> bool:
    """Whether a filter needs more than session, tick and concept."""
    return bool(
        filters.time_range is not None
        or filters.event_types is not None
        or filters.tags is not None
        or filters.tags_all
        or filters.text_search
    )
