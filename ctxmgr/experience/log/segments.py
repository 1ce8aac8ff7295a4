"""Segments: the history as Parquet files, two of them for each. Writes and reads files.

    timesteps     sorted by session and tick
    activations   all activations of these steps, sorted by concept, session and tick

Both hold what the tail held; the catalogue (tables ``segment`` and ``part``) says which ticks of
which session are where.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ctxmgr.errors import Corrupt
from ctxmgr.experience.log.batches import END, EVENT_TYPES, START
from ctxmgr.experience.log.folder import LogFolder, WrittenFile
from ctxmgr.experience.records.timestep import ROLES
from ctxmgr.stores.layer_file import SqlConnection

ROW_GROUP_STEPS: Final = 16_384
"""Smaller groups are slower to read and larger on disk."""

ROW_GROUP_ACTIVATIONS: Final = 100_000

_NAMES: Final = pa.dictionary(pa.int32(), pa.string())

TIMESTEPS_SCHEMA: Final = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("session_id", _NAMES),
        pa.field("tick", pa.int64()),
        pa.field("ts", pa.timestamp("ms")),
        pa.field("event_type", _NAMES),
        pa.field("content", pa.string()),
        pa.field("event_id", pa.string()),
        pa.field("event_start", pa.bool_()),
        pa.field("event_end", pa.bool_()),
        pa.field("token_id", pa.int64()),
        pa.field("role", _NAMES),
        pa.field("concept_activations", pa.map_(_NAMES, pa.float32())),
    ]
)

ACTIVATIONS_SCHEMA: Final = pa.schema(
    [
        pa.field("concept_id", _NAMES),
        pa.field("session_id", _NAMES),
        pa.field("tick", pa.int64()),
        pa.field("day", pa.date32()),
        pa.field("score", pa.float32()),
    ]
)

_CONCEPT: Final = "concept_activations.key_value.key"
_SCORE: Final = "concept_activations.key_value.value"
_TIMESTEPS_DICTIONARIES: Final = (
    *("session_id", "event_type", "content", "event_id", "role", _CONCEPT),
)
_TIMESTEPS_ENCODINGS: Final = {
    "id": "DELTA_BYTE_ARRAY",
    "tick": "DELTA_BINARY_PACKED",
    "ts": "DELTA_BINARY_PACKED",
    "token_id": "DELTA_BINARY_PACKED",
}
_ACTIVATIONS_ENCODINGS: Final = {"tick": "DELTA_BINARY_PACKED"}
_TIMESTEPS_OPTIONS: Final[Mapping[str, Any]] = {
    "row_group_size": ROW_GROUP_STEPS,
    # of the columns that queries compare; those of activations would cost more than the rest
    "write_statistics": [
        *("id", "session_id", "tick", "ts", "event_type", "event_id", "event_start", "event_end"),
        *("token_id", "role"),
    ],
}
_ACTIVATIONS_OPTIONS: Final[Mapping[str, Any]] = {"row_group_size": ROW_GROUP_ACTIVATIONS}
_DICTIONARIES: Final = [*("session_id", "event_type", "role", _CONCEPT)]
"""Columns that are read as they are stored."""

_WRITE: Final[Mapping[str, Any]] = {"compression": "zstd", "store_schema": False}

_Numbers: TypeAlias = "np.ndarray[tuple[int], np.dtype[Any]]"

_RADIX_MAX: Final = 1 << 16
"""NumPy sorts 16-bit numbers by radix, several times as fast as larger ones."""


class Encoding(NamedTuple):
    """How the two files of a segment are encoded. All encodings are read alike."""

    timesteps: Mapping[str, Any]
    activations: Mapping[str, Any]


FAST: Final = Encoding(
    {
        **_TIMESTEPS_OPTIONS,
        "use_dictionary": [*_TIMESTEPS_DICTIONARIES],
        "column_encoding": {**_TIMESTEPS_ENCODINGS, _SCORE: "BYTE_STREAM_SPLIT"},
    },
    {
        **_ACTIVATIONS_OPTIONS,
        "use_dictionary": ["concept_id", "session_id", "day"],
        "column_encoding": {**_ACTIVATIONS_ENCODINGS, "score": "BYTE_STREAM_SPLIT"},
        "write_statistics": ["concept_id", "tick", "day"],
    },
)
"""For folds, which writers wait for: nearly twice as fast. A merge soon replaces the files."""

COMPACT: Final = Encoding(
    {
        **_TIMESTEPS_OPTIONS,
        "use_dictionary": [*_TIMESTEPS_DICTIONARIES, _SCORE],
        "column_encoding": _TIMESTEPS_ENCODINGS,
    },
    {
        **_ACTIVATIONS_OPTIONS,
        "use_dictionary": ["concept_id", "session_id", "day", "score"],
        "column_encoding": _ACTIVATIONS_ENCODINGS,
        "write_statistics": ["concept_id", "session_id", "tick", "day"],
    },
)
"""For merges: three quarters of the size. Scores have four decimals, so a dictionary pays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRun:
    """Batches of one session, in the order of their ticks."""

    session_id: str
    ticks: tuple[int, ...]
    """The first tick of each batch."""
    batches: tuple[pa.RecordBatch, ...]


