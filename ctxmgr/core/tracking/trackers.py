"""Trackers: follow files and report which have changed. Starts threads, which end when it closes.

    state      meaning                                    transitions
    orphaned   no tracker; the latest version stays       attach → resumed, found → attached
    resumed    attached (again), not yet indexed          found → attached, gone → deleted
    attached   followed: a change leads to indexing       gone → deleted
    deleted    its deletion is stored; may come back      found → attached

    From every state: unreachable → orphaned. What is detached, or was never attached, is orphaned.

A tracker only reports which objects have to be indexed again; it never changes what a session
shows. A burst of events for one file is one change. It is reported when the file has been quiet for
the debounce time, or after ``PATIENCE`` times the debounce time if the file is written
continuously. Two reports are at least the debounce time apart, so the thousands of files of a
checkout arrive in a few batches. Pending changes are a set of followed objects, so they cannot
overflow.

Several clients may follow one source; each has its own trackers. Files in a sandbox's own
filesystem are not followed.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Self

from ctxmgr.core.files.mounts import FileLocation, Mounts
from ctxmgr.core.files.outcomes import MissingFile, Unread
from ctxmgr.core.objects.sources import FilesystemSource
from ctxmgr.core.store.commits import finish_despite_cancel
from ctxmgr.core.tracking.index_plan import IndexOutcome, is_too_large
from ctxmgr.core.tracking.observation import Target
from ctxmgr.core.tracking.watched_files import WatchedFiles

DEBOUNCE_MS: Final = 50
"""An editor saves within a few milliseconds, and people do not notice a delay of this length."""

POLL_SECONDS: Final = 1.0
"""Between two checks of a file that cannot be watched."""

PATIENCE: Final = 10
"""The longest delay of a change to a file that is written continuously, in debounce times."""

CHANGES_MAX: Final = 1_000
"""Objects reported at once, so that the first files of a checkout do not wait for the last."""

TRACKED_MAX: Final = 100_000
"""Objects followed: the largest session. Further ones stay orphaned, and ``notices`` says so."""


class TrackerState(StrEnum):
    """Whether a source is followed."""

    ATTACHED = "attached"
    ORPHANED = "orphaned"
    RESUMED = "resumed"
    DELETED = "deleted"


class TrackerEvent(StrEnum):
    """What changes the state of a tracker."""

    ATTACH = "attach"
    FOUND = "found"
    GONE = "gone"
    UNREACHABLE = "unreachable"


_S, _E = TrackerState, TrackerEvent

TRANSITIONS: Final[Mapping[tuple[TrackerState, TrackerEvent], TrackerState]] = MappingProxyType(
    {
        (_S.ORPHANED, _E.ATTACH): _S.RESUMED,
        (_S.ORPHANED, _E.FOUND): _S.ATTACHED,
        (_S.RESUMED, _E.FOUND): _S.ATTACHED,
        (_S.RESUMED, _E.GONE): _S.DELETED,
        (_S.ATTACHED, _E.GONE): _S.DELETED,
        (_S.ORPHANED, _E.GONE): _S.DELETED,
        (_S.DELETED, _E.FOUND): _S.ATTACHED,
        **{(state, _E.UNREACHABLE): _S.ORPHANED for state in _S},
    }
)
"""Combinations that are not listed change nothing."""


class Trackers:
    """The trackers of one client. Use it with ``async with``, in one event loop."""

    def __init__(
        self,
        mounts: Mounts,
        *,
        debounce_ms: int = DEBOUNCE_MS,
        poll_seconds: float = POLL_SECONDS,
        watched: type[WatchedFiles] = WatchedFiles,
    ) -> None:
        """``mounts`` must be resolved, as ``HostFiles.mounts`` are."""
        self._mounts = mounts
        self._debounce_s = debounce_ms / 1_000
        self._poll_seconds = poll_seconds
        self._open_watched = watched
        self._states: dict[str, TrackerState] = {}
        self._ids: dict[str, dict[str, None]] = {}
        """The objects at each path; two mounts can give one folder two filesystem ids."""
        self._paths: dict[str, str] = {}
        self._pending: dict[str, tuple[float, float]] = {}
        """The times of an object's first and last event."""
        self._quiet_until = 0.0
        self._lock = threading.Lock()
        self._wake = asyncio.Event()
        self._changing = asyncio.Lock()
        """Held while files are attached or detached, in a thread."""
        self._closed = False

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._watched = self._open_watched(self._report, poll_seconds=self._poll_seconds)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop following: ``changes`` and all threads end."""
        if not self._closed:
            self._closed = True
            self._wake.set()
            await asyncio.to_thread(self._watched.close)

    @property
    def states(self) -> Mapping[str, TrackerState]:
        """The state of every object that is followed."""
        return MappingProxyType(self._states)

    @property
    def notices(self) -> tuple[str, ...]:
        """Why some files are not watched, for people to read."""
        full = f"{TRACKED_MAX:,} files are followed; more are not"
        return (*self._watched.notices, *([full] if len(self._paths) >= TRACKED_MAX else []))

    def state(self, object_id: str) -> TrackerState:
        return self._states.get(object_id, TrackerState.ORPHANED)

    async def attach(self, targets: Iterable[Target], *, report: bool = True) -> None:
        """Follow files from now on.

        Each is reported as changed once, because it may have changed since it was read; with
        ``report=False`` the caller indexes them afterwards. Sources that are not on a mount of this
        client stay orphaned.
        """
        await finish_despite_cancel(self._attach(tuple(targets), report=report))

    async def detach(self, object_ids: Iterable[str]) -> None:
        """Stop following files: they are orphaned, and no change of them is reported."""
        await finish_despite_cancel(self._detach(tuple(object_ids)))

    def report_again(self, object_ids: Iterable[str]) -> None:
        """Report followed files as changed, because an earlier change could not be handled."""
        self._report([self._paths[each] for each in object_ids if each in self._paths])

    def record_outcomes(self, outcomes: Iterable[IndexOutcome]) -> None:
        """Update the states of followed objects after indexing."""
        for outcome in outcomes:
            self._apply(outcome.object_id, _event(outcome.unread))

    def record_unchanged(self, object_ids: Iterable[str]) -> None:
        """Update the states of followed objects that have not changed."""
        for object_id in object_ids:
            self._apply(object_id, TrackerEvent.FOUND)

    async def changes(self) -> AsyncIterator[tuple[str, ...]]:
        """Yield the ids of objects to index again, until closed. For one consumer.

        Changes that arrive while the consumer is busy are collected, each object once.
        """
        while not self._closed:
            self._wake.clear()
            due, wait_s = self._take_due()
            if due:
                yield due
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()

    async def _attach(self, targets: tuple[Target, ...], *, report: bool) -> None:
        async with self._changing:
            added = await asyncio.to_thread(self._add_all, targets)
            for target in added:
                self._apply(target.object_id, TrackerEvent.ATTACH)
        if report:
            self._report(target.source.path for target in added)

    async def _detach(self, object_ids: tuple[str, ...]) -> None:
        async with self._changing:
            unused = []
            with self._lock:
                for object_id in object_ids:
                    path = self._paths.pop(object_id, None)
                    self._pending.pop(object_id, None)
                    self._states.pop(object_id, None)
                    if path is not None:
                        ids = self._ids[path]
                        del ids[object_id]
                        if not ids:
                            del self._ids[path]
                            unused.append(path)
            if not self._closed:
                await asyncio.to_thread(self._remove_all, unused)

    def _remove_all(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._watched.remove(path)

    def _apply(self, object_id: str, event: TrackerEvent) -> None:
        if object_id in self._paths:
            state = self.state(object_id)
            self._states[object_id] = TRANSITIONS.get((state, event), state)

    def _add_all(self, targets: Iterable[Target]) -> list[Target]:
        added = []
        for target in targets:
            root = self._root_of(target.source)
            if root is None or self._closed or len(self._paths) >= TRACKED_MAX:
                continue
            with self._lock:
                self._paths[target.object_id] = target.source.path
                self._ids.setdefault(target.source.path, {})[target.object_id] = None
            self._watched.add(target.source.path, root=root)
            added.append(target)
        return added

    def _root_of(self, source: FilesystemSource) -> str | None:
        location = FileLocation(filesystem_id=source.filesystem_id, path=source.path, on_host=True)
        agent_path = self._mounts.reverse(location)
        mapped = self._mounts.location_of(agent_path)
        if mapped != location or not mapped.on_host:
            return None
        mapping = self._mounts.mapping_of(agent_path)
        return "/" if mapping is None else mapping.canonical_prefix

    def _report(self, paths: Iterable[str]) -> None:
        """Note changed paths. Called from the watching threads and from the event loop."""
        now = self._loop.time()
        with self._lock:
            was_idle = not self._pending
            for path in paths:
                for object_id in self._ids.get(path, ()):
                    first, _ = self._pending.get(object_id, (now, now))
                    self._pending[object_id] = (first, now)
            wake = was_idle and bool(self._pending)
        if wake and not self._closed:
            self._loop.call_soon_threadsafe(self._wake.set)

    def _take_due(self) -> tuple[tuple[str, ...], float | None]:
        now = self._loop.time()
        due: list[str] = []
        earliest: float | None = None
        with self._lock:
            for object_id, (first, last) in self._pending.items():
                quiet_at = min(last + self._debounce_s, first + self._debounce_s * PATIENCE)
                at = max(quiet_at, self._quiet_until)
                if at <= now and len(due) < CHANGES_MAX:
                    due.append(object_id)
                elif earliest is None or at < earliest:
                    earliest = at
            for object_id in due:
                del self._pending[object_id]
        if due and len(due) < CHANGES_MAX:
            self._quiet_until = now + self._debounce_s
        return tuple(due), None if earliest is None else max(earliest - now, 0)


def _event(unread: Unread | None) -> TrackerEvent:
    if isinstance(unread, MissingFile):
        return TrackerEvent.GONE
    found = unread is None or is_too_large(unread)
    return TrackerEvent.FOUND if found else TrackerEvent.UNREACHABLE
