"""Read single steps of segments, by their place in the file. Reads Parquet files.

    session, tick ─► the part of the catalogue that holds it ─► row ─► row group ─► record

A file is sorted by session and tick, so that the catalogue tells where a step is, and one row group
is decoded. DuckDB would compare the statistics of all of them first, which takes longer than that.
Files never change: open ones and the row groups that were read last are kept.
"""

from bisect import bisect_right
from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from itertools import accumulate
from threading import Lock
from typing import Any, Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ctxmgr.core.events.event_type import EventType
from ctxmgr.errors import Corrupt
from ctxmgr.experience.log.batches import shown_score
from ctxmgr.experience.log.folder import LogFolder
from ctxmgr.experience.log.segments import STORED_AS_DICTIONARIES, SegmentPart
from ctxmgr.experience.records.timestep import TimestepRecord, timestep_id
from ctxmgr.stores.layer_file import SqlConnection, rows_of

FILES_MAX: Final = 64
"""Files that are kept open: with merged segments, some fifty million steps."""

KEPT_BYTES_MAX: Final = 24 * 1024 * 1024
"""Decoded row groups that are kept, some eight of them: questions about one place come together."""

KEPT_STARTS_MAX: Final = 200_000
"""Sessions of segments whose first rows are kept, some 20 MB."""

_COLUMNS: Final = (
    *("session_id", "tick", "ts", "event_type", "content", "event_id", "event_start", "event_end"),
    *("token_id", "role", "concept_activations"),
)


class HeldSteps(NamedTuple):
    """Ticks that lie in one part of a segment."""

    segment: str
    """Its name."""
    part: SegmentPart
    start: int
    """The row of the part's first step in the file."""
    ticks: tuple[int, ...]


class _OpenFile(NamedTuple):
    file: pq.ParquetFile
    ends: tuple[int, ...]
    """The row after the last one of each row group."""

    @classmethod
    def of(cls, file: pq.ParquetFile) -> Self:
        metadata = file.metadata
        groups = range(metadata.num_row_groups)
        return cls(file, tuple(accumulate(metadata.row_group(n).num_rows for n in groups)))


