"""Indexing and discovery: sources become versions. Reads the store and the host's disk.

    plan_read        an agent read or wrote a file      ┐
    plan_discovery   paths stood in some tool's output  ├─► a Plan, to be committed with the rest
    plan_again       its transaction conflicted         ┘
    index            plan_read and commit
    index_many       the same for many paths            ┐
    reconcile        known objects, after a tracker's   ├─► committed here, in bounded batches
                     event or when a session resumes    ┘

A plan's operations can stand in one transaction with whatever else a tool call changed; ``note``
then says what was committed. No session is touched here: the outcomes say what became of each
object, and whoever asked decides where it shows.
"""

import asyncio
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Container,
    Iterable,
    Iterator,
    Sequence,
)
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Final, TypeAlias, TypeVar, cast

from ctxmgr.core.contents import File, FileState
from ctxmgr.core.documents import TRANSACTION_BYTES_MAX, Document
from ctxmgr.core.file_outcomes import Refusal, Refused
from ctxmgr.core.fingerprints import Fingerprints
from ctxmgr.core.hostfiles import FILE_BYTES_MAX, HostFiles
from ctxmgr.core.index_commits import IndexCommits
from ctxmgr.core.index_plans import Observation, Outcome, Plan, plan, stored_file
from ctxmgr.core.observing import Observing, Sighting, Target, seen_only
from ctxmgr.core.store import LATEST, AsOf, Commit, Store, Version
from ctxmgr.errors import Incorrect

DISCOVERY_BATCH_MAX: Final = 1_000
"""Stubs in one transaction: each is a match and a put, and a store takes 10,000 operations."""

INDEX_BATCH_FILES_MAX: Final = 500
"""Files in one transaction: a quarter of a second for other writers to wait."""

INDEX_BATCH_BYTES_MAX: Final = FILE_BYTES_MAX
"""Bytes of files after which a transaction takes no more: with the last file they are twice as many
at most, and a byte becomes six at most in a document. Two batches are in memory at once: one is
read while the one before is committed."""

READ_TOGETHER: Final = 50
"""Files read before the first of them is hashed; so many that more gain nothing."""

LOOKS_MAX: Final = 5_000
"""Files looked at in one go of a thread, so that closing waits for no more."""

STATE_HISTORY_MAX: Final = 3
"""Versions that tell a deletion: itself, and the text before it; one more for a correction."""

assert (INDEX_BATCH_BYTES_MAX + FILE_BYTES_MAX) * 6 <= TRANSACTION_BYTES_MAX

_T = TypeVar("_T")
_U = TypeVar("_U")

