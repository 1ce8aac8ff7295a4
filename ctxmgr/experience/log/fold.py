"""Fold the tail into segments, and merge segments. Writes files, under the folder's lock.

    fold     the oldest batches of the tail ─► one segment
    merge    several segments of about the same size ─► one, without what is gone

Both write the files first; one transaction then changes the catalogue. Wherever a process is
killed, the catalogue lists complete files, and a step is in the tail or in one segment, not both.
Files that a merge replaced stay a while for readers that have listed them.
"""

import time
from collections import defaultdict
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from ctxmgr.experience.log.batches import decode
from ctxmgr.experience.log.concept_codes import ConceptCodes
from ctxmgr.experience.log.folder import LogFolder
from ctxmgr.experience.log.segments import (
    COMPACT,
    FAST,
    SegmentRow,
    SessionRun,
    add_segment,
    read_timesteps,
    segment_rows,
    sorted_steps,
    timesteps_table,
    write_segment,
)
from ctxmgr.experience.log.tail import ROWS, TailRow
from ctxmgr.stores.layer_file import LayerFile, SqlConnection, rows_of

FOLD_STEPS: Final = 131_072
"""Steps in the tail from which it is folded; about as many go into one segment."""

FOLD_BATCHES: Final = 4_096
"""Batches in the tail from which it is folded, whatever they hold: reading each takes time."""

FOLD_RAW_BYTES: Final = 256 * 1024 * 1024
"""Bytes that a fold decodes at most, so that long contents do not take all memory."""

TAIL_FOLDS_MAX: Final = 4
"""An appender that finds more folds than these in the tail folds first, or waits for who does."""

MERGE_SEGMENTS: Final = 8
"""Segments of about the same size that are merged into one."""

MERGE_STEPS_BELOW: Final = MERGE_SEGMENTS**6
"""Larger segments are not merged again. Those of full folds become one of a million steps."""

REPLACED_KEPT_MS: Final = 60_000
"""How long files that were replaced are kept for readers."""


