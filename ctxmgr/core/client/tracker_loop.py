"""Keeps the files of open sessions up to date. Runs one task and the threads of the trackers.

    disk ─► trackers ─► indexing ─► a version ─► the cache of every open session with that file

Sets of a session are never changed here: what the agent folded stays folded. A change that could
not be stored is logged, kept in ``troubles`` and tried again after a second, or with the next
change.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Self

from ctxmgr.core.append_only import OrderedIds
from ctxmgr.core.client.runtime import CommitObserver
from ctxmgr.core.client.session_state import SessionState
from ctxmgr.core.files.mounts import Mounts
from ctxmgr.core.objects.file import File
from ctxmgr.core.objects.sources import FILESYSTEM_TRACKER, source_type
from ctxmgr.core.store.contract import Store
from ctxmgr.core.tracking.index_plan import stored_file
from ctxmgr.core.tracking.indexing import Indexing
from ctxmgr.core.tracking.observation import Target
from ctxmgr.core.tracking.trackers import DEBOUNCE_MS, Trackers, TrackerState
from ctxmgr.errors import CtxmgrError

TROUBLES_MAX: Final = 100
"""Failures that are kept, the newest."""

RETRY_SECONDS: Final = 1.0
"""Between a failure and the next attempt."""

_log = logging.getLogger(__name__)


class TrackerLoop:
    """Follows the files of one client and stores their changes."""

    def __init__(
        self,
        store: Store,
        *,
        indexing: Indexing,
        mounts: Mounts,
        observers: Iterable[CommitObserver] = (),
        debounce_ms: int = DEBOUNCE_MS,
    ) -> None:
        self._store = store
        self._indexing = indexing
        self._observers = tuple(observers)
        self._trackers = Trackers(mounts, debounce_ms=debounce_ms)
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Condition()
        self._sessions: dict[str, SessionState] = {}
        self.troubles: deque[CtxmgrError] = deque(maxlen=TROUBLES_MAX)

    async def __aenter__(self) -> Self:
        await self._trackers.__aenter__()
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *exc: object) -> None:
        task, self._task = self._task, None
        await self._trackers.close()
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @property
    def notices(self) -> tuple[str, ...]:
        """Why some files are not watched, in words for a person."""
        return self._trackers.notices

    @property
    def states(self) -> Mapping[str, TrackerState]:
        """The state of every file that is followed, by id."""
        return self._trackers.states

    def state(self, object_id: str) -> TrackerState:
        return self._trackers.state(object_id)

    def add_session(self, state: SessionState) -> None:
        """Refresh the cache of a session from now on."""
        self._sessions[state.session.session_id] = state

    async def remove_session(self, session_id: str) -> None:
        """Stop refreshing the cache of a session, and following what no other open one has."""
        state = self._sessions.pop(session_id, None)
        if state is None:
            return
        unused = {object_id for object_id in _known_ids(state) if object_id in self.states}
        for other in list(self._sessions.values()):
            if unused:
                async with other.lock:  # it may just be adding one of these files
                    unused.difference_update(_known_ids(other))
        await self._trackers.detach(unused)

    async def follow(self, files: Iterable[File]) -> None:
        """Follow files from now on, if their type of source has this kind of tracker.

        Stubs are not followed, since nothing of them is stored.
        """
        new = [
            Target.of(file)
            for file in files
            if not file.is_stub
            and file.object_id not in self._trackers.states
            and source_type(file.source).tracker == FILESYSTEM_TRACKER
        ]
        if new and self._task is not None:
            await self._trackers.attach(new)

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition that depends on tracked files is true."""
        async with self._changed:
            await self._changed.wait_for(condition)

    async def _run(self) -> None:
        async for object_ids in self._trackers.changes():
            try:
                await self._reindex(object_ids)
            except CtxmgrError as error:
                self.troubles.append(error)
                _log.warning("%d changed files were not stored: %s", len(object_ids), error)
                await asyncio.sleep(RETRY_SECONDS)
                self._trackers.report_again(object_ids)
            async with self._changed:
                self._changed.notify_all()

    async def _reindex(self, object_ids: tuple[str, ...]) -> None:
        stored = await self._store.get_many(object_ids)
        targets = [Target.of(stored_file(version)) for version in stored.values()]
        written = False
        # What is followed was read before: a stub among them had grown too large.
        async for batch in self._indexing.reconcile(targets, upgrade_stubs=True):
            self._trackers.record_outcomes(batch.outcomes)
            self._trackers.record_unchanged(batch.proven)
            written = written or bool(batch.outcomes)
        if not written:
            return
        for observer in self._observers:
            await observer(())
        for state in list(self._sessions.values()):
            async with state.lock:
                # Read again: another commit may be newer than the outcomes above.
                pool = state.session.metadata_pool
                shown = [object_id for object_id in object_ids if object_id in pool]
                if shown:
                    versions = await self._store.get_many(shown)
                    await state.learn_versions(versions.values())


def _known_ids(state: SessionState) -> OrderedIds:
    """Return the ids of a session's files; while its index is unread, of those that it shows."""
    session = state.session
    return session.session_index if session.is_whole else session.metadata_pool
