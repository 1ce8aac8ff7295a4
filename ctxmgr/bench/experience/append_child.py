"""A process that appends, folds and merges until it is killed. Prints what is acknowledged."""

import asyncio
import sys
from pathlib import Path
from typing import Final

from ctxmgr.core.events.event_type import EventType
from ctxmgr.experience.log import fold
from ctxmgr.experience.log.log import ExperienceLog
from ctxmgr.experience.records.timestep import NewTimestep

APPENDS_MAX: Final = 100_000
FOLD_STEPS: Final = 40
"""Small folds, so that a process is often killed in one."""

MERGE_SEGMENTS: Final = 4


async def main(root: str, session: str) -> None:
    fold.FOLD_STEPS = FOLD_STEPS  # type: ignore[misc]
    fold.MERGE_SEGMENTS = MERGE_SEGMENTS  # type: ignore[misc]
    async with await ExperienceLog.open(Path(root)) as log:
        for number in range(APPENDS_MAX):
            step = NewTimestep(
                timestamp=number,
                event_type=EventType.OUTPUT,
                content=f"token {number}",
                concept_activations={"a.b/c::D": 0.5, "x": number % 10 / 10},
            )
            appended = await log.append(session, [step] * (1 + number % 7))
            assert appended is not None
            sys.stdout.write(f"{appended.last_tick}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