class TailSize(NamedTuple):
    batches: int
    steps: int

    @property
    def folds(self) -> int:
        """How often the tail could be folded."""
        return max(self.batches // FOLD_BATCHES, self.steps // FOLD_STEPS)


class Folding:
    """Folds and merges one log. Several processes may each have one."""

    def __init__(self, folder: LogFolder, file: LayerFile, codes: ConceptCodes) -> None:
        self._folder = folder
        self._file = file
        self._codes = codes

    def tail_size(self) -> TailSize:
        with self._file.reading() as connection:
            batches, steps = rows_of(connection, "SELECT batches, steps FROM tail_size")[0]
        return TailSize(batches, steps)

    def fold_if_due(self, *, wait: bool) -> int:
        """Fold what is due and merge what can be merged; return the steps that were folded.

        Does nothing if another process is doing it, unless it is to wait for it.
        """
        folded = 0
        while self.tail_size().folds:
            steps = self.fold(wait=wait)
            if not steps:
                break
            folded += steps
        if folded:
            self.merge()
        return folded

    def make_room(self) -> None:
        """Fold until the tail is small enough to append to it.

        Writers that append without pause would otherwise outrun the process that folds.
        """
        while self.tail_size().folds >= TAIL_FOLDS_MAX:
            self.fold(wait=True)

    def fold(self, *, wait: bool = True) -> int:
        """Move the oldest batches of the tail to a segment; return how many steps these are."""
        with self._folder.locked(wait=wait) as locked:
            if not locked:
                return 0
            rows, runs, names = self._oldest()
            if not rows:
                return 0
            segment = write_segment(self._folder, timesteps_table(runs, names), encoding=FAST)
            with self._file.writing() as connection:
                add_segment(connection, segment)
                first, last = rows[0].id, rows[-1].id
                connection.execute("DELETE FROM tail WHERE id BETWEEN ? AND ?", (first, last))
                connection.execute(
                    "UPDATE tail_size SET batches = batches - ?, steps = steps - ?",
                    (len(rows), segment.steps),
                )
            return segment.steps

    def merge(self) -> int:
        """Merge segments until there are few of each size; return how many were merged."""
        merged = 0
        while True:
            with self._folder.locked(wait=False) as locked:
                if not locked:
                    return merged
                self._remove_replaced()
                with self._file.reading() as connection:
                    inputs = choose_inputs(segment_rows(connection))
                    gone = gone_ranges(connection)
                if not inputs:
                    return merged
                self._merge(inputs, gone)
                merged += len(inputs)

    def sweep(self) -> int:
        """Remove files that a killed process left; 0 if another process is writing some."""
        with self._folder.locked(wait=False) as locked:
            if not locked:
                return 0
            self._remove_replaced()
            with self._file.reading() as connection:
                listed = [row.name for row in segment_rows(connection)]
                rows = connection.execute("SELECT name FROM replaced_file")
                listed += [name for (name,) in rows]
            return self._folder.sweep(listed=listed)

    def _oldest(self) -> tuple[list[TailRow], list[SessionRun], dict[int, str]]:
        taken: list[TailRow] = []
        sessions: dict[str, list[tuple[int, pa.RecordBatch]]] = defaultdict(list)
        steps = raw = 0
        with self._file.reading() as connection:
            names = dict(self._codes.names(connection))
            for *values, body in connection.execute(f"SELECT {ROWS}, body FROM tail ORDER BY id"):
                row = TailRow(*values)
                if taken and (
                    steps >= FOLD_STEPS
                    or len(taken) >= FOLD_BATCHES
                    or raw + row.raw > FOLD_RAW_BYTES
                ):
                    break
                batch = decode(
                    body, raw_bytes=row.raw, file_format=row.format, where=str(self._file.path)
                )
                taken.append(row)
                sessions[row.session].append((row.tick0, batch))
                steps, raw = steps + row.n, raw + row.raw
        runs = [
            SessionRun(
                session_id=session,
                ticks=tuple(tick0 for tick0, _ in batches),
                batches=tuple(batch for _, batch in batches),
            )
            for session, batches in sessions.items()
        ]
        return taken, runs, names

    def _merge(self, inputs: list[SegmentRow], gone: list[tuple[str, int, int]]) -> None:
        steps = sorted_steps([read_timesteps(self._folder, segment) for segment in inputs])
        steps = without(steps, gone)
        segment = None
        if steps.num_rows:
            segment = write_segment(self._folder, steps, encoding=COMPACT)
        with self._file.writing() as connection:
            if segment is not None:
                add_segment(connection, segment)
            for replaced in inputs:
                connection.execute("DELETE FROM segment WHERE id = ?", (replaced.id,))
                connection.execute(
                    "INSERT OR REPLACE INTO replaced_file VALUES (?, ?)",
                    (replaced.name, time.time_ns() // 1_000_000),
                )

    def _remove_replaced(self) -> None:
        """Remove files that were replaced a while ago; under the lock only."""
        before = time.time_ns() // 1_000_000 - REPLACED_KEPT_MS
        with self._file.reading() as connection:
            rows = connection.execute("SELECT name FROM replaced_file WHERE since < ?", (before,))
            old = [name for (name,) in rows]
        if not old:
            return
        for name in old:
            self._folder.timesteps(name).unlink(missing_ok=True)
            self._folder.activations(name).unlink(missing_ok=True)
        with self._file.writing() as connection:
            connection.executemany(
                "DELETE FROM replaced_file WHERE name = ?", [(name,) for name in old]
            )


def choose_inputs(segments: list[SegmentRow]) -> list[SegmentRow]:
    """Return the oldest segments of a size of which there are enough; none if there are not."""
    sizes: dict[int, list[SegmentRow]] = defaultdict(list)
    for segment in segments:
        if segment.steps < MERGE_STEPS_BELOW:
            sizes[_size_class(segment.steps)].append(segment)
    for size in sorted(sizes):
        if len(sizes[size]) >= MERGE_SEGMENTS:
            return sizes[size][:MERGE_SEGMENTS]
    return []


def gone_ranges(connection: SqlConnection) -> list[tuple[str, int, int]]:
    """Return the ranges of ticks that are no longer part of the log."""
    return [(str(s), int(a), int(b)) for s, a, b in connection.execute("SELECT * FROM gone")]


def without(steps: pa.Table, gone: list[tuple[str, int, int]]) -> pa.Table:
    """Return the steps that are not in any of the ranges."""
    if not gone:
        return steps
    sessions = steps.column("session_id").combine_chunks()
    sessions = sessions.chunk(0) if isinstance(sessions, pa.ChunkedArray) else sessions
    codes, ticks = sessions.indices.to_numpy(), steps.column("tick").to_numpy()
    numbers = {name: code for code, name in enumerate(sessions.dictionary.to_pylist())}
    kept = np.ones(len(codes), dtype=bool)
    for session, tick0, tick1 in gone:
        if session in numbers:
            kept &= ~((codes == numbers[session]) & (ticks >= tick0) & (ticks <= tick1))
    return steps.filter(pa.array(kept))


def _size_class(steps: int) -> int:
    size = 0
    while steps >= MERGE_SEGMENTS:
        steps //= MERGE_SEGMENTS
        size += 1
    return size