class SegmentRow(NamedTuple):
    """A segment of the catalogue."""

    id: int
    name: str
    steps: int
    acts: int
    timesteps_sha256: str
    activations_sha256: str
    timesteps_bytes: int
    activations_bytes: int


class SegmentPart(NamedTuple):
    """Some ticks of a session that lie in one segment."""

    session: str
    tick0: int
    tick1: int
    ts0: int
    ts1: int
    n: int


class WrittenSegment(NamedTuple):
    """A segment whose files are on disk and that is not in the catalogue yet."""

    name: str
    steps: int
    acts: int
    timesteps: WrittenFile
    activations: WrittenFile
    parts: tuple[SegmentPart, ...]


def timesteps_table(runs: Sequence[SessionRun], names: Mapping[int, str]) -> pa.Table:
    """Return batches of the tail as the table of a segment, sorted by session and tick."""
    ordered = sorted(runs, key=lambda run: run.session_id)
    batches = pa.Table.from_batches([batch for run in ordered for batch in run.batches])
    batches = batches.combine_chunks()
    lengths = [sum(batch.num_rows for batch in run.batches) for run in ordered]
    ticks = np.concatenate(
        [
            np.arange(tick0, tick0 + batch.num_rows)
            for run in ordered
            for tick0, batch in zip(run.ticks, run.batches, strict=True)
        ]
    )
    session_codes = pa.array(np.repeat(np.arange(len(ordered), dtype=np.int32), lengths))
    sessions = pa.DictionaryArray.from_arrays(
        session_codes, pa.array([run.session_id for run in ordered], pa.string())
    )
    flags = _numpy(batches, "flags")
    codes = _column(batches, "codes")
    columns = {
        "id": pc.binary_join_element_wise(
            "ts", sessions.cast(pa.string()), pa.array(ticks).cast(pa.string()), "-"
        ),
        "session_id": sessions,
        "tick": pa.array(ticks),
        "ts": _column(batches, "ts").cast(pa.timestamp("ms")),
        "event_type": _named(_column(batches, "event_type"), EVENT_TYPES),
        "content": _column(batches, "content"),
        "event_id": _column(batches, "event_id"),
        "event_start": pa.array((flags & START) != 0),
        "event_end": pa.array((flags & END) != 0),
        "token_id": _column(batches, "token_id"),
        "role": _named(_column(batches, "role"), ROLES),
        "concept_activations": pa.MapArray.from_arrays(
            codes.offsets, _concepts(codes.flatten(), names), _column(batches, "scores").flatten()
        ),
    }
    return pa.table(columns, schema=TIMESTEPS_SCHEMA)


def activations_table(timesteps: pa.Table) -> pa.Table:
    """Return the activations of a table that is sorted by session and tick."""
    timesteps = timesteps.combine_chunks()
    activations = _column(timesteps, "concept_activations")
    concepts, dictionary = activations.keys, activations.keys.dictionary
    by_name = pc.array_sort_indices(dictionary).to_numpy()
    ranks = _ranks(by_name)[concepts.indices.to_numpy()]
    # Steps are in order already, so a stable sort by concept leaves them so.
    order = np.argsort(ranks, kind="stable")
    lengths = np.diff(activations.offsets.to_numpy())
    steps = np.repeat(np.arange(len(activations), dtype=np.int32), lengths)[order]
    sorted_codes = np.repeat(by_name.astype(np.int32), np.bincount(ranks, minlength=len(by_name)))
    sessions = _column(timesteps, "session_id")
    days = _column(timesteps, "ts").cast(pa.date32()).cast(pa.int32()).to_numpy()
    return pa.table(
        {
            "concept_id": pa.DictionaryArray.from_arrays(sorted_codes, dictionary),
            "session_id": pa.DictionaryArray.from_arrays(
                sessions.indices.to_numpy()[steps], sessions.dictionary
            ),
            "tick": pa.array(_numpy(timesteps, "tick")[steps]),
            "day": pa.array(days[steps]).view(pa.date32()),
            "score": pa.array(activations.items.to_numpy()[order]),
        },
        schema=ACTIVATIONS_SCHEMA,
    )


def write_segment(folder: LogFolder, timesteps: pa.Table, *, encoding: Encoding) -> WrittenSegment:
    """Write the two files of a segment; they are on disk when this returns."""
    name = uuid.uuid4().hex[:16]
    activations = activations_table(timesteps)
    return WrittenSegment(
        name,
        timesteps.num_rows,
        activations.num_rows,
        folder.write(folder.timesteps(name), _parquet(timesteps, encoding.timesteps)),
        folder.write(folder.activations(name), _parquet(activations, encoding.activations)),
        tuple(_parts(timesteps)),
    )


