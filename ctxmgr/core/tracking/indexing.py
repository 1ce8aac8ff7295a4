"""Index files: read sources, compare them with the store, commit what changed. Reads the disk.

    plan_read        an agent read or wrote a file       ┐
    plan_discovery   a tool's output named paths         ├─► an IndexPlan, which the caller commits
    plan_again       the plan's transaction conflicted   ┘
    reconcile        stored files, after a tracker's     ──► committed here, in bounded batches
                     event or when a session resumes

The operations of a plan can be committed in one transaction with other changes of the same tool
call; afterwards ``note`` reports the commit. Sessions are not changed here: the outcomes say what
happened to each object, and the caller decides whether to show it.

A missing file was deleted if its folder has changed since its last version was stored. Otherwise
the volume that it was on is not mounted, and it is unreachable.

The store is read before the source, and every put is guarded by the version that was read. If two
clients index one file at the same time, the one with the older bytes gets a conflict and reads the
file again.
"""

import asyncio
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple, TypeAlias, TypeVar, cast

from ctxmgr.core.files.fingerprints import Fingerprints
from ctxmgr.core.files.host_files import FILE_BYTES_MAX, HostFiles
from ctxmgr.core.files.outcomes import MissingFile, Refusal, RefusedFile, Unreachable
from ctxmgr.core.objects.file import FileState
from ctxmgr.core.store.contract import (
    LATEST,
    AsOf,
    Commit,
    HistoryEntry,
    Instant,
    Store,
    Version,
)
from ctxmgr.core.store.documents import TRANSACTION_BYTES_MAX
from ctxmgr.core.store.queries import batched
from ctxmgr.core.tracking.index_plan import (
    NS_PER_MS,
    IndexOutcome,
    IndexPlan,
    Observation,
    ObservationTime,
    plan,
    stored_file,
    unclear,
)
from ctxmgr.core.tracking.observation import Inside, Sighting, SourceReader, Target, seen_only
from ctxmgr.errors import Conflict, Incorrect

ATTEMPTS_MAX: Final = 5
"""Attempts to commit one plan. Each conflict means that another client changed the same file."""

CLOCK_WAIT_MS_MAX: Final = 20
"""The longest wait for the clock to pass a version's valid time. A larger difference means that
the clocks of two machines disagree."""

DISCOVERY_BATCH_MAX: Final = 1_000
"""Stubs in one transaction: each is a match and a put, and a store takes 10,000 operations."""

INDEX_BATCH_FILES_MAX: Final = 500
"""Files in one transaction: other writers wait a quarter of a second for it."""

INDEX_BATCH_BYTES_MAX: Final = FILE_BYTES_MAX
"""Bytes of files after which a batch is full. The last file can double this, and a byte takes up to
six bytes in a document. Two batches are in memory at once: one is read while the previous one is
committed."""

LOOKS_MAX: Final = 5_000
"""Files checked in one call of a thread, which bounds how long closing has to wait."""

STATE_HISTORY_MAX: Final = 3
"""Versions needed to recognise a deletion: the deletion, the text before it, and one more that
another program may have put between them."""

STATES_MAX: Final = 100_000
"""States that are remembered: one for each file of the largest session."""

assert (INDEX_BATCH_BYTES_MAX + FILE_BYTES_MAX) * 6 <= TRANSACTION_BYTES_MAX

_UNMOUNTED: Final = Unreachable("the volume that it was on is not mounted")

ExistsInSandbox: TypeAlias = Callable[[Sequence[str]], Awaitable[Collection[str]]]
"""Returns which of these paths are regular files in the sandbox's own filesystem."""