class StoredSteps:
    """Reads the steps of one log's segments. Thread-safe."""

    def __init__(self, folder: LogFolder) -> None:
        self._folder = folder
        self._lock = Lock()
        self._files: OrderedDict[str, _OpenFile] = OrderedDict()
        self._groups: OrderedDict[tuple[str, int], pa.Table] = OrderedDict()
        self._kept_bytes = 0
        self._starts: OrderedDict[str, dict[str, int]] = OrderedDict()
        """By segment: the first row of each session."""
        self._kept_starts = 0

    def close(self) -> None:
        with self._lock:
            for name in list(self._files):
                self._forget(name)

    def holding(
        self, connection: SqlConnection, wanted: Mapping[str, Sequence[int]]
    ) -> list[HeldSteps]:
        """Return which parts of segments hold these ticks of sessions."""
        held = []
        for session, ticks in wanted.items():
            rows = rows_of(
                connection,
                "SELECT s.id, s.name, p.session, p.tick0, p.tick1, p.ts0, p.ts1, p.n"
                " FROM part AS p JOIN segment AS s ON s.id = p.segment"
                " WHERE p.session = ? AND p.tick0 <= ? AND p.tick1 >= ?",
                (session, max(ticks), min(ticks)),
            )
            for number, name, *values in rows:
                part = SegmentPart(*values)
                inside = tuple(tick for tick in ticks if part.tick0 <= tick <= part.tick1)
                if inside:
                    start = self._start(connection, number, name, session)
                    held.append(HeldSteps(name, part, start, inside))
        return held

    def read(self, held: Sequence[HeldSteps]) -> list[TimestepRecord]:
        """Return the steps at these ticks, without those that are not in their segment.

        ``Corrupt`` if a file cannot be read, or does not hold what the catalogue says.
        """
        with self._lock:
            return [record for each in held for record in self._checked(each)]

    def _start(self, connection: SqlConnection, number: int, name: str, session: str) -> int:
        with self._lock:
            if name not in self._starts:
                rows = rows_of(
                    connection,
                    "SELECT session, n FROM part WHERE segment = ? ORDER BY session",
                    (number,),
                )
                firsts = accumulate((n for _, n in rows), initial=0)
                self._starts[name] = dict(zip((each for each, _ in rows), firsts, strict=False))
                self._kept_starts += len(rows)
                while self._kept_starts > KEPT_STARTS_MAX and len(self._starts) > 1:
                    self._kept_starts -= len(self._starts.popitem(last=False)[1])
            self._starts.move_to_end(name)
            return self._starts[name][session]

    def _checked(self, held: HeldSteps) -> list[TimestepRecord]:
        path = self._folder.timesteps(held.segment)
        try:
            found = self._records(held)
        except (pa.ArrowException, OSError, ValueError, LookupError) as error:
            raise Corrupt(f"{path} cannot be read: {error}") from error
        for tick, record in found:
            if (record.session_id, record.tick) != (held.part.session, tick):
                wanted = timestep_id(held.part.session, tick)
                raise Corrupt(
                    f"{path} has {record.id} where {wanted} should be; restore it from a backup"
                )
        return [record for _, record in found]

    def _records(self, held: HeldSteps) -> list[tuple[int, TimestepRecord]]:
        """Return what is where these ticks should be."""
        opened = self._open(held.segment)
        by_group: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for tick, row in self._rows(opened, held):
            group = bisect_right(opened.ends, row)
            by_group[group].append((tick, row - (opened.ends[group - 1] if group else 0)))
        records = list[tuple[int, TimestepRecord]]()
        for group, places in by_group.items():
            ticks, rows = zip(*places, strict=True)
            table = self._group(held.segment, group).take(pa.array(rows))
            columns = (column.to_pylist() for column in table.columns)
            records += zip(ticks, map(_record, zip(*columns, strict=True)), strict=True)
        return records

    def _rows(self, opened: _OpenFile, held: HeldSteps) -> list[tuple[int, int]]:
        """Return the ticks that are in the file, each with its row."""
        part, start, ticks = held.part, held.start, held.ticks
        if part.tick1 - part.tick0 + 1 == part.n:
            return [(tick, start + tick - part.tick0) for tick in ticks]
        first, last = (bisect_right(opened.ends, row) for row in (start, start + part.n - 1))
        found = [
            opened.file.read_row_group(group, columns=["tick"], use_threads=False)
            for group in range(first, last + 1)
        ]
        skipped = start - (opened.ends[first - 1] if first else 0)
        stored = pa.concat_tables(found).column("tick").to_numpy()[skipped : skipped + part.n]
        at = np.searchsorted(stored, ticks)
        return [
            (tick, start + int(row))
            for row, tick in zip(at, ticks, strict=True)
            if row < len(stored) and stored[row] == tick
        ]

    def _open(self, name: str) -> _OpenFile:
        if name not in self._files:
            self._forget_removed()
            path = self._folder.timesteps(name)
            names = [*STORED_AS_DICTIONARIES, "content", "event_id"]  # of tokens, few are new
            file = pq.ParquetFile(path, read_dictionary=names)
            self._files[name] = _OpenFile.of(file)
            if len(self._files) > FILES_MAX:
                self._forget(next(iter(self._files)))
        self._files.move_to_end(name)
        return self._files[name]

    def _forget_removed(self) -> None:
        """Close files that were merged into others: an open one keeps its place on the disk."""
        for name in list(self._files):
            if not self._folder.timesteps(name).exists():
                self._forget(name)

    def _forget(self, name: str) -> None:
        self._files.pop(name).file.close()
        for key in [key for key in self._groups if key[0] == name]:
            self._kept_bytes -= self._groups.pop(key).nbytes

    def _group(self, name: str, group: int) -> pa.Table:
        key = (name, group)
        if key not in self._groups:
            file = self._open(name).file
            table = file.read_row_group(group, columns=[*_COLUMNS], use_threads=False)
            times = table.column("ts").cast(pa.timestamp("ms")).cast(pa.int64())
            table = table.set_column(_COLUMNS.index("ts"), "ts", times)
            self._groups[key] = table
            self._kept_bytes += table.nbytes
            while self._kept_bytes > KEPT_BYTES_MAX and len(self._groups) > 1:
                self._kept_bytes -= self._groups.popitem(last=False)[1].nbytes
        self._groups.move_to_end(key)
        return self._groups[key]


def _record(row: Sequence[Any]) -> TimestepRecord:
    session, tick, ts, kind, content, event_id, start, end, token_id, role, activations = row
    return TimestepRecord(
        session_id=session,
        tick=tick,
        timestamp=ts,
        event_type=EventType(kind),
        content=content,
        concept_activations={concept: shown_score(score) for concept, score in activations or ()},
        event_id=event_id,
        event_start=start,
        event_end=end,
        token_id=token_id,
        role=role,
    )
