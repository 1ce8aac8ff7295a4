"""Resuming: a stored session's files are compared with their sources. Reads the store and the disk.

    1  sets          from the session's document                   ``stored_sessions``
    2  objects       of the whole index, in a few batches
    3  sources       reachable: indexed again · unreachable: orphaned · gone: a version without text
    4  tool calls    have no source, and stay
    5  caches        made of what the store says now
    6  trackers      follow what is reachable

Lazily, the pool is read and the active files are compared first; the rest goes on behind, and the
index itself is part of the rest. Sets are never changed here.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from itertools import islice
from typing import Final

from ctxmgr.core.contents import File
from ctxmgr.core.file_outcomes import Gone
from ctxmgr.core.index_plans import Result
from ctxmgr.core.objects import from_document
from ctxmgr.core.observing import Target
from ctxmgr.core.session_state import SessionState
from ctxmgr.core.store import Version

READ_BATCH: Final = 500
"""Objects read at once before a prompt: while they are proven, the store reads the next."""

FIRST_BATCH: Final = 125
"""The first of them is smaller, so that there is soon something to prove; the second twice it."""

READS_AHEAD: Final = 3
"""Of these batches: one that is proven, one on its way, and one that the store is busy with."""

LAZY_BATCH: Final = 200
"""Objects compared at once behind a prompt: a moment, so that turns come between."""

_log = logging.getLogger(__name__)


class Reconciliation:
    """The comparison of one session's files with their sources."""

    def __init__(self, state: SessionState, *, upgrade_stubs: bool = False) -> None:
        self._state = state
        self._upgrade_stubs = upgrade_stubs
        self._task: asyncio.Task[None] | None = None
        self._compared: set[str] = set()
        self.seen: int = 0
        """Objects of the index that were looked at so far."""
        self.updated: list[str] = []
        """Files that had changed, or had been deleted."""
        self.orphaned: list[str] = []
        """Files whose source this client cannot reach; they keep their version."""

    @property
    def total(self) -> int | None:
        """Objects of the index; None while that itself is still being read."""
        session = self._state.session
        return len(session.session_index) if session.is_whole else None

    @property
    def done(self) -> bool:
        return self.total is not None and self.seen >= self.total

    async def begin(self, *, eager: bool) -> None:
        """Do what a first prompt needs; eagerly, all there is."""
        session = self._state.session
        if eager:
            async with aclosing(self._read(session.session_index)) as batches:
                async for found in batches:
                    await self._compare(await self._learn(found))
            self.seen = len(session.session_index)
            return
        first = dict.fromkeys([*session.metadata_pool, *self._state.chat.toolcall_refs])
        async with aclosing(self._read(first)) as batches:
            async for found in batches:
                files = await self._learn(found)
                await self._compare(each for each in files if each.object_id in session.active_set)

    def go_on(self) -> None:
        """Go on with the rest in the background."""
        self._task = asyncio.create_task(self._rest())

    async def wait(self) -> None:
        """Wait until all is compared; raises what went wrong behind."""
        if self._task is not None:
            await asyncio.shield(self._task)

    async def stop(self) -> None:
        """End it where it is. What was written is whole."""
        if self._task is None:
            return
        self._task.cancel()
        (outcome,) = await asyncio.gather(self._task, return_exceptions=True)
        if isinstance(outcome, Exception):
            _log.warning("reconciliation had failed: %s", outcome)

    async def _rest(self) -> None:
        await self._state.read_index()
        for ids in _batches(self._state.session.session_index, LAZY_BATCH):
            await self._reconcile(ids)

    async def _reconcile(self, ids: Iterable[str]) -> None:
        given = tuple(ids)
        async with self._state.lock:  # what was read before a turn must not be learnt after it
            found = await self._state.surroundings.store.get_many(given)
            await self._compare(await self._learn(found))
        self.seen += len(given)

    async def _read(self, ids: Iterable[str]) -> AsyncGenerator[Mapping[str, Version], None]:
        """Read many objects, the next ones while whoever asked is busy with the last."""
        store = self._state.surroundings.store
        ahead: deque[asyncio.Task[dict[str, Version]]] = deque()
        try:
            for batch in _growing_batches(ids):
                ahead.append(asyncio.create_task(store.get_many(batch)))
                if len(ahead) == READS_AHEAD:
                    yield await ahead.popleft()
            while ahead:
                yield await ahead.popleft()
        finally:
            for each in ahead:
                each.cancel()
            await asyncio.gather(*ahead, return_exceptions=True)

    async def _learn(self, found: Mapping[str, Version]) -> list[File]:
        """Take in objects; of those that are not shown, nothing is kept."""
        state, pool = self._state, self._state.session.metadata_pool
        shown = [each for object_id, each in found.items() if object_id in pool]
        files = await state.learn_versions(shown)
        for object_id, version in found.items():
            if object_id not in pool:
                stored = from_document(version.document)
                files += [stored] if isinstance(stored, File) else []
        return files

    async def _follow(self, files: Iterable[File]) -> None:
        """Follow first, compare then: nothing that changes in between is missed."""
        if self._state.surroundings.follow is not None:
            await self._state.surroundings.follow(files)

    async def _compare(self, given: Iterable[File]) -> None:
        files = [each for each in given if each.object_id not in self._compared]
        targets = [Target.of(each) for each in files]
        self._compared.update(each.object_id for each in targets)
        await self._follow(files)
        indexing, stubs = self._state.surroundings.indexing, self._upgrade_stubs
        async for batch in indexing.reconcile(targets, upgrade_stubs=stubs):
            for outcome in batch.outcomes:
                await self._state.learn_outcome(outcome)
                if outcome.result is not Result.UNCHANGED:
                    self.updated.append(outcome.object_id)
                elif outcome.unread is not None and not isinstance(outcome.unread, Gone):
                    self.orphaned.append(outcome.object_id)


def _growing_batches(ids: Iterable[str]) -> Iterable[list[str]]:
    source, size = iter(ids), min(FIRST_BATCH, READ_BATCH)
    while batch := list(islice(source, size)):
        yield batch
        size = min(2 * size, READ_BATCH)


def _batches(ids: Iterable[str], size: int) -> Iterable[list[str]]:
    source = iter(ids)
    while batch := list(islice(source, size)):
        yield batch