_T = TypeVar("_T")
_U = TypeVar("_U")


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The result for one batch of stored files."""

    proven: tuple[str, ...] = ()
    """Ids of files whose fingerprint proves that they have not changed; they were not read."""
    outcomes: tuple[IndexOutcome, ...] = ()


class Indexing:
    """Indexes files for one client. Owns neither the store nor the files."""

    def __init__(
        self,
        store: Store,
        files: HostFiles,
        *,
        fingerprints: Fingerprints,
        clock_ns: Callable[[], int] = time.time_ns,
        kept: Callable[[str], str] | None = None,
    ) -> None:
        """``kept`` returns a text as it is stored, for example with its secrets masked."""
        self._store = store
        self._sources = SourceReader(files, fingerprints=fingerprints, clock_ns=clock_ns, kept=kept)
        self.states: Final = FileStates(store)
        self._kept = kept
        self._clock_ns = clock_ns
        self._last_transaction: Instant | None = None

    def note(self, commit: Commit) -> None:
        """Learn the store's time from any transaction; modification times before it can be used."""
        self._last_transaction = max(self._last_transaction or 0, commit.system_time)

    async def plan_read(
        self, path: str, *, inside: Inside | None = None, changed: bool = False
    ) -> IndexPlan:
        """Plan the read or write of a file by an agent; the plan has one outcome.

        ``inside`` is what is known of a file in the sandbox's own filesystem: its bytes, why the
        sandbox did not read it, or that it exists. A file on a mount is always read. ``changed``
        says that the stored content of a file that cannot be read is outdated.
        """
        sighting = await asyncio.to_thread(self._sources.look, path, inside=inside)
        stored = await self._store.get_many([sighting.object_id])
        observed = await asyncio.to_thread(self._sources.read, sighting)
        unseen = changed and observed.file is None and _is_in_sandbox(sighting)
        return await self._plan([replace(observed, changed=unseen)], stored)

    async def plan_discovery(
        self,
        paths: Iterable[str],
        *,
        inside: ExistsInSandbox | None = None,
        planned: Iterable[IndexOutcome] = (),
    ) -> list[IndexPlan]:
        """Plan stubs for files that are not stored yet; each plan is one transaction.

        Paths that are not files on a mount are skipped. Paths in the sandbox's own filesystem are
        checked with ``inside``; without it, all of them are accepted. Objects that are ``planned``
        for the same transaction are left out.
        """
        named = dict.fromkeys(paths)
        sightings = await asyncio.to_thread(self._look_at_candidates, named) if named else []
        candidates = [sighting.agent_path for sighting in sightings if _is_in_sandbox(sighting)]
        if inside is not None and candidates:
            existing = set(await inside(candidates))
        else:
            existing = set(candidates)
        by_id = {
            sighting.object_id: sighting
            for sighting in sightings
            if sighting.unread is None
            or (_is_in_sandbox(sighting) and sighting.agent_path in existing)
        }
        for outcome in planned:
            by_id.pop(outcome.object_id, None)
        if not by_id:
            return []
        stored = await self._store.get_many(by_id)
        moment = await self._observation_time()
        observed = [seen_only(sighting) for sighting in by_id.values()]
        states = await self.states.of(unclear(observed, stored).values())
        return [
            await asyncio.to_thread(plan, batch, stored=stored, moment=moment, states=states)
            for batch in batched(observed, DISCOVERY_BATCH_MAX)
        ]

    async def plan_again(self, conflicted: IndexPlan) -> IndexPlan:
        """Plan again after a conflict: the store and the sources are read again."""
        changeable = [
            Target(source=seen.source, object_id=seen.object_id, object_hash=None, is_stub=False)
            for seen in conflicted.observations
            if _can_change(seen)
        ]
        kept = [seen for seen in conflicted.observations if not _can_change(seen)]
        return await self._plan_targets(changeable, kept=kept)

    async def apply(self, planned: IndexPlan) -> tuple[IndexOutcome, ...]:
        """Commit a plan in its own transaction, and plan again after a conflict."""
        for _ in range(ATTEMPTS_MAX):
            if not planned.operations:
                return planned.outcomes
            try:
                self.note(await self._store.commit(planned.operations))
            except Conflict:
                planned = await self.plan_again(planned)
            else:
                return planned.outcomes
        raise Conflict(tuple(outcome.object_id for outcome in planned.written))

    async def reconcile(
        self, targets: Iterable[Target], *, upgrade_stubs: bool = False
    ) -> AsyncIterator[Reconciled]:
        """Bring stored files up to date; an unreachable file keeps its version.

        A file whose fingerprint proves that it has not changed is not read. Stubs are read only
        with ``upgrade_stubs``.
        """
        for batch in batched(targets, LOOKS_MAX):
            due = [target for target in batch if upgrade_stubs or not target.is_stub]
            proven, changed = await asyncio.to_thread(self._check, due)
            yield Reconciled(proven=proven)
            plan_next = partial(self._plan_next, _by_size(changed))
            async for outcomes in self._apply_all(plan_next):
                yield Reconciled(outcomes=outcomes)

    async def _plan_targets(
        self, targets: Sequence[Target], *, kept: Sequence[Observation] = ()
    ) -> IndexPlan:
        """Read the store, then the sources, and plan one transaction."""
        ids = [*(seen.object_id for seen in kept), *(target.object_id for target in targets)]
        stored = await self._store.get_many(ids)
        # One thread: on a local disk several only compete for the GIL.
        observed = await asyncio.to_thread(self._sources.read_again, targets)
        return await self._plan([*kept, *observed], stored)

    async def _plan(
        self, observed: Sequence[Observation], stored: Mapping[str, Version]
    ) -> IndexPlan:
        moment = await self._observation_time()
        states = await self.states.of(unclear(observed, stored).values())
        unmounted = await self._unmounted(observed, stored, moment, states)
        judged = [
            replace(seen, unread=_UNMOUNTED) if seen.object_id in unmounted else seen
            for seen in observed
        ]
        planned = await asyncio.to_thread(
            plan, judged, stored=stored, moment=moment, states=states, kept=self._kept
        )
        if planned.not_before is not None:
            left_ms = planned.not_before + 1 - self._now()
            if 0 < left_ms <= CLOCK_WAIT_MS_MAX:
                await asyncio.sleep(left_ms / 1_000)
        return planned

    async def _unmounted(
        self,
        observed: Sequence[Observation],
        stored: Mapping[str, Version],
        moment: ObservationTime,
        states: Mapping[str, FileState],
    ) -> set[str]:
        """Return the ids of missing files whose folder is not the one that contained them."""
        doubtful: dict[int, list[str]] = {}
        for seen in observed:
            before = stored.get(seen.object_id)
            if not isinstance(seen.unread, MissingFile) or before is None:
                continue
            if states.get(seen.object_id) is FileState.DELETED:
                continue
            removed_until = seen.unread.removed_until_ms
            if removed_until is not None and removed_until < (moment.last_transaction or 0):
                doubtful.setdefault(removed_until, []).append(seen.object_id)
        unmounted: set[str] = set()
        for removed_until, ids in doubtful.items():  # the files of one folder at a time
            known = await self._store.get_many(ids, as_of=AsOf(system_time=removed_until))
            unmounted.update(
                object_id
                for object_id in ids
                if object_id not in known or known[object_id].token != stored[object_id].token
            )
        return unmounted

    async def _observation_time(self) -> ObservationTime:
        if self._last_transaction is None:
            self._last_transaction = (await self._store.status()).system_time
        return ObservationTime(now=self._now(), last_transaction=self._last_transaction)

    def _now(self) -> Instant:
        return self._clock_ns() // NS_PER_MS

    def _look_at_candidates(self, paths: Iterable[str]) -> list[Sighting]:
        sightings = []
        for path in paths:
            try:
                sightings.append(self._sources.look(path))
            except Incorrect:  # taken from some text: it need not be a path
                continue
        return sightings

    def _check(self, targets: Iterable[Target]) -> tuple[tuple[str, ...], list[tuple[Target, int]]]:
        """Return the ids of the proven targets, and the other targets with their sizes."""
        proven, changed = [], []
        for target in targets:
            if self._sources.is_proven(target):
                proven.append(target.object_id)
            else:
                changed.append((target, self._sources.expected_size(target)))
        return tuple(proven), changed

    async def _apply_all(
        self, plan_next: Callable[[], Awaitable[IndexPlan | None]]
    ) -> AsyncIterator[tuple[IndexOutcome, ...]]:
        """Commit batch by batch; each is read while the store commits the previous one."""
        ahead = await plan_next()
        while ahead is not None:
            # A failed read of the next batch must not hide the result of this commit.
            ahead, outcomes = await _both(plan_next(), self.apply(ahead))
            yield outcomes

    async def _plan_next(self, batches: Iterator[list[Target]]) -> IndexPlan | None:
        batch = next(batches, None)
        return None if batch is None else await self._plan_targets(batch)


