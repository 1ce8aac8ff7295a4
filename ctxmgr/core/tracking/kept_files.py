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
from ctxmgr.errors import CtxmgrError

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
                try:
                    plans = [await self._indexing.plan_read(path) for path in batch]
                    await self._indexing.apply(IndexPlan.join(plans))
                except CtxmgrError as error:
                    _log.warning("%d changed files were not stored: %s", len(batch), error)
                for path in batch:
                    self._waiting.pop(path, None)
            self._idle.set()
