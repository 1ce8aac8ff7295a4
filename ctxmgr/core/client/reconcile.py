"""Compares the files of a resumed session with their sources. Reads the store and the disk.

    1  sets          from the session's document                       ``sessions.storage``
    2  objects       of the whole index, in a few batches
    3  sources       reachable: indexed again; unreachable: orphaned; gone: a version without text;
                     too large: a version that is unread
    4  tool calls    have no source, and do not change
    5  cache         filled with what is stored
    6  trackers      follow what is reachable

With ``eager=False`` the pool is read and active files are compared first; the rest, including the
session index, follows in the background.

A file that is out of reach because its folder is elsewhere now (``known_paths``) is relocated: the
file at its new place is another object, which is shown instead. Sets do not change otherwise.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import Final

from ctxmgr.core.client.known_paths import moved, named_folders, remounted
from ctxmgr.core.client.session_state import SessionState
from ctxmgr.core.files.mounts import FileLocation
from ctxmgr.core.files.outcomes import MissingFile
from ctxmgr.core.history.turn_records import ShownReader, TurnRecord, shown_at
from ctxmgr.core.objects.codec import from_document
from ctxmgr.core.objects.envelope import turn_id
from ctxmgr.core.objects.file import File, needs_history
from ctxmgr.core.objects.sources import FilesystemSource
from ctxmgr.core.store.contract import Version
from ctxmgr.core.store.queries import batched
from ctxmgr.core.tracking.index_plan import IndexOutcome, IndexResult
from ctxmgr.core.tracking.observation import Target
from ctxmgr.errors import Corrupt

READ_BATCH: Final = 500
"""Objects read at once before a prompt; while they are verified, the store reads the next."""

FIRST_BATCH: Final = 125
"""Objects in the first batch: small, so that verification starts early. The next is twice that."""

READS_AHEAD: Final = 3
"""Batches at a time: one that is verified, one that has been read, one that is being read."""

LAZY_BATCH: Final = 200
"""Objects compared at once in the background, while the session is locked."""

_NOWHERE: Final[Mapping[str, str]] = MappingProxyType({})

_log = logging.getLogger(__name__)


class Reconciliation:
    """The progress of comparing a resumed session's files with their sources."""

    def __init__(
        self,
        state: SessionState,
        *,
        upgrade_stubs: bool = False,
        track: Callable[[Iterable[File]], Awaitable[None]] | None = None,
        relocate: Mapping[str, str] = _NOWHERE,
    ) -> None:
        self._state = state
        self._track = track
        self._named = named_folders(relocate, state.runtime.files.mounts)
        self._elsewhere: list[File] = []
        """Files that may have another place now."""
        self._upgrade_stubs = upgrade_stubs
        self._task: asyncio.Task[None] | None = None
        self._compared: set[str] = set()
        self._recalled = False
        self.seen: int = 0
        """How many objects of the session index have been compared."""
        self.updated: list[str] = []
        """The ids of files that had changed or been deleted."""
        self.orphaned: list[str] = []
        """The ids of files that this client cannot reach; they keep their last version."""
        self.too_large: list[str] = []
        """The ids of files that are too large to be read; they are unread."""
        self.relocated: dict[str, str] = {}
        """The ids of files that are elsewhere now, with those of the files that replace them."""

    @property
    def total(self) -> int | None:
        """The size of the session index; None while it is being read."""
        session = self._state.session
        return len(session.session_index) if session.is_whole else None

    @property
    def done(self) -> bool:
        """Whether every object has been compared."""
        return self.total is not None and self.seen >= self.total

    async def begin(self, *, eager: bool) -> None:
        """Compare what the first prompt needs, or everything if ``eager``."""
        session = self._state.session
        if eager:
            async with aclosing(self._read(session.session_index)) as batches:
                async for versions in batches:
                    await self._compare(await self._learn(versions))
            await self._relocate_files()
            self.seen = len(self._state.session.session_index)
            return
        first = dict.fromkeys([*session.metadata_pool, *self._state.chat.toolcall_refs])
        async with aclosing(self._read(first)) as batches:
            async for versions in batches:
                files = await self._learn(versions)
                await self._compare(file for file in files if file.object_id in session.active_set)
        await self._relocate_files()

    def continue_in_background(self) -> None:
        """Compare the rest in the background."""
        self._task = asyncio.create_task(self._rest())

    async def wait(self) -> None:
        """Wait until every object has been compared; raises the error if that failed."""
        if self._task is not None:
            await asyncio.shield(self._task)

    async def stop(self) -> None:
        """Stop comparing in the background. What was stored remains valid."""
        if self._task is None:
            return
        self._task.cancel()
        (outcome,) = await asyncio.gather(self._task, return_exceptions=True)
        if isinstance(outcome, Exception):
            _log.warning("comparing files with their sources failed: %s", outcome)

    async def _rest(self) -> None:
        await self._state.read_index()
        for ids in batched(self._state.session.session_index, LAZY_BATCH):
            batch = tuple(ids)
            async with self._state.lock:  # versions read before a turn must not be cached after it
                versions = await self._state.runtime.store.get_many(batch)
                await self._compare(await self._learn(versions))
            self.seen += len(batch)
        async with self._state.lock:
            await self._relocate_files()
            self.seen = len(self._state.session.session_index)

    async def _read(self, ids: Iterable[str]) -> AsyncGenerator[Mapping[str, Version], None]:
        """Read many objects in batches, ahead of the caller."""
        store = self._state.runtime.store
        ahead: deque[asyncio.Task[dict[str, Version]]] = deque()
        try:
            for batch in _growing_batches(ids):
                ahead.append(asyncio.create_task(store.get_many(batch)))
                if len(ahead) == READS_AHEAD:
                    yield await ahead.popleft()
            while ahead:
                yield await ahead.popleft()
        finally:
            for task in ahead:
                task.cancel()
            await asyncio.gather(*ahead, return_exceptions=True)

    async def _learn(self, versions: Mapping[str, Version]) -> list[File]:
        """Cache the objects of the pool; return the files among all of them."""
        if any(needs_history(version.document) for version in versions.values()):
            await self._recall_states()
        state, pool = self._state, self._state.session.metadata_pool
        in_pool = [version for object_id, version in versions.items() if object_id in pool]
        files = await state.learn_versions(in_pool)
        for object_id, version in versions.items():
            if object_id not in pool:
                stored = from_document(version.document)
                files += [stored] if isinstance(stored, File) else []
        return files

    async def _recall_states(self) -> None:
        """Take the states of deleted and binary files from the last turn, which recorded them.

        That is two requests; XTDB has to be asked for the history of every other file by itself.
        """
        state, number = self._state, self._state.chat.turn_count
        if self._recalled or number == 0:
            return
        self._recalled = True
        store, states = state.runtime.store, state.runtime.indexing.states
        version = await store.get(turn_id(state.session.session_id, number=number))
        if version is None:
            return
        try:
            ids = TurnRecord.from_document(version.document).needed()
            stored = await store.get_many(ids)
            reader = ShownReader()
            records = [
                TurnRecord.from_document(record.document, shown=reader)
                for record in stored.values()
            ]
            for shown in shown_at(records).values():
                if shown.state is not None:
                    states.learn(shown.object_id, shown.object_hash, state=shown.state)
        except Corrupt as error:
            _log.warning("file states are read from histories instead of records: %s", error)

    async def _compare(self, files: Iterable[File]) -> None:
        files = [file for file in files if file.object_id not in self._compared]
        if not self._state.reads_files:
            self._compared.update(file.object_id for file in files)
            self.orphaned += (file.object_id for file in files if not file.is_stub)
            return
        named = self._named
        self._elsewhere += [
            file
            for file in files
            if self._state.runtime.reached_at(file) is None or moved(_source(file), named)
        ]
        # A file that was moved would be taken for deleted.
        await self._compare_here(file for file in files if not moved(_source(file), named))

    async def _compare_here(self, files: Iterable[File]) -> None:
        files = tuple(files)
        targets = [Target.of(file) for file in files]
        self._compared.update(target.object_id for target in targets)
        if self._track is not None:  # before comparing, so that no change in between is missed
            await self._track(files)
        indexing, stubs = self._state.runtime.indexing, self._upgrade_stubs
        async for batch in indexing.reconcile(targets, upgrade_stubs=stubs):
            for outcome in batch.outcomes:
                await self._state.learn_outcome(outcome)
                if outcome.result is not IndexResult.UNCHANGED:
                    self.updated.append(outcome.object_id)
                if outcome.is_too_large:
                    self.too_large.append(outcome.object_id)
                elif outcome.unread is not None and not isinstance(outcome.unread, MissingFile):
                    self.orphaned.append(outcome.object_id)

    async def _relocate_files(self) -> None:
        """Read files at their new places, and show what is there instead."""
        state, files = self._state, self._elsewhere
        if not files:
            return
        self._elsewhere = []
        mounts = state.runtime.files.mounts
        folders = (*self._named, *remounted(await state.known_paths(), mounts))
        places: dict[str, Target] = {}
        for file in files:
            source = moved(_source(file), folders)
            if source is not None:
                places[file.object_id] = Target.of(replace(file, source=source))
        found = await self._read_new(places.values())
        pairs = {
            old: target.object_id for old, target in places.items() if target.object_id in found
        }
        await self._compare_here(
            file
            for file in files
            if file.object_id not in pairs and file.object_id not in self._compared
        )
        if pairs:
            self.relocated |= pairs
            self.orphaned = [file for file in self.orphaned if file not in pairs]
            await state.relocate(pairs)
            if self._track is not None:
                await self._track([found[new] for new in pairs.values()])

    async def _read_new(self, targets: Iterable[Target]) -> dict[str, File]:
        """Index the files that exist, by id; one that was never read stays a stub."""
        runtime, found = self._state.runtime, dict[str, File]()
        stubs, known = [], []
        for target in targets:
            if target.is_stub and not self._upgrade_stubs:
                location = FileLocation(
                    filesystem_id=target.source.filesystem_id,
                    path=target.source.path,
                    on_host=True,
                )
                path = runtime.files.mounts.reached_at(location)
                stubs += [] if path is None else [path]
            else:
                known.append(replace(target, object_hash=None, is_stub=False))
        outcomes: list[IndexOutcome] = []
        for planned in await runtime.indexing.plan_discovery(stubs):
            outcomes += await runtime.indexing.apply(planned)
        async for batch in runtime.indexing.reconcile(known):
            outcomes += batch.outcomes
        for outcome in outcomes:
            if outcome.file is not None and outcome.unread is None:
                found[outcome.object_id] = outcome.file
        return found


def _source(file: File) -> FilesystemSource:
    assert isinstance(file.source, FilesystemSource), "the only source type there is"
    return file.source


def _growing_batches(ids: Iterable[str]) -> Iterable[list[str]]:
    source, size = iter(ids), min(FIRST_BATCH, READ_BATCH)
    while batch := list(islice(source, size)):
        yield batch
        size = min(2 * size, READ_BATCH)