class FileStates:
    """The states of stored files. A version's state never changes, so it is looked up once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[tuple[str, str], FileState] = {}
        """By object_id and object_hash, of files whose state is in their history."""

    async def of(
        self, versions: Iterable[Version], *, as_of: AsOf = LATEST
    ) -> dict[str, FileState]:
        """Return the states of many files, by id; their histories are read in one request."""
        files = {version.object_id: stored_file(version) for version in versions}
        keys = {
            object_id: (object_id, file.object_hash)
            for object_id, file in files.items()
            if file.needs_history
        }
        new = [object_id for object_id, key in keys.items() if key not in self._known]
        histories: Mapping[str, Sequence[HistoryEntry]] = {}
        if new:
            histories = await self._store.history_many(
                new, as_of=as_of, without={"content"}, limit=STATE_HISTORY_MAX
            )
        states = {
            object_id: self._known.get((object_id, file.object_hash))
            or file.state(earlier=_hashes(histories.get(object_id, ())))
            for object_id, file in files.items()
        }
        for object_id in new:
            self.learn(*keys[object_id], state=states[object_id])
        return states

    def learn(self, object_id: str, object_hash: str, *, state: FileState) -> None:
        """Remember the state of a version, which a record of it says."""
        if state in {FileState.DELETED, FileState.NONTEXT}:
            self._known[(object_id, object_hash)] = state
            if len(self._known) > STATES_MAX:
                del self._known[next(iter(self._known))]


async def state_of(store: Store, version: Version, *, as_of: AsOf = LATEST) -> FileState:
    """Return the state of a stored file; distinguish a deleted file from a binary one."""
    return (await FileStates(store).of([version], as_of=as_of))[version.object_id]


class _Hashes(NamedTuple):
    file_hash: str | None
    content_hash: str | None


def _hashes(entries: Iterable[HistoryEntry]) -> Iterator[_Hashes]:
    for entry in entries:
        document = entry.document
        if document is not None:
            yield _Hashes(document.get("file_hash"), document.get("content_hash"))


def _can_change(observed: Observation) -> bool:
    """Return whether looking again can give another result: not for stubs and tools' output."""
    if observed.file is None:
        seen = isinstance(observed.unread, MissingFile) or observed.is_too_large
        return seen and not observed.inside
    return not observed.inside


def _is_in_sandbox(sighting: Sighting) -> bool:
    unread = sighting.unread
    return isinstance(unread, RefusedFile) and unread.refusal is Refusal.OUTSIDE


def _by_size(sized: Iterable[tuple[Target, int]]) -> Iterator[list[Target]]:
    batch: list[Target] = []
    batch_size = 0
    for target, size in sized:
        full = len(batch) >= INDEX_BATCH_FILES_MAX or batch_size + size > INDEX_BATCH_BYTES_MAX
        if batch and full:
            yield batch
            batch, batch_size = [], 0
        batch.append(target)
        batch_size += size
    if batch:
        yield batch


async def _both(first: Awaitable[_T], second: Awaitable[_U]) -> tuple[_T, _U]:
    """Wait for both, even if one fails; an error of the second is raised first."""
    results = await asyncio.gather(first, second, return_exceptions=True)
    for result in reversed(results):
        if isinstance(result, BaseException):
            raise result
    return cast("tuple[_T, _U]", tuple(results))
