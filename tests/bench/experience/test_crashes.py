"""What survives `kill -9` while a log is appended to, folded and merged."""

import asyncio
import random
from pathlib import Path

from ctxmgr.bench.experience.crashes import faults_of, killed
from ctxmgr.experience.log.log import ExperienceLog


async def test_nothing_acknowledged_is_lost_or_there_twice(tmp_path: Path) -> None:
    """000-R113, 000-R194: two processes append, fold and merge, and are killed at any moment."""
    chance = random.Random(13)
    acknowledged: dict[str, int] = {}
    for number in range(3):
        names = [f"s{number}-{process}" for process in range(2)]
        counts = await asyncio.gather(*(killed(tmp_path, name, chance) for name in names))
        acknowledged |= dict(zip(names, counts, strict=True))

    assert all(acknowledged.values())
    assert await faults_of(tmp_path, acknowledged) == []


async def test_a_lost_step_would_be_noticed(tmp_path: Path) -> None:
    """A check that cannot fail proves nothing."""
    count = await killed(tmp_path, "s", random.Random(1))
    async with await ExperienceLog.open(tmp_path) as log:
        await log.drop("s", 1, 1)

    (fault,) = await faults_of(tmp_path, {"s": count})
    assert fault.startswith("s: ")
    assert await faults_of(tmp_path, {"absent": 1}) == ["absent: 0 steps, 0 ticks, last 0 of 1"]
