"""Kill processes that append to an audit log, and look for what was acknowledged. Starts processes.

Each round starts two processes that append, and sign checkpoints, until they are killed; every
acknowledged record is printed. Then the log is verified and its records are counted.
"""

import asyncio
import random
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import orjson

from ctxmgr.bench.audit.log_folder import entries, opened, segments
from ctxmgr.bench.kill_process import lines_until_killed
from ctxmgr.bench.report import Figure, Say

ROUNDS: Final = 200
QUICK_ROUNDS: Final = 5
PROCESSES: Final = 2
SECONDS_MAX: Final = 0.3
"""A process lives at most so long after its first acknowledgement."""


async def crash_figures(rounds: int, *, say: Say) -> list[Figure]:
    """Kill processes at random moments; nothing acknowledged may be missing or there twice."""
    chance = random.Random(rounds)  # noqa: S311 (repeatable trials)
    faults: list[str] = []
    acknowledged: Counter[str] = Counter()
    with TemporaryDirectory(prefix="ctxmgr-bench-", dir=Path.cwd()) as folder:
        root = Path(folder) / "audit"
        async with opened(root, create=True) as log:
            await log.status()
        for number in range(rounds):
            say(f"audit: kill -9, round {number + 1} of {rounds}")
            names = [f"round-{number}-{process}" for process in range(PROCESSES)]
            counts = await asyncio.gather(*(_killed(root, name, chance) for name in names))
            acknowledged.update(dict(zip(names, counts, strict=True)))
        async with opened(root) as log:
            await log.append(next(entries(1, session="last")))
            faults += [fault.place for fault in (await log.verify(every_hash=True)).faults]
        stored = _ticks(root)
        torn = sum(1 for _ in root.glob("torn-*"))
    for name, count in acknowledged.items():
        ticks = stored.get(name, [])
        if ticks != list(range(len(ticks))) or len(ticks) < count:
            faults.append(name)
    return [
        Figure(
            what=f"kill -9, {rounds} rounds of {PROCESSES} processes: sessions with a fault",
            value=len(faults),
            bound="none",
            meets=not faults,
            against="–",
            note=f"{acknowledged.total():,} acknowledged, {torn} incomplete records removed",
        )
    ]


async def _killed(root: Path, name: str, chance: random.Random) -> int:
    """Start a process, kill it after a while, and return how much it had acknowledged."""
    seconds = chance.random() * SECONDS_MAX
    module = "ctxmgr.bench.audit.append_child"
    return len(await lines_until_killed(module, str(root), name, seconds=seconds))


def _ticks(root: Path) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for path in segments(root):
        for line in path.read_bytes().splitlines():
            values = orjson.loads(line)
            found.setdefault(values["session_id"], []).append(values["tick"])
    return found
