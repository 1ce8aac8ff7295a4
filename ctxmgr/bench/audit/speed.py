"""Benchmarks of appending to and verifying the audit log. Writes files.

The baseline of appending hashes the same bytes once, writes them and flushes them once; that of
verifying reads the same files and hashes them.
"""

import asyncio
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from ctxmgr.bench.audit.log_folder import entries, opened, segments
from ctxmgr.bench.measure import alternate
from ctxmgr.bench.report import Figure, Say, at_least, reported

APPEND_SPEED_MIN: Final = 0.5
VERIFY_SPEED_MIN: Final = 0.3
BATCHES: Final = (1, 64, 512)
"""Records that are appended with one flush. Only one alone has a target: of many, most time goes
into encoding them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedSizes:
    records: int
    """Of the log that is verified."""
    appends: int
    """Batches in one round."""
    rounds: int


FULL: Final = SpeedSizes(records=60_000, appends=20, rounds=15)
QUICK: Final = SpeedSizes(records=4_000, appends=5, rounds=5)


async def append_figures(sizes: SpeedSizes, *, say: Say) -> list[Figure]:
    """Append batches of several sizes."""
    figures = []
    for size in BATCHES:
        say(f"audit: appending {size} records at once")
        with TemporaryDirectory(prefix="ctxmgr-bench-", dir=Path.cwd()) as folder:
            figures.append(await _append_figure(Path(folder), size, sizes))
    return figures


async def _append_figure(folder: Path, size: int, sizes: SpeedSizes) -> Figure:
    batch = list(entries(size))
    async with opened(folder / "audit", create=True) as log:
        await log.writer.append_all(batch)
        lines = segments(folder / "audit")[0].read_bytes()

        async def ours() -> None:
            for _ in range(sizes.appends):
                await log.writer.append_all(batch)

        async def baseline() -> None:
            await asyncio.to_thread(_hash_and_flush, folder / "plain", lines, sizes.appends)

        times = await alternate(ours, baseline, rounds=sizes.rounds)
    each = times.ours / sizes.appends
    against = "SHA-256 of the same bytes, one write, one flush"
    note = (
        f"{1e3 * each:.2f} ms, {size / each:,.0f} records/s; "
        f"baseline {1e3 * times.baseline / sizes.appends:.2f} ms"
    )
    if size > 1:
        what = f"append {size} records with one flush"
        return reported(what, times.speed, against=against, note=f"{note}; Python encodes each")
    what = "append a record, durable"
    return at_least(what, times.speed, bound=APPEND_SPEED_MIN, against=against, note=note)


def _hash_and_flush(path: Path, data: bytes, times: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        for _ in range(times):
            hashlib.sha256(data).hexdigest()
            os.write(descriptor, data)
            os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


async def verify_figures(sizes: SpeedSizes, *, say: Say) -> list[Figure]:
    """Verify a log that checkpoints cover, and every hash of it."""
    say(f"audit: verifying {sizes.records:,} records")
    with TemporaryDirectory(prefix="ctxmgr-bench-", dir=Path.cwd()) as folder:
        root = Path(folder) / "audit"
        async with opened(root, create=True) as log:
            for start in range(0, sizes.records, 512):
                count = min(512, sizes.records - start)
                await log.writer.append_all(list(entries(count)))
            await log.checkpoint()
            size = sum(path.stat().st_size for path in segments(root))

            async def covered() -> None:
                assert not (await log.verify()).faults

            async def every_hash() -> None:
                assert not (await log.verify(every_hash=True)).faults

            async def baseline() -> None:
                await asyncio.to_thread(_hash_files, root)

            fast = await alternate(covered, baseline, rounds=sizes.rounds)
            slow = await alternate(every_hash, baseline, rounds=max(1, sizes.rounds // 2))
    against = "SHA-256 of the same files"
    return [
        at_least(
            "verify a log that a checkpoint covers",
            fast.speed,
            bound=VERIFY_SPEED_MIN,
            against=against,
            note=f"{size / fast.ours / 1e6:,.0f} MB/s, {sizes.records / fast.ours:,.0f} records/s",
        ),
        reported(
            "verify --every-hash: both hashes of every record",
            slow.speed,
            against=against,
            note=f"{size / slow.ours / 1e6:,.0f} MB/s, {sizes.records / slow.ours:,.0f} records/s",
        ),
    ]


def _hash_files(root: Path) -> None:
    for path in segments(root):
        hashlib.sha256(path.read_bytes()).hexdigest()
