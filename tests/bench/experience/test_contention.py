"""A reader beside writers, as the benchmark measures it."""

import asyncio
from pathlib import Path

from ctxmgr.bench.experience.contention import WRITERS, ask_for_the_newest
from ctxmgr.core.events.event_type import EventType
from ctxmgr.experience.log.log import ExperienceLog
from ctxmgr.experience.records.timestep import NewTimestep

STEP = NewTimestep(timestamp=0, event_type=EventType.OUTPUT, content=" word")


async def test_a_newest_step_that_is_missing_would_be_counted(tmp_path: Path) -> None:
    """000-R194: a check that cannot fail proves nothing."""
    ended = asyncio.Event()
    ended.set()
    async with await ExperienceLog.open(tmp_path) as log:
        for session in WRITERS:
            await log.append(session, [STEP])
        before = await ask_for_the_newest(log, ended)
        await log.drop(WRITERS[1], 1, 1)
        after = await ask_for_the_newest(log, ended)

    assert (len(before[0]), before[1]) == (len(WRITERS), 0)
    assert after[1] == 1
