"""Rows of windows and compressed records in ``log.sqlite``. Reads and writes them."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any, Final

import orjson

from ctxmgr.errors import Corrupt
from ctxmgr.experience.records.kinds import CompressionLevel, Fidelity
from ctxmgr.experience.records.timestep import parse_timestep_id
from ctxmgr.experience.windows.compression import CompressedRecord
from ctxmgr.experience.windows.time_windows import Ticks, TimeWindow
from ctxmgr.stores.layer_file import SqlConnection

_WINDOW_FIELDS: Final = (
    "id, session_id, start_tick, end_tick, start_time, end_time, fidelity, compression_level,"
    " pinned, pinned_reason, submission_ids, token_count, summary, top_k_activations,"
    " significant_tags, source_record_ids"
)
_RECORD_FIELDS: Final = (
    "id, compression_level, session_id, start_time, end_time, start_tick, end_tick, summary,"
    " top_k_activations, significant_tags, source_record_ids, token_count, record_count,"
    " superseded_by"
)

RECORD_BYTES: Final = 96
"""What a record takes besides its texts: times, counts and ids, in round numbers."""

_PAYLOAD: Final = (
    "length(CAST(coalesce(summary, '') AS BLOB)) + length(CAST(top_k_activations AS BLOB))"
    " + length(CAST(significant_tags AS BLOB)) + length(CAST(source_record_ids AS BLOB))"
)


def read_windows(
    connection: SqlConnection, condition: str = "true", values: Sequence[Any] = ()
) -> list[TimeWindow]:
    """Return the windows that a condition in SQL selects, by session and tick."""
    rows = connection.execute(
        f"SELECT {_WINDOW_FIELDS} FROM time_windows WHERE {condition}"
        " ORDER BY session_id, start_tick",
        tuple(values),
    )
    return [_window(row) for row in rows]


def save_window(connection: SqlConnection, window: TimeWindow) -> None:
    """Insert a window, or replace the one with its id."""
    connection.execute(
        f"INSERT OR REPLACE INTO time_windows ({_WINDOW_FIELDS})"
        " VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        (
            *(window.id, window.session_id, window.start_tick, window.end_tick),
            *(window.start_time, window.end_time, window.fidelity.value),
            *(int(window.compression_level), int(window.pinned), window.pinned_reason),
            *(_json(window.submission_ids), window.token_count, window.summary),
            *(_json(dict(window.top_k_activations)), _json(window.significant_tags)),
            _json(window.source_record_ids),
        ),
    )


def read_records(
    connection: SqlConnection, condition: str, values: Sequence[Any] = (), *, limit: int = -1
) -> list[CompressedRecord]:
    """Return the records that a condition in SQL selects, the oldest first."""
    rows = connection.execute(
        f"SELECT {_RECORD_FIELDS} FROM compressed_records WHERE {condition}"
        " ORDER BY start_time, id LIMIT ?",
        (*values, limit),
    )
    return [_record(row) for row in rows]


def save_record(connection: SqlConnection, record: CompressedRecord) -> None:
    """Insert a compressed record, or replace the one with its id."""
    connection.execute(
        f"INSERT OR REPLACE INTO compressed_records ({_RECORD_FIELDS})"
        " VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        (
            *(record.id, int(record.level), record.session_id, record.start_time, record.end_time),
            *(record.start_tick, record.end_tick, record.summary),
            *(_json(dict(record.top_k_activations)), _json(record.significant_tags)),
            *(_json(record.source_record_ids), record.token_count, record.record_count),
            record.superseded_by,
        ),
    )


def supersede(connection: SqlConnection, record_ids: Iterable[str], *, by: str) -> None:
    """Empty records that went into a coarser one; id, times and counts stay as their lineage."""
    connection.executemany(
        "UPDATE compressed_records SET superseded_by = ?, summary = NULL, top_k_activations = '{}',"
        " significant_tags = '[]' WHERE id = ?",
        [(by, record_id) for record_id in record_ids],
    )


def free_record_ids(connection: SqlConnection, level: CompressionLevel, seed: str) -> Iterator[str]:
    """Yield ids ``compressed-{LEVEL}-{8 hex}`` that are not in use, without end."""
    given: set[str] = set()
    number = 0
    while True:
        digits = sha256(f"{seed}:{number}".encode()).hexdigest()[:8]
        number += 1
        name = f"compressed-{level.name}-{digits}"
        if name in given:
            continue
        if connection.execute("SELECT 1 FROM compressed_records WHERE id = ?", (name,)).get is None:
            given.add(name)
            yield name


def tags_in(
    connection: SqlConnection, session_id: str, ticks: Ticks, event_ids: Iterable[str]
) -> list[tuple[str, Ticks | str]]:
    """Return each application of a tag in a range, with its ticks or the id of its event."""
    events = set(event_ids)
    found: list[tuple[str, Ticks | str]] = []
    for tag_id, timestep, event, start, end in connection.execute(
        "SELECT tag_id, timestep_id, event_id, range_start, range_end FROM tag_applications"
        " WHERE session_id = ?",
        (session_id,),
    ):
        target = _ticks_of(timestep, start, end)
        if target is None and event in events:
            found.append((tag_id, str(event)))
        elif target is not None and _overlap(target, ticks):
            found.append((tag_id, target))
    return found


def annotations_in(
    connection: SqlConnection, *, table: str, window: TimeWindow, event_ids: Iterable[str]
) -> list[dict[str, object]]:
    """Return the rows of ``tag_applications`` or ``comments`` that are about a window."""
    names = ", (SELECT name FROM tags WHERE tags.id = tag_id) AS tag_name"
    rows = connection.execute(
        f"SELECT *{names if table == 'tag_applications' else ''} FROM {table}"
        " WHERE session_id = ? ORDER BY created_at, id",
        (window.session_id,),
    )
    events = set(event_ids)
    found: list[dict[str, object]] = []
    columns: list[str] = []
    for row in rows:
        columns = columns or [name for name, *_ in rows.get_description()]
        values = dict(zip(columns, row, strict=True))
        target = _ticks_of(values["timestep_id"], values["range_start"], values["range_end"])
        is_inside = (
            values["event_id"] in events if target is None else _overlap(target, window.ticks)
        )
        if is_inside:
            found.append(values)
    return found


def bytes_by_level(connection: SqlConnection) -> dict[CompressionLevel, int]:
    """Return the logical bytes of compressed records that are not superseded."""
    rows = connection.execute(
        f"SELECT compression_level, sum({RECORD_BYTES} + {_PAYLOAD}) FROM compressed_records"
        " WHERE superseded_by IS NULL GROUP BY compression_level ORDER BY compression_level"
    )
    return {CompressionLevel(level): total for level, total in rows}


def _ticks_of(timestep: object, start: object, end: object) -> Ticks | None:
    """Return the ticks of a target; None if it is an event."""
    if isinstance(timestep, str):
        tick = parse_timestep_id(timestep)[1]
        return Ticks(tick, tick)
    return Ticks(start, end) if isinstance(start, int) and isinstance(end, int) else None


def _overlap(left: Ticks, right: Ticks) -> bool:
    return left.start <= right.end and right.start <= left.end


def _window(row: Sequence[Any]) -> TimeWindow:
    try:
        return TimeWindow(
            id=row[0],
            session_id=row[1],
            start_tick=row[2],
            end_tick=row[3],
            start_time=row[4],
            end_time=row[5],
            fidelity=Fidelity(row[6]),
            compression_level=CompressionLevel(row[7]),
            pinned=bool(row[8]),
            pinned_reason=row[9],
            submission_ids=tuple(orjson.loads(row[10])),
            token_count=row[11],
            summary=row[12],
            top_k_activations=orjson.loads(row[13]),
            significant_tags=tuple(orjson.loads(row[14])),
            source_record_ids=tuple(orjson.loads(row[15])),
        )
    except (ValueError, AssertionError) as error:
        raise Corrupt(f"the time window {row[0]!r:.100} is damaged: {error}") from error


def _record(row: Sequence[Any]) -> CompressedRecord:
    try:
        return CompressedRecord(
            id=row[0],
            level=CompressionLevel(row[1]),
            session_id=row[2],
            start_time=row[3],
            end_time=row[4],
            start_tick=row[5],
            end_tick=row[6],
            summary=row[7] or "",
            top_k_activations=orjson.loads(row[8]),
            significant_tags=tuple(orjson.loads(row[9])),
            source_record_ids=tuple(orjson.loads(row[10])),
            token_count=row[11],
            record_count=row[12],
            superseded_by=row[13],
        )
    except ValueError as error:
        raise Corrupt(f"the compressed record {row[0]!r:.100} is damaged: {error}") from error


def _json(value: object) -> str:
    return orjson.dumps(value).decode()
