"""A process that appends batches until it is killed. Prints each last tick and its milliseconds."""

import asyncio
import sys
from pathlib import Path
from time import perf_counter
from typing import Final

from ctxmgr.core.events.event_type import EventType
from ctxmgr.experience.log.log import ExperienceLog
from ctxmgr.experience.records.timestep import NewTimestep

APPENDS_MAX: Final = 1_000_000
BATCH_STEPS: Final = 64


async def main(root: str, session: str) -> None:
    scores = {f"org.example/pack::Concept{number}": number / 10 for number in range(10)}
    step = NewTimestep(
        timestamp=0, event_type=EventType.OUTPUT, content=" word", concept_activations=scores
    )
    async with await ExperienceLog.open(Path(root)) as log:
        for _ in range(APPENDS_MAX):
            started = perf_counter()
            appended = await log.append(session, [step] * BATCH_STEPS)
            waited = 1e3 * (perf_counter() - started)
            assert appended is not None
            sys.stdout.write(f"{appended.last_tick} {waited:.3f}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
