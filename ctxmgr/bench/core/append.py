"""Benchmark of several processes that append turns to one store. Starts processes.

Each process has a session of its own. The baseline commits the same transactions to the same kind
of store, also in several processes at once, but without a client.
"""

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from ctxmgr.bench.report import Figure, Say, at_least

PROCESSES: Final = 8
SPEED_MIN: Final = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendSizes:
    """The size of the measurement."""

    turns: int
    """Of each process."""
    rounds: int


FULL: Final = AppendSizes(turns=60, rounds=5)
QUICK: Final = AppendSizes(turns=10, rounds=1)


async def append_figures(sizes: AppendSizes, *, say: Say) -> list[Figure]:
    """Alternate between clients and bare stores, each in a new file."""
    say(f"{PROCESSES} processes append turns to one store")
    speeds: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(sizes.rounds):
        for bare, measured in speeds.items():
            measured.append(await _turns_per_second(sizes.turns, bare=bare))
    ours, baseline = median(speeds[False]), median(speeds[True])
    return [
        at_least(
            f"{PROCESSES} processes append turns to one store",
            ours / baseline,
            bound=SPEED_MIN,
            against="the same commits without a client",
            note=f"{ours:.0f} turns/s, without a client {baseline:.0f}",
        )
    ]


async def _turns_per_second(turns: int, *, bare: bool) -> float:
    with TemporaryDirectory(prefix="ctxmgr-bench-", dir=Path.cwd()) as folder:
        url = f"sqlite:///{Path(folder) / 'append.db'}"
        children = [
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "ctxmgr.bench.core.append_child"),
                *(url, f"session-{number}", str(turns), *(["--bare"] if bare else [])),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            for number in range(PROCESSES)
        ]
        for child in children:
            assert child.stdout is not None
            assert await child.stdout.readline() == b"ready\n", "the process has printed the reason"
        outputs = await asyncio.gather(*(child.communicate(b"\n") for child in children))
    times = [tuple(map(float, output.split())) for output, _ in outputs]
    seconds = max(ended for _, ended in times) - min(began for began, _ in times)
    return PROCESSES * turns / seconds
