"""Store versions of files that a layer names, in the background. Reads the files; commits.

A layer that keeps its truth in files, such as notes, names those that changed. They become objects
of the core with a source, so that the store versions them like any file that an agent reads.
"""

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Self

from ctxmgr.core.tracking.index_plan import IndexPlan
from ctxmgr.core.tracking.indexing import Indexing

BATCH_MAX: Final = 32
"""Files of one transaction."""

CLOSE_SECONDS: Final = 10.0
"""How long closing waits for the last files; the others are stored when they are named again."""

_log = logging.getLogger(__name__)


class KeptFiles:
    """Files that wait to be stored. Use it as a context manager."""

    def __init__(self, indexing: Indexing) -> None:
        self._indexing = indexing
        self._waiting: dict[str, None] = {}
        self._named = asyncio.Event()
        self._idle = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._idle.set()
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *exc: object) -> None:
        try:
            await asyncio.wait_for(self.stored(), CLOSE_SECONDS)
        except TimeoutError:
            _log.warning("%d files were not stored in time", len(self._waiting))
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def add(self, paths: Iterable[Path]) -> None:
        """Store these files soon; one that is waiting already is stored once."""
        self._waiting.update(dict.fromkeys(str(path) for path in paths))
        if self._waiting:
            self._idle.clear()
            self._named.set()

    async def stored(self) -> None:
        """Wait until nothing is waiting."""
        await self._idle.wait()

    async def _run(self) -> None:
        while True:
            await self._named.wait()
            self._named.clear()
            while self._waiting:
                batch = list(self._waiting)[:BATCH_MAX]
                for path in batch:  # a change that is named from now on is stored again
                    del self._waiting[path]
                await self._store(batch)
            self._idle.set()

    async def _store(self, batch: list[str]) -> None:
        """Store the files that can be read; one that cannot keeps no other from being stored."""
        plans = []
        for path in batch:
            try:
                plans.append(await self._indexing.plan_read(path))
            except Exception as error:  # noqa: BLE001 (whatever is wrong with one file)
                _log.warning("a changed file was not stored: %s", error)
        try:
            await self._indexing.apply(IndexPlan.join(plans))
        except Exception as error:  # noqa: BLE001 (the next change is stored again)
            _log.warning("%d changed files were not stored: %s", len(plans), error)
