"""A process that writes pairs of documents to a SQLite file until it is done or killed.

    python crash_worker.py FILE LOG NAME COUNT

After each acknowledgement it appends ``number sequence`` to its log in one ``write`` and to
standard output. When restarted, it writes the numbers missing from its log, with the same
keys: a transaction that was written but not logged must not be written twice.
"""

import asyncio
import os
import sys
from pathlib import Path

from ctxmgr.core.store.contract import Put
from ctxmgr.stores.sqlite.store import SqliteStore

TASKS = 4
"""Transactions in flight, so that a kill interrupts groups of them."""


async def main(file: str, log: Path, name: str, count: int) -> None:
    """Write the numbers that are not in the log yet."""
    done = _logged(log)
    missing = iter([number for number in range(count) if number not in done])
    out = os.open(log, os.O_WRONLY | os.O_APPEND)
    async with await SqliteStore.open(Path(file)) as store:

        async def work() -> None:
            for number in missing:
                pair = [
                    Put({"xt/id": f"{name}-{half}", "type": "half", "n": number, "by": name})
                    for half in ("left", "right")
                ]
                commit = await store.commit(pair, key=f"{name}-{number}")
                os.write(out, f"{number} {commit.sequence}\n".encode())
                os.write(1, b".")

        await asyncio.gather(*(work() for _ in range(TASKS)))
    os.close(out)


def _logged(log: Path) -> set[int]:
    return {int(line.split()[0]) for line in log.read_text(encoding="utf-8").splitlines()}


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
