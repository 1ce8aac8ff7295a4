"""Append from several processes at once, and ask from another one. Starts processes.

Four processes append without a pause, so that they have to fold on the way, until they are killed.
Each prints how long its acknowledgements took; this process asks for the newest steps meanwhile.
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

from ctxmgr.bench.kill_process import lines_until_killed
from ctxmgr.bench.measure import percentile
from ctxmgr.bench.report import Figure, Say, reported
from ctxmgr.experience.log.log import ExperienceLog

WRITERS: Final = tuple(f"writer-{number}" for number in range(4))
SECONDS: Final = 8.0
QUICK_SECONDS: Final = 1.0


async def contention_figures(seconds: float, *, say: Say) -> list[Figure]:
    """Measure acknowledgements of writers, and questions of a reader, at the same time."""
    say(f"experience: {len(WRITERS)} processes append, another one asks")
    with TemporaryDirectory(prefix="ctxmgr-bench-", dir=Path.cwd()) as folder:
        root, ended = Path(folder) / "log", asyncio.Event()
        async with await ExperienceLog.open(root) as log:
            asking = asyncio.create_task(ask_for_the_newest(log, ended))
            written = await asyncio.gather(*(_appended(root, name, seconds) for name in WRITERS))
            ended.set()
            asked, missing = await asking
    waits = [wait for steps, waits in written for wait in waits]
    return [
        reported(
            f"durable acknowledgement while {len(WRITERS)} processes write, p99, ms",
            percentile(waits, 99),
            against="–",
            note=f"p50 {percentile(waits, 50):.1f} ms; {sum(steps for steps, _ in written):,}"
            " steps in batches of 64, folding included",
        ),
        Figure(
            what="queries from another process meanwhile: newest steps that were not found",
            value=missing,
            bound="none",
            meets=not missing,
            against="–",
            note=f"{len(asked)} queries, p50 {percentile(asked, 50):.1f} ms,"
            f" p99 {percentile(asked, 99):.1f} ms",
        ),
    ]


async def ask_for_the_newest(log: ExperienceLog, ended: asyncio.Event) -> tuple[list[float], int]:
    """Ask for the newest step of each writer in turn; return the times, and how many were missing.

    At least one question of each is asked after the last append.
    """
    times, missing, more = list[float](), 0, True
    while more:
        more = not ended.is_set()
        for session in WRITERS:
            last = await log.last_tick(session)
            started = perf_counter()
            found = await log.get_timestep(f"ts-{session}-{max(last, 1)}")
            times.append(1e3 * (perf_counter() - started))
            missing += last > 0 and found is None
    return times, missing


async def _appended(root: Path, session: str, seconds: float) -> tuple[int, list[float]]:
    """Let a process append; return its steps, and the milliseconds of each acknowledgement."""
    lines = await lines_until_killed(
        "ctxmgr.bench.experience.write_child", str(root), session, seconds=seconds
    )
    pairs = [line.split() for line in lines]
    return int(pairs[-1][0]), [float(wait) for _, wait in pairs]
