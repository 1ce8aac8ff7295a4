"""Trackers: sources that are followed, and how each stands. Starts threads, which end with it.

    state      means                                      leaves it
    orphaned   no tracker; the latest version stays       attach → resumed, found → attached
    resumed    attached (again), to be indexed            found → attached, gone → deleted
    attached   followed: changes lead to indexing         gone → deleted
    deleted    its deletion is stored; may come back      found → attached

    From everywhere: unreachable or detach → orphaned.

A tracker says which objects have to be indexed again, and no more: what a session shows is never
changed by it. A burst of events for one file is one change, told when the file has been quiet for
the debounce time, or after ``PATIENCE`` times that while it is still being written. Between two
tellings lies at least the debounce time, so a checkout's thousands come in a few batches. What
waits to be told is a set of the followed objects, so nothing can run over.

Several clients may follow one source; each has its own trackers. A file in a sandbox's own
filesystem has none.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Self

from ctxmgr.core.file_outcomes import Gone, Refusal, Refused, Unread
from ctxmgr.core.index_plans import Outcome
from ctxmgr.core.mounts import Mounts, Place
from ctxmgr.core.observing import Target
from ctxmgr.core.sources import FilesystemSource
from ctxmgr.core.watched_files import WatchedFiles

DEBOUNCE_MS: Final = 50
"""An editor's save is over within a few milliseconds; a person waits for no less than this."""

POLL_SECONDS: Final = 1.0
"""Between two looks at a file that cannot be watched."""

PATIENCE: Final = 10
"""Debounce times that a file which is written all the time is kept back."""

CHANGES_MAX: Final = 1_000
"""Objects told at once, so that the first of a checkout's thousands are not kept for the last."""

TRACKED_MAX: Final = 100_000
"""Objects followed: the largest session. More stay orphaned, which is said once."""


class TrackerState(StrEnum):
    """How a source is followed."""

    ATTACHED = "attached"
    ORPHANED = "orphaned"
    RESUMED = "resumed"
    DELETED = "deleted"


class Happening(StrEnum):
    """What moves a tracker from state to state."""

    ATTACH = "attach"
    FOUND = "found"
    GONE = "gone"
    UNREACHABLE = "unreachable"
    DETACH = "detach"


_S, _H = TrackerState, Happening

TRANSITIONS: Final[Mapping[tuple[TrackerState, Happening], TrackerState]] = MappingProxyType(
    {
        (_S.ORPHANED, _H.ATTACH): _S.RESUMED,
        (_S.ORPHANED, _H.FOUND): _S.ATTACHED,
        (_S.RESUMED, _H.FOUND): _S.ATTACHED,
        (_S.RESUMED, _H.GONE): _S.DELETED,
        (_S.ATTACHED, _H.GONE): _S.DELETED,
        (_S.ORPHANED, _H.GONE): _S.DELETED,
        (_S.DELETED, _H.FOUND): _S.ATTACHED,
        **{(state, _H.UNREACHABLE): _S.ORPHANED for state in _S},
        **{(state, _H.DETACH): _S.ORPHANED for state in _S},
    }
)
"""What is not here changes nothing."""


class Trackers:
    """The trackers of one client. Used inside ``async with``, by one event loop."""

    def __init__(
        self,
        mounts: Mounts,
        *,
        debounce_ms: int = DEBOUNCE_MS,
        poll_seconds: float = POLL_SECONDS,
        watched: type[WatchedFiles] = WatchedFiles,
    ) -> None:
        """``mounts`` as ``HostFiles`` resolved them."""
        self._mounts = mounts
        self._debounce_s = debounce_ms / 1_000
        self._poll_seconds = poll_seconds
        self._open_watched = watched
        self._states: dict[str, TrackerState] = {}
        self._ids: dict[str, dict[str, None]] = {}
        """By path: the objects there; one, unless two mounts show one folder as two filesystems."""
        self._paths: dict[str, str] = {}
        self._pending: dict[str, tuple[float, float]] = {}
        """By object: when its first and its last event came."""
        self._quiet_until = 0.0
        self._lock = threading.Lock()
        self._wake = asyncio.Event()
        self._closed = False

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._watched = self._open_watched(self._tell, poll_seconds=self._poll_seconds)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop following; ``changes`` ends, and no thread is left."""
        if not self._closed:
            self._closed = True
            self._wake.set()
            await asyncio.to_thread(self._watched.close)

    @property
    def states(self) -> Mapping[str, TrackerState]:
        """Every object that is or was followed."""
        return MappingProxyType(self._states)

    @property
    def notices(self) -> tuple[str, ...]:
        """What keeps files from being watched, in words for a person."""
        full = f"{TRACKED_MAX:,} files are followed; more are not"
        return (*self._watched.notices, *([full] if len(self._paths) >= TRACKED_MAX else []))

    def state(self, object_id: str) -> TrackerState:
        return self._states.get(object_id, TrackerState.ORPHANED)

    async def attach(self, targets: Iterable[Target], *, tell: bool = True) -> None:
        """Follow these from now on.

        Each is told as changed once, since it may have changed between its reading and now; without
        ``tell`` whoever attaches indexes them afterwards. Sources that are not on a mount of this
        client stay orphaned.
        """
        added = await asyncio.to_thread(self._add_all, tuple(targets))
        for target in added:
            self._move(target.object_id, Happening.ATTACH)
        if tell:
            self._tell(each.source.path for each in added)

    async def detach(self, object_ids: Iterable[str]) -> None:
        """Follow these no longer."""
        await asyncio.to_thread(self._remove_all, tuple(object_ids))

    def saw(self, outcomes: Iterable[Outcome]) -> None:
        """Take note of what indexing found out about followed objects."""
        for outcome in outcomes:
            self._move(outcome.object_id, _happening(outcome.unread))

    def saw_unchanged(self, object_ids: Iterable[str]) -> None:
        """Take note of sources that look as they did."""
        for object_id in object_ids:
            self._move(object_id, Happening.FOUND)

    async def changes(self) -> AsyncIterator[tuple[str, ...]]:
        """Give the ids of objects to index again, until closed. For one reader.

        What happens while the reader is busy waits, each object once.
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

    def _move(self, object_id: str, happening: Happening) -> None:
        if object_id in self._paths:
            state = self.state(object_id)
            self._states[object_id] = TRANSITIONS.get((state, happening), state)

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

    def _remove_all(self, object_ids: Iterable[str]) -> None:
        for object_id in object_ids:
            self._move(object_id, Happening.DETACH)
            with self._lock:
                path = self._paths.pop(object_id, None)
                self._pending.pop(object_id, None)
                if path is None:
                    continue
                del self._ids[path][object_id]
                if self._ids[path]:
                    continue
                del self._ids[path]
            self._watched.remove(path)

    def _root_of(self, source: FilesystemSource) -> str | None:
        place = Place(filesystem_id=source.filesystem_id, path=source.path, on_host=True)
        agent_path = self._mounts.reverse(place)
        shown = self._mounts.place_of(agent_path)
        if shown != place or not shown.on_host:
            return None
        mapping = self._mounts.mapping_of(agent_path)
        return "/" if mapping is None else mapping.canonical_prefix

    def _tell(self, paths: Iterable[str]) -> None:
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


def _happening(unread: Unread | None) -> Happening:
    if isinstance(unread, Gone):
        return Happening.GONE
    too_large = isinstance(unread, Refused) and unread.refusal is Refusal.TOO_LARGE
    return Happening.FOUND if unread is None or too_large else Happening.UNREACHABLE
