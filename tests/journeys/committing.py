"""A process that commits pairs of documents in a loop until it is stopped.

    python committing.py URL NAME

It stops cleanly: SIGTERM and SIGINT cancel the current commit, and the store is closed.
"""

import asyncio
import os
import signal
import sys
from itertools import count

from ctxmgr.core.store.contract import Put, Store
from ctxmgr.stores.sqlite.store import SqliteStore
from ctxmgr.stores.xtdb.store import XtdbStore


async def main(url: str, name: str) -> None:
    """Commit pair after pair."""
    task = asyncio.current_task()
    assert task is not None
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, task.cancel)
    opened: Store = (
        await XtdbStore.open(url) if url.startswith("xtdb") else await SqliteStore.open(url)
    )
    async with opened as store:
        for number in count():
            halves = [{"xt/id": f"{name}-{half}", "type": "half", "n": number} for half in "ab"]
            commit = await store.commit([Put(half) for half in halves])
            os.write(1, f"{commit.sequence}\n".encode())


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1], sys.argv[2]))
    except asyncio.CancelledError:
        sys.exit(130)
