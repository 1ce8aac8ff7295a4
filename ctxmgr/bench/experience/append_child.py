"""A process that appends, folds, merges and compresses until it is killed.

Prints each last tick that is acknowledged. What it appended earlier expires, apart from what it
retains, and is compressed further, so that a process is killed at each of these.
"""

import asyncio
import sys
from pathlib import Path
from typing import Final

from ctxmgr.core.events.event_type import EventType
from ctxmgr.experience.log import fold
from ctxmgr.experience.log.log import ExperienceLog
from ctxmgr.experience.records.timestep import NewTimestep
from ctxmgr.experience.windows.storage_manager import StorageManager
from ctxmgr.experience.windows.time_windows import Ticks
from ctxmgr.experience.windows.window_book import WindowBook

APPENDS_MAX: Final = 100_000
FOLD_STEPS: Final = 40
"""Small folds, so that a process is often killed in one."""

MERGE_SEGMENTS: Final = 4

EXPIRE_EVERY: Final = 4
"""Appends after which the ticks before the last ones expire."""

COMPRESS_EVERY: Final = 10
HOT_TICKS: Final = 10
COLD_BYTES_MAX: Final = 3_000
STEP_MS: Final = 10_000_000
"""Some hours between two appends: compressed records are of several days and weeks."""


async def main(root: str, session: str) -> None:
    fold.FOLD_STEPS = FOLD_STEPS  # type: ignore[misc]
    fold.MERGE_SEGMENTS = MERGE_SEGMENTS  # type: ignore[misc]
    async with await ExperienceLog.open(Path(root)) as log:
        windows = WindowBook(log, warm_quota_tokens=APPENDS_MAX)
        storage = StorageManager(log.file, max_storage_bytes=COLD_BYTES_MAX)
        for number in range(1, APPENDS_MAX):
            step = NewTimestep(
                timestamp=number * STEP_MS,
                event_type=EventType.OUTPUT,
                content=f"token {number}",
                concept_activations={"a.b/c::D": 0.5, "x": number % 10 / 10},
            )
            appended = await log.append(session, [step] * (1 + number % 7))
            assert appended is not None
            sys.stdout.write(f"{appended.last_tick}\n")
            sys.stdout.flush()
            if number % EXPIRE_EVERY == 0:
                last = appended.last_tick
                await windows.retain(session, Ticks(last - 1, last))
                await windows.expire(session, before_tick=last - HOT_TICKS)
            if number % COMPRESS_EVERY == 0:
                await storage.check_and_compress()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
