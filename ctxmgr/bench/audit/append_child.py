"""A process that appends to an audit log until it is killed. Prints what is acknowledged."""

import asyncio
import sys
from pathlib import Path
from typing import Final

from ctxmgr.bench.audit.log_folder import entries, opened

CHECKPOINT_EVERY: Final = 40
RECORDS_MAX: Final = 100_000


async def main(root: str, session: str) -> None:
    async with opened(Path(root)) as log:
        for number, entry in enumerate(entries(RECORDS_MAX, session=session), 1):
            await log.append(entry)
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()
            if number % CHECKPOINT_EVERY == 0:
                await log.checkpoint()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
