"""Following the files of open sessions. Runs one task and the trackers' threads.

    disk ─► trackers ─► indexing ─► a version ─► the cache of every session that knows the file

No set is ever changed from here: what the agent folded stays folded. What could not be stored is
reported, kept in ``troubles``, and tried again a moment later, with the next change at the latest.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Self

from ctxmgr.core.contents import File
from ctxmgr.core.index_plans import stored_file
from ctxmgr.core.observing import Target
from ctxmgr.core.session_state import SessionState
from ctxmgr.core.surroundings import Surroundings
from ctxmgr.core.trackers import DEBOUNCE_MS, Trackers, TrackerState
from ctxmgr.errors import CtxmgrError

TROUBLES_MAX: Final = 100
"""Failures kept for a person to look at, the newest."""

RETRY_SECONDS: Final = 1.0
"""Between a failure and the next attempt: a store that is away is asked once a second."""

_log = logging.getLogger(__name__)


class Tracking:
    """The trackers of one client and what comes of them."""

    def __init__(
        self,
        surroundings: Surroundings,
        *,
        open_sessions: Callable[[], Iterable[SessionState]],
        debounce_ms: int = DEBOUNCE_MS,
    ) -> None:
        self._around = surroundings
        self._open_sessions = open_sessions
        self._trackers = Trackers(surroundings.files.mounts, debounce_ms=debounce_ms)
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Condition()
        self.troubles: deque[CtxmgrError] = deque(maxlen=TROUBLES_MAX)

    async def __aenter__(self) -> Self:
        await self._trackers.__aenter__()
        self._task = asyncio.create_task(self._run())
        self._around.follow = self.follow
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._around.follow = None
        await self._trackers.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def notices(self) -> tuple[str, ...]:
        """What keeps files from being watched, in words for a person."""
        return self._trackers.notices

    def state(self, object_id: str) -> TrackerState:
        return self._trackers.state(object_id)

    async def follow(self, files: Iterable[File]) -> None:
        """Follow files that were read; those that were only seen have nothing to follow."""
        new = [
            Target.of(each)
            for each in files
            if not each.is_stub and each.object_id not in self._trackers.states
        ]
        if new:
            await self._trackers.attach(new)

    async def wait_for(self, happened: Callable[[], bool]) -> None:
        """Wait until something that trackers bring about is so."""
        async with self._changed:
            await self._changed.wait_for(happened)

    async def _run(self) -> None:
        async for object_ids in self._trackers.changes():
            try:
                await self._reindex(object_ids)
            except CtxmgrError as error:
                self.troubles.append(error)
                _log.warning("%d changed files were not stored: %s", len(object_ids), error)
                await asyncio.sleep(RETRY_SECONDS)
                await self._again(object_ids)
            async with self._changed:
                self._changed.notify_all()

    async def _reindex(self, object_ids: tuple[str, ...]) -> None:
        stored = await self._around.store.get_many(object_ids)
        targets = [Target.of(stored_file(each)) for each in stored.values()]
        written = False
        async for batch in self._around.indexing.reconcile(targets):
            self._trackers.saw(batch.outcomes)
            self._trackers.saw_unchanged(batch.proven)
            written = written or bool(batch.outcomes)
        if written:
            self._around.changed()
            for state in self._open_sessions():
                await _refresh(state, object_ids)

    async def _again(self, object_ids: tuple[str, ...]) -> None:
        try:
            stored = await self._around.store.get_many(object_ids)
        except CtxmgrError as error:
            self.troubles.append(error)
            return
        await self._trackers.attach(Target.of(stored_file(each)) for each in stored.values())


async def _refresh(state: SessionState, object_ids: Iterable[str]) -> None:
    """Take in what the store says now: newer than any outcome that came late."""
    async with state.lock:
        known = [each for each in object_ids if each in state.session.metadata_pool]
        if known:
            found = await state.surroundings.store.get_many(known)
            await state.learn_versions(found.values())