def add_segment(connection: SqlConnection, segment: WrittenSegment) -> None:
    """List a segment in the catalogue."""
    number = connection.execute(
        "INSERT INTO segment (name, steps, acts, timesteps_sha256, activations_sha256,"
        " timesteps_bytes, activations_bytes) VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id",
        (
            segment.name,
            segment.steps,
            segment.acts,
            segment.timesteps.sha256,
            segment.activations.sha256,
            segment.timesteps.bytes,
            segment.activations.bytes,
        ),
    ).get
    connection.executemany(
        "INSERT INTO part VALUES (?, ?, ?, ?, ?, ?, ?)", [(*part, number) for part in segment.parts]
    )


def segment_rows(connection: SqlConnection) -> list[SegmentRow]:
    """Return the catalogue, oldest first."""
    rows = connection.execute(
        "SELECT id, name, steps, acts, timesteps_sha256, activations_sha256, timesteps_bytes,"
        " activations_bytes FROM segment ORDER BY id"
    )
    return [SegmentRow(*row) for row in rows]


def read_timesteps(folder: LogFolder, segment: SegmentRow) -> pa.Table:
    """Read the steps of a segment; ``Corrupt`` if the file is not the one that was written."""
    path = folder.timesteps(segment.name)
    folder.check_file(path, size=segment.timesteps_bytes, sha256=segment.timesteps_sha256)
    try:
        table = pq.read_table(path, read_dictionary=_DICTIONARIES)
    except (pa.ArrowException, OSError) as error:
        raise Corrupt(f"{path} cannot be read: {error}") from error
    return pa.table(
        [_as(table.column(field.name), field.type) for field in TIMESTEPS_SCHEMA],
        schema=TIMESTEPS_SCHEMA,
    )


def sorted_steps(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the steps of several segments, sorted by session and tick."""
    steps = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    sessions = _column(steps, "session_id")
    by_name = pc.array_sort_indices(sessions.dictionary).to_numpy()
    ranks = _ranks(by_name)[sessions.indices.to_numpy()]
    order = np.lexsort((_numpy(steps, "tick"), ranks))
    return steps.take(pa.array(order))


def _parts(timesteps: pa.Table) -> list[SegmentPart]:
    sessions = _column(timesteps.combine_chunks(), "session_id")
    codes = sessions.indices.to_numpy()
    ticks = _numpy(timesteps, "tick")
    times = _column(timesteps, "ts").cast(pa.int64()).to_numpy()
    starts = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
    return [
        SegmentPart(
            sessions.dictionary[int(codes[start])].as_py(),
            int(ticks[start]),
            int(ticks[end - 1]),
            int(times[start:end].min()),
            int(times[start:end].max()),
            end - start,
        )
        for start, end in pairwise(starts)
        if end > start
    ]


def _parquet(table: pa.Table, options: Mapping[str, Any]) -> memoryview:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **_WRITE, **options)
    return memoryview(sink.getvalue())


def _ranks(order: _Numbers) -> _Numbers:
    """Return the position of each entry, given the entries in their order."""
    ranks = np.empty(len(order), dtype=np.uint16 if len(order) < _RADIX_MAX else np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def _concepts(codes: pa.Array, names: Mapping[int, str]) -> pa.DictionaryArray:
    numbers = codes.to_numpy()
    highest = max(names, default=0)
    if len(numbers) and int(numbers.max()) > highest:
        raise Corrupt(f"the tail names the concept {numbers.max()}, which is unknown")
    distinct = np.flatnonzero(np.bincount(numbers, minlength=highest + 1))
    unknown = [int(code) for code in distinct if int(code) not in names]
    if unknown:
        raise Corrupt(f"the tail names the concept {unknown[0]}, which is unknown")
    places = np.zeros(highest + 1, dtype=np.int32)
    places[distinct] = np.arange(len(distinct))
    return pa.DictionaryArray.from_arrays(
        places[numbers], pa.array([names[int(code)] for code in distinct], pa.string())
    )


def _named(codes: pa.Array, names: Sequence[str]) -> pa.DictionaryArray:
    values = pa.array(list(names), pa.string())
    return pa.DictionaryArray.from_arrays(codes.cast(pa.int32()), values)


def _as(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_map(kind):
        chunk = column.combine_chunks()
        chunk = chunk.chunk(0) if isinstance(chunk, pa.ChunkedArray) else chunk
        return pa.MapArray.from_arrays(
            chunk.offsets, chunk.keys.dictionary_encode(), chunk.items, kind
        )
    return column.cast(kind) if column.type != kind else column


def _column(table: pa.Table, name: str) -> Any:
    """Return a column in one piece, without a copy if it is in one."""
    chunked = table.column(name)
    if chunked.num_chunks == 1:
        return chunked.chunk(0)
    combined = chunked.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _numpy(table: pa.Table, name: str) -> Any:
    return table.column(name).to_numpy()