Inside: TypeAlias = Callable[[Sequence[str]], Awaitable[Collection[str]]]
"""Asks the sandbox which of these paths are regular files in its own filesystem."""


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What one batch of known objects came to."""

    proven: tuple[str, ...] = ()
    """Ids of files that look as when they were read: unchanged, and not read again."""
    outcomes: tuple[Outcome, ...] = ()


class Indexing:
    """Indexing for one client. Owns neither the store nor the files."""

    def __init__(
        self,
        store: Store,
        files: HostFiles,
        *,
        fingerprints: Fingerprints,
        clock_ns: Callable[[], int] = time.time_ns,
        kept: Callable[[str], str] | None = None,
    ) -> None:
        self._store = store
        self._observing = Observing(files, fingerprints=fingerprints, clock_ns=clock_ns, kept=kept)
        self._commits = IndexCommits(store, self._observing, clock_ns=clock_ns)

    def note(self, commit: Commit) -> None:
        """Learn the store's time from any transaction, so that mtimes before it can be used."""
        self._commits.note(commit)

    async def index(self, path: str, *, output: bytes | None = None) -> Outcome:
        """Bring the object of an agent's path up to date."""
        (outcome,) = await self.apply(await self.plan_read(path, output=output))
        return outcome

    async def plan_read(self, path: str, *, output: bytes | None = None) -> Plan:
        """Plan what an agent's reading or writing of a file means: one outcome.

        ``output`` is what a tool gave, if that is byte for byte the file. It is not believed where
        the file is of another size or has just changed; then, as without it, the file is read.
        """
        sighting = await asyncio.to_thread(self._observing.look, path, output=output)
        return await self._commits.plan([sighting])

    async def plan_discovery(
        self, paths: Iterable[str], *, known: Container[str] = (), inside: Inside | None = None
    ) -> list[Plan]:
        """Plan stubs for files that nobody has met, each plan for a transaction of its own.

        Paths that are no files on a mount are left out, and so are objects in ``known``. In the
        sandbox's own filesystem ``inside`` is asked; None: it cannot be, and all are taken.
        """
        sightings = await asyncio.to_thread(self._look_where_possible, dict.fromkeys(paths))
        there = await self._there(sightings, inside)
        met = {each.object_id: each for each in there if each.object_id not in known}
        stored = await self._store.get_many(met)
        observed = (seen_only(each) for each in met.values())
        moment = await self._commits.moment()
        return [
            await asyncio.to_thread(plan, batch, stored=stored, moment=moment)
            for batch in _batched(observed, DISCOVERY_BATCH_MAX)
        ]

    async def plan_again(self, conflicted: Plan) -> Plan:
        """Plan anew what conflicted: the store and the sources are read again."""
        return await self._commits.plan_again(conflicted)

    async def apply(self, planned: Plan) -> tuple[Outcome, ...]:
        """Commit a plan by itself, planning again where others were faster."""
        return await self._commits.apply(planned)

    async def index_many(self, paths: Iterable[str]) -> AsyncIterator[tuple[Outcome, ...]]:
        """Index the files at many of the agent's paths, giving the outcomes batch by batch."""
        async for outcomes in self._apply_all(partial(self._plan_next, iter(paths))):
            yield outcomes

    async def reconcile(
        self, targets: Iterable[Target], *, upgrade_stubs: bool = False
    ) -> AsyncIterator[Reconciled]:
        """Bring known objects up to date; what is unreachable keeps the version it has.

        A file that looks as when it was read is not read again. Stubs stay unread unless they are
        to be upgraded.
        """
        for some in _batched(targets, LOOKS_MAX):
            due = [each for each in some if upgrade_stubs or not each.is_stub]
            proven, sightings = await asyncio.to_thread(self._sort_out, due)
            yield Reconciled(proven=proven)
            plan_next = partial(self._plan_sighted, _by_size(sightings))
            async for outcomes in self._apply_all(plan_next):
                yield Reconciled(outcomes=outcomes)

    async def state_of(self, version: Version) -> FileState:
        """Tell a deleted file from one that never was text."""
        return await state_of(self._store, version)

    def _look_where_possible(self, paths: Iterable[str]) -> list[Sighting]:
        found = []
        for path in paths:
            try:
                found.append(self._observing.look(path))
            except Incorrect:  # taken from some text: it need not be a path
                continue
        return found

    def _sort_out(self, targets: Iterable[Target]) -> tuple[tuple[str, ...], list[Sighting]]:
        proven, sightings = [], []
        for target in targets:
            if self._observing.is_proven(target):
                proven.append(target.object_id)
            else:
                sightings.append(self._observing.look_again(target))
        return tuple(proven), sightings

    async def _there(self, sightings: list[Sighting], inside: Inside | None) -> list[Sighting]:
        asked = [each.agent_path for each in sightings if _is_inside(each)]
        answered = set(await inside(asked)) if inside is not None and asked else set(asked)
        return [
            each
            for each in sightings
            if each.unread is None or (_is_inside(each) and each.agent_path in answered)
        ]

    async def _apply_all(
        self, plan_next: Callable[[], Awaitable[Plan | None]]
    ) -> AsyncIterator[tuple[Outcome, ...]]:
        """Commit in batches, each read while the store is busy with the one before."""
        ahead = await plan_next()
        while ahead is not None:
            # What became of a commit must be told, whatever became of the next reading.
            ahead, outcomes = await _both(plan_next(), self.apply(ahead))
            yield outcomes

    async def _plan_sighted(self, batches: Iterator[list[Sighting]]) -> Plan | None:
        batch = next(batches, None)
        return None if batch is None else await self._commits.plan(batch)

    async def _plan_next(self, paths: Iterator[str]) -> Plan | None:
        observed = await asyncio.to_thread(self._read_some, paths)
        return await self._commits.plan_read(observed) if observed else None

    def _read_some(self, paths: Iterator[str]) -> list[Observation]:
        """Read until a transaction is full. One thread: more of them only wait for each other."""
        observed: list[Observation] = []
        size = 0
        while len(observed) < INDEX_BATCH_FILES_MAX and size < INDEX_BATCH_BYTES_MAX:
            next_ones = islice(paths, min(READ_TOGETHER, INDEX_BATCH_FILES_MAX - len(observed)))
            some = self._observing.read_at_once(next_ones, bytes_max=INDEX_BATCH_BYTES_MAX - size)
            if not some:
                break
            observed += some
            size += sum(each.file.char_count for each in some if each.file)
        return observed


async def _both(first: Awaitable[_T], second: Awaitable[_U]) -> tuple[_T, _U]:
    """Wait for both to end, whatever becomes of either; the second's error counts first."""
    one, other = await asyncio.gather(first, second, return_exceptions=True)
    for each in (other, one):
        if isinstance(each, BaseException):
            raise each
    return cast("tuple[_T, _U]", (one, other))


def _is_inside(sighting: Sighting) -> bool:
    unread = sighting.unread
    return isinstance(unread, Refused) and unread.refusal is Refusal.OUTSIDE


async def state_of(store: Store, version: Version, *, as_of: AsOf = LATEST) -> FileState:
    """Tell what can be shown of a stored file, by its history up to there if need be."""
    file = stored_file(version)
    if file.is_stub or file.content is not None:
        return file.state()
    page = await store.history(
        version.object_id, as_of=as_of, newest_first=True, limit=STATE_HISTORY_MAX
    )
    versions = (each.document for each in page.entries if each.document is not None)
    return file.state(earlier=(_as_file(version, each) for each in versions))


def _by_size(sightings: Sequence[Sighting]) -> Iterator[list[Sighting]]:
    batch: list[Sighting] = []
    size = 0
    for each in sightings:
        full = len(batch) >= INDEX_BATCH_FILES_MAX or size + each.size > INDEX_BATCH_BYTES_MAX
        if batch and full:
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += each.size
    if batch:
        yield batch


def _batched(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    source = iter(items)
    while batch := list(islice(source, size)):
        yield batch


def _as_file(version: Version, document: Document) -> File:
    return stored_file(replace(version, document=document))
