"""Compress cold experience until it fits its limit. Touches ``log.sqlite``.

Usage is the logical bytes of compressed records: what is retained, submitted or in the context does
not count and is never compressed here. A file's size would not do, as it does not fall before a
vacuum.

    usage ≥ limit × threshold ─► a pass: the oldest records of the finest level, unit by unit
                              ─► again, until usage is below it

A level that would free nothing is left as it is, as detail is never given up for nothing; when no
level frees anything, the run ends.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from ctxmgr.errors import Incorrect
from ctxmgr.experience.records.kinds import CompressionLevel
from ctxmgr.experience.windows.compression import (
    TOP_K,
    CompressedRecord,
    Summarize,
    Unit,
    compress_records,
    join_summaries,
    next_level,
    unit_of,
)
from ctxmgr.experience.windows.window_rows import (
    bytes_by_level,
    free_record_ids,
    read_records,
    save_record,
    supersede,
)
from ctxmgr.stores.layer_file import LayerFile, SqlConnection

THRESHOLD: Final = 0.8
BATCH: Final = 100
"""Records that a pass takes, at little pressure."""

BATCH_FACTOR_MAX: Final = 10
"""How much larger a pass gets when usage is far above the limit."""

LONGEST_UNIT_MS: Final = 373 * 24 * 3_600_000
"""A year, and the part of its first week that is before it: no unit begins earlier than that."""

SOURCES: Final = tuple(
    level
    for level in CompressionLevel
    if level not in {CompressionLevel.TOKEN, CompressionLevel.YEAR}
)
"""The levels that are compressed further, the finest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageOutcome:
    """What ``check_and_compress`` did. In logical bytes."""

    before: int
    after: int
    passes: int

    @property
    def freed(self) -> int:
        return self.before - self.after


class StorageManager:
    """Keeps compressed records below a limit."""

    def __init__(
        self,
        file: LayerFile,
        *,
        max_storage_bytes: int,
        compression_threshold: float = THRESHOLD,
        batch: int = BATCH,
        top_k: int = TOP_K,
        summarize: Summarize = join_summaries,
    ) -> None:
        if max_storage_bytes < 1 or not 0 < compression_threshold <= 1 or batch < 1:
            raise Incorrect(
                "the storage limit and the batch are at least 1, the threshold is above 0 and at"
                f" most 1, not {max_storage_bytes}, {batch} and {compression_threshold}"
            )
        self._file = file
        self.max_storage_bytes = max_storage_bytes
        self.compression_threshold = compression_threshold
        self._batch, self._top_k, self._summarize = batch, top_k, summarize

    async def get_current_usage(self) -> int:
        """Return the logical bytes of all compressed records."""
        return sum((await self.usage_by_level()).values())

    async def usage_by_level(self) -> Mapping[CompressionLevel, int]:
        """Return the logical bytes of compressed records, by level."""
        return await self._file.read(bytes_by_level)

    async def check_and_compress(
        self, *, on_pass: Callable[[int, int], None] | None = None
    ) -> StorageOutcome:
        """Compress the oldest records until usage is below the threshold.

        ``on_pass`` is called after each pass with the usage and the target. Ends early when nothing
        is left to compress, or when no level would free anything.
        """
        before = usage = await self.get_current_usage()
        target = int(self.max_storage_bytes * self.compression_threshold)
        passes = 0
        while usage >= target:
            pressure = ceil(usage / max(target, 1))
            if not await self.compress_oldest(batch=self._batch * min(pressure, BATCH_FACTOR_MAX)):
                break
            passes += 1
            usage = await self.get_current_usage()
            if on_pass is not None:
                on_pass(usage, target)
        if passes:
            await self._file.vacuum()
        return StorageOutcome(before=before, after=usage, passes=passes)

    async def compress_oldest(self, *, batch: int | None = None) -> bool:
        """Run one pass and return whether it freed anything.

        Each unit that has records among the oldest ones gets one record; those that went into it
        keep their ids and lose their texts.
        """
        size = self._batch if batch is None else batch

        def change(db: SqlConnection) -> bool:
            before = sum(bytes_by_level(db).values())
            for level in SOURCES:
                condition = "compression_level = ? AND superseded_by IS NULL"
                oldest = read_records(db, condition, (int(level),), limit=size)
                if not oldest:
                    continue
                db.execute("SAVEPOINT level")
                self._compress(db, oldest)
                if sum(bytes_by_level(db).values()) < before:
                    return True
                db.execute("ROLLBACK TO level")
            return False

        return await self._file.write(change)

    def _compress(self, db: SqlConnection, oldest: Sequence[CompressedRecord]) -> None:
        level = next_level(oldest[0].level)
        units: dict[Unit, list[CompressedRecord]] = {}
        for record in oldest:
            units.setdefault(unit_of(record, level), []).append(record)
        for unit, records in units.items():
            coarse = compress_records(
                records,
                record_id=next(free_record_ids(db, level, unit.name)),
                earlier=_record_of(db, unit, records),
                k=self._top_k,
                summarize=self._summarize,
            )
            save_record(db, coarse)
            supersede(db, (record.id for record in records), by=coarse.id)


def _record_of(
    db: SqlConnection, unit: Unit, sources: Sequence[CompressedRecord]
) -> CompressedRecord | None:
    """Return the record that a unit has already."""
    start, span = sources[0].start_time, LONGEST_UNIT_MS
    found = read_records(
        db,
        "compression_level = ? AND superseded_by IS NULL AND start_time BETWEEN ? AND ?",
        (int(unit.level), start - span, start + span),
    )
    return next((record for record in found if unit_of(record, unit.level) == unit), None)
