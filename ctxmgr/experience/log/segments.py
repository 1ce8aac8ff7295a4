"""Segments: the history as Parquet files, two of them for each. Writes and reads files.

    timesteps     sorted by session and tick
    activations   all activations of these steps, sorted by concept, session and tick

Both hold what the tail held; the catalogue (tables ``segment`` and ``part``) says which ticks of
which session are where.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ctxmgr.errors import Corrupt
from ctxmgr.experience.log.batches import END, EVENT_TYPES, START
from ctxmgr.experience.log.folder import LogFolder, NewFile, WrittenFile
from ctxmgr.experience.records.timestep import ROLES
from ctxmgr.stores.layer_file import SqlConnection

ROW_GROUP_STEPS: Final = 8_192
"""A step is read with its whole group; smaller groups are larger on disk, and slower to scan."""

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
    # of the columns that queries compare; those of activations would cost more than the rest
    "write_statistics": [
        *("id", "session_id", "tick", "ts", "event_type", "event_id", "event_start", "event_end"),
        *("token_id", "role"),
    ],
}
STORED_AS_DICTIONARIES: Final = ("session_id", "event_type", "role", _CONCEPT)
"""Columns that are read as they are stored."""

_WRITE: Final[Mapping[str, Any]] = {"compression": "zstd", "store_schema": False}

_Numbers: TypeAlias = "np.ndarray[tuple[int], np.dtype[Any]]"

_RANK_SHIFT: Final = np.uint64(40)
_POSITIONS: Final = np.uint64((1 << 40) - 1)
"""A trillion activations of sixteen million concepts can be sorted."""


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
    """Return batches of the tail as the table of a segment, sorted by session and tick.

    The table is in pieces, so that few large arrays are made: memory that is used for the first
    time costs more than what is computed in it.
    """
    ordered = sorted(runs, key=lambda run: run.session_id)
    sessions = pa.array([run.session_id for run in ordered], pa.string())
    concepts = _ConceptNames.of([batch for run in ordered for batch in run.batches], names)
    batches = [
        _TailBatch(number, tick0, batch)
        for number, run in enumerate(ordered)
        for tick0, batch in zip(run.ticks, run.batches, strict=True)
    ]
    return pa.Table.from_batches(
        [_steps(piece, sessions, concepts) for piece in _pieces(batches)], schema=TIMESTEPS_SCHEMA
    )


def activations_table(timesteps: pa.Table) -> pa.Table:
    """Return the activations of a table that is sorted by session and tick."""
    return pa.Table.from_batches(activation_groups(timesteps), schema=ACTIVATIONS_SCHEMA)


def activation_groups(timesteps: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield the activations of a table in their order, one row group after another."""
    maps = timesteps.column("concept_activations").chunks
    keys = pa.chunked_array([each.keys for each in maps]).unify_dictionaries()
    dictionary = keys.chunk(0).dictionary
    by_name = pc.array_sort_indices(dictionary)
    names = dictionary.take(by_name)
    # One number for each activation, which sorts by concept and then by step: the rank of its
    # concept above its position. NumPy sorts them in place, and several times as fast as by two
    # keys.
    order = np.arange(sum(map(len, keys.chunks)), dtype=np.uint64)
    rank_of = _ranks(by_name.to_numpy()).astype(np.uint64) << _RANK_SHIFT
    start = 0
    for chunk in keys.chunks:
        order[start : start + len(chunk)] |= rank_of[chunk.indices.to_numpy()]
        start += len(chunk)
    order.sort()
    scores = np.concatenate([each.items.to_numpy() for each in maps])
    lengths = np.concatenate([np.diff(each.offsets.to_numpy()) for each in maps])
    steps = np.repeat(np.arange(timesteps.num_rows, dtype=np.int32), lengths)
    sessions, ticks = _column(timesteps, "session_id"), _numpy(timesteps, "tick")
    session_codes = sessions.indices.to_numpy()
    days = _column(timesteps, "ts").cast(pa.date32()).cast(pa.int32()).to_numpy()
    for start in range(0, len(order), ROW_GROUP_ACTIVATIONS):
        group = order[start : start + ROW_GROUP_ACTIVATIONS]
        chosen = (group & _POSITIONS).astype(np.int64)
        at = steps[chosen]
        ranks = (group >> _RANK_SHIFT).astype(np.int32)
        first, last = int(ranks[0]), int(ranks[-1])
        columns = [
            # Only the names in this group: each has a dictionary of its own in the file.
            pa.DictionaryArray.from_arrays(ranks - first, names.slice(first, last - first + 1)),
            pa.DictionaryArray.from_arrays(session_codes[at], sessions.dictionary),
            pa.array(ticks[at]),
            pa.array(days[at]).view(pa.date32()),
            pa.array(scores[chosen]),
        ]
        yield pa.record_batch(columns, schema=ACTIVATIONS_SCHEMA)


