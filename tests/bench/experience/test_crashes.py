"""What survives `kill -9` while a log is appended to, folded, merged and compressed."""

import asyncio
import random
from pathlib import Path

from ctxmgr.bench.experience.crashes import faults_of, killed
from ctxmgr.core.events.event_type import EventType
from ctxmgr.experience.log.log import ExperienceLog
from ctxmgr.experience.records.timestep import NewTimestep
from ctxmgr.experience.windows.window_book import WindowBook


async def test_nothing_acknowledged_is_lost_or_there_twice(tmp_path: Path) -> None:
    """000-R113, 000-R090, 000-R194: two processes fold, merge and compress, too, and are killed."""
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
        await log.drop("s", count, count)

    (fault,) = await faults_of(tmp_path, {"s": count})
    assert fault.startswith("s: ")
    (absent,) = await faults_of(tmp_path, {"absent": 1})
    assert absent.endswith("last 0 of 1")


async def test_a_lost_record_would_be_noticed(tmp_path: Path) -> None:
    """000-R090: compressed records stand for what they were made from, all of it and once."""
    steps = [
        NewTimestep(
            timestamp=tick,
            event_type=EventType.OUTPUT,
            content=f"{tick}",
            concept_activations={"a": 0.5, "b": 0.5},
        )
        for tick in range(1, 11)
    ]
    async with await ExperienceLog.open(tmp_path) as log:
        await log.append("s", steps)
        await WindowBook(log, warm_quota_tokens=1).expire("s", before_tick=6)
        before = await faults_of(tmp_path, {"s": 10})
        await log.file.write(
            lambda db: db.execute("DELETE FROM compressed_records WHERE start_tick = 3")
        )

    assert before == []
    assert await faults_of(tmp_path, {"s": 10}) == ["4 compressed tokens stand for 5 ticks"]