def write_segment(folder: LogFolder, timesteps: pa.Table, *, encoding: Encoding) -> WrittenSegment:
    """Write the two files of a segment, both or none; they are on disk when this returns."""
    name = uuid.uuid4().hex[:16]
    starts = range(0, timesteps.num_rows, ROW_GROUP_STEPS)
    steps = (timesteps.slice(start, ROW_GROUP_STEPS) for start in starts)
    acts = 0

    def activations() -> Iterator[pa.Table]:
        nonlocal acts
        for group in activation_groups(timesteps):
            acts += group.num_rows
            yield pa.Table.from_batches([group])

    with folder.new_file(folder.timesteps(name)) as steps_file:
        _write_groups(steps_file, TIMESTEPS_SCHEMA, steps, encoding.timesteps)
    try:
        with folder.new_file(folder.activations(name)) as activations_file:
            _write_groups(activations_file, ACTIVATIONS_SCHEMA, activations(), encoding.activations)
    except BaseException:
        folder.timesteps(name).unlink()
        raise
    return WrittenSegment(
        name,
        timesteps.num_rows,
        acts,
        steps_file.written,
        activations_file.written,
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
        table = pq.read_table(path, read_dictionary=[*STORED_AS_DICTIONARIES])
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
    sessions = _column(timesteps, "session_id")
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


def _write_groups(
    file: NewFile, schema: pa.Schema, groups: Iterable[pa.Table], options: Mapping[str, Any]
) -> None:
    with (
        pa.PythonFile(file, mode="w") as sink,
        pq.ParquetWriter(sink, schema, **_WRITE, **options) as writer,
    ):
        for group in groups:
            writer.write_table(group)


class _TailBatch(NamedTuple):
    session: int
    """The number of its session."""
    tick0: int
    batch: pa.RecordBatch


def _pieces(batches: Sequence[_TailBatch]) -> Iterator[list[_TailBatch]]:
    """Yield lists of batches that have about as many steps as a row group, or are one batch."""
    piece, steps = list[_TailBatch](), 0
    for each in batches:
        if piece and steps + each.batch.num_rows > ROW_GROUP_STEPS:
            yield piece
            piece, steps = [], 0
        piece.append(each)
        steps += each.batch.num_rows
    if piece:
        yield piece


def _steps(
    piece: Sequence[_TailBatch], sessions: pa.Array, concepts: "_ConceptNames"
) -> pa.RecordBatch:
    batch = pa.concat_batches([each.batch for each in piece]) if piece[1:] else piece[0].batch
    lengths = [each.batch.num_rows for each in piece]
    numbers = np.array([each.session for each in piece], dtype=np.int32)
    named = pa.DictionaryArray.from_arrays(np.repeat(numbers, lengths), sessions)
    ticks = pa.array(
        np.concatenate([np.arange(each.tick0, each.tick0 + each.batch.num_rows) for each in piece])
    )
    flags = batch.column("flags").to_numpy()
    codes = batch.column("codes")
    columns = [
        pc.binary_join_element_wise("ts", named.cast(pa.string()), ticks.cast(pa.string()), "-"),
        named,
        ticks,
        batch.column("ts").cast(pa.timestamp("ms")),
        _named(batch.column("event_type"), EVENT_TYPES),
        batch.column("content"),
        batch.column("event_id"),
        pa.array((flags & START) != 0),
        pa.array((flags & END) != 0),
        batch.column("token_id"),
        _named(batch.column("role"), ROLES),
        pa.MapArray.from_arrays(
            codes.offsets, concepts.named(codes.flatten()), batch.column("scores").flatten()
        ),
    ]
    return pa.record_batch(columns, schema=TIMESTEPS_SCHEMA)


class _ConceptNames(NamedTuple):
    """The concepts of some batches."""

    places: _Numbers
    """Where the name of a code is."""
    dictionary: pa.Array

    @classmethod
    def of(cls, batches: Sequence[pa.RecordBatch], names: Mapping[int, str]) -> "_ConceptNames":
        """Name the concepts of batches; ``Corrupt`` if one is unknown."""
        highest = max(names, default=0)
        used = np.zeros(highest + 1, dtype=bool)
        for batch in batches:
            codes = batch.column("codes").flatten().to_numpy()
            if len(codes) and int(codes.max()) > highest:
                raise Corrupt(f"the tail names the concept {codes.max()}, which is unknown")
            used[codes] = True
        distinct = np.flatnonzero(used)
        unknown = [int(code) for code in distinct if int(code) not in names]
        if unknown:
            raise Corrupt(f"the tail names the concept {unknown[0]}, which is unknown")
        places = np.zeros(highest + 1, dtype=np.int32)
        places[distinct] = np.arange(len(distinct))
        return cls(places, pa.array([names[int(code)] for code in distinct], pa.string()))

    def named(self, codes: pa.Array) -> pa.DictionaryArray:
        return pa.DictionaryArray.from_arrays(self.places[codes.to_numpy()], self.dictionary)


def _ranks(order: _Numbers) -> _Numbers:
    """Return the position of each entry, given the entries in their order."""
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


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
