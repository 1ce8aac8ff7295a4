"""Memories, contradictions and usage as documents of the core store. Commits.

Every read is for a principal, and visibility is part of the query: private memories of the user,
shared ones of the project, and those of the system. Every change matches the version it was made
from: two writers at once, and one gets ``Conflict``.

A damaged document, or one of a later version, does not cost the others: where many are read it is
left out, with a warning, and named in ``damaged``. Whoever asks for it gets ``Corrupt``.
"""

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, TypeVar

from ctxmgr.core.store.contract import (
    LATEST,
    AsOf,
    HistoryEntry,
    Instant,
    Kind,
    Match,
    Order,
    Put,
    Query,
    Store,
    Version,
)
from ctxmgr.errors import Corrupt, Incorrect, NotFound
from ctxmgr.memory.extraction.refusals import RefusedBatch, read_refusals
from ctxmgr.memory.records.consolidation_run import RUN_KIND
from ctxmgr.memory.records.contradiction import (
    CONTRADICTION,
    CONTRADICTION_KIND,
    Contradiction,
    contradiction_id,
    read_contradiction,
    stored_contradiction,
)
from ctxmgr.memory.records.learning_kinds import (
    HABITS_KIND,
    LEARNING_KIND,
    POSITION_KIND,
    REFUSED,
    REFUSED_KIND,
    VERDICT_KIND,
)
from ctxmgr.memory.records.link import LINK, LINK_KIND, MemoryLink, read_link
from ctxmgr.memory.records.memory import (
    MEMORY,
    MEMORY_KIND,
    Author,
    Memory,
    Visibility,
    read_memory,
    stored_id,
    stored_memory,
)
from ctxmgr.memory.records.principal import Principal
from ctxmgr.memory.records.usage import USAGE, USAGE_KIND, MemoryUsage, read_usage, stored_usage

MEMORY_KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            MEMORY_KIND,
            CONTRADICTION_KIND,
            USAGE_KIND,
            LINK_KIND,
            RUN_KIND,
            LEARNING_KIND,
            POSITION_KIND,
            HABITS_KIND,
            REFUSED_KIND,
            VERDICT_KIND,
        )
    }
)
"""What a store must know to keep memories."""

PAGE: Final = 500
"""Documents that are read at once."""

VERSIONS_MAX: Final = 1_000
"""Versions of a memory that are listed, from the newest."""

BATCH: Final = 1_000
"""Documents that are written in one transaction."""

_REACH: Final = MappingProxyType(
    {Visibility.USER_PRIVATE: 0, Visibility.PROJECT_SHARED: 1, Visibility.SYSTEM: 2}
)
"""How many may see a memory, in order."""

PREFIX_CHARS_MIN: Final = 4
"""Characters of a shortened id."""

_log = logging.getLogger(__name__)

_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryVersion:
    """A memory as it was believed from a transaction on."""

    memory: Memory
    system_time: Instant
    sequence: int


@dataclass(frozen=True, slots=True)
class DamagedDocument:
    """A document that cannot be read."""

    reason: str
    project_id: object
    """What it says is its project; only memories do."""


class MemoryRepository:
    """The memories of one store that a principal may see."""

    def __init__(self, store: Store, principal: Principal, *, now: Callable[[], Instant]) -> None:
        self._store = store
        self.principal = principal
        self._now = now
        self.damaged: dict[str, DamagedDocument] = {}
        """What was left out since it cannot be read; of memories, those of the principal."""

    def readable(
        self, read: Callable[[Mapping[str, Any]], _Read], version: Version
    ) -> _Read | None:
        """Return what a document says; None, with a warning, if it is damaged."""
        try:
            found = read(version.document)
        except Corrupt as error:
            if version.object_id not in self.damaged:
                _log.warning("left out: %s", error)
            if _is_for(self.principal, version.document):
                project_id = version.document.get("project_id")
                self.damaged[version.object_id] = DamagedDocument(str(error), project_id)
            return None
        if self.damaged:
            self.damaged.pop(version.object_id, None)
        return found

    async def add(self, memory: Memory) -> None:
        """Store a new memory; ``Conflict`` if there is one with its id."""
        self._require_own(memory)
        await self._store.commit([Match(stored_id(memory.id), None), _put(memory)])

    async def get(self, memory_id: str, *, as_of: AsOf = LATEST) -> Memory:
        """Return a memory, forgotten ones included; ``NotFound`` if there is none to see."""
        return read_memory((await self._version(memory_id, as_of=as_of)).document)

    async def find_id(self, start: str, *, among: Callable[[Memory], bool] = lambda _: True) -> str:
        """Return the id that begins so; ``Incorrect`` if several do."""
        if len(start) < PREFIX_CHARS_MIN:
            raise Incorrect(f"{start!r:.80}: give at least {PREFIX_CHARS_MIN} characters of an id")
        found = [each.id async for each in self.all() if each.id.startswith(start) and among(each)]
        if not found:
            for object_id, document in self.damaged.items():
                if object_id.startswith(stored_id(start)):
                    raise Corrupt(document.reason)
            raise NotFound(f"there is no memory {start!r:.80}")
        if len(found) > 1:
            raise Incorrect(f"{len(found)} memories begin with {start!r:.80}; give more of the id")
        return found[0]

    async def all(self, *, as_of: AsOf = LATEST) -> AsyncIterator[Memory]:
        """Yield every memory that the principal may see, forgotten ones included."""
        async for memory, _ in self.versions(as_of=as_of):
            yield memory

    async def versions(self, *, as_of: AsOf = LATEST) -> AsyncIterator[tuple[Memory, str | None]]:
        """Yield every memory that the principal may see, with the token of its version."""
        found = set[str]()
        for query in self._queries():
            async for version in self.found(query, as_of=as_of):
                found.add(version.object_id)
                memory = self.readable(read_memory, version)
                if memory is not None and memory.visible_to(self.principal):
                    yield memory, version.token
        if as_of == LATEST:  # some may have been removed, or made readable, and not read since
            for object_id in self.damaged.keys() - found:
                if object_id.startswith(stored_id("")):
                    del self.damaged[object_id]

    async def valid(self, *, as_of: AsOf = LATEST) -> list[Memory]:
        """Return the memories that hold as of a point, oldest first."""
        instant = self._now() if as_of.valid_time is None else as_of.valid_time
        found = [each async for each in self.all(as_of=as_of) if each.is_valid_at(instant)]
        return sorted(found, key=lambda memory: (memory.created_at, memory.id))

    async def change(
        self,
        memory_id: str,
        change: Callable[[Memory], Memory],
        *,
        use: Callable[[MemoryUsage], MemoryUsage] | None = None,
    ) -> Memory:
        """Store what a function makes of a memory; ``Conflict`` if another writer was first.

        ``use`` changes its counters in the same transaction.
        """
        version = await self._version(memory_id)
        before = read_memory(version.document)
        after = change(before)
        self._require_own(after)
        if after == before:
            return before
        counted = [] if use is None else await self.counted({memory_id: use})
        await self._store.commit(
            [Match(stored_id(memory_id), version.token), _put(after), *counted]
        )
        return after

    async def supersede(
        self,
        old_ids: Sequence[str],
        new: Memory | str,
        *,
        resolved: Contradiction | None = None,
        because: str,
    ) -> Memory:
        """End some memories in favour of another one, as a person decided, in one transaction.

        The other one may be new.
        """
        now = self._now()
        operations: list[Match | Put] = []
        if isinstance(new, str):
            kept = await self._version(new)
            winner = read_memory(kept.document)
            operations.append(Match(stored_id(new), kept.token))
        else:
            winner = new
            operations.append(Match(stored_id(new.id), None))
        now_valid = winner.is_valid_at(max(now, winner.valid_from))
        if not now_valid:
            raise Incorrect(f"{winner.id} was forgotten and cannot take the place of another")
        winner = replace(winner, supersedes=tuple(dict.fromkeys((*winner.supersedes, *old_ids))))
        self._require_own(winner)
        operations.append(_put(winner))
        for old_id in old_ids:
            version = await self._version(old_id)
            old = read_memory(version.document)
            self._require_own(old)
            if _REACH[winner.visibility] < _REACH[old.visibility]:
                raise Incorrect(
                    f"{winner.id} is {winner.visibility} and cannot take the place of {old.id}, "
                    f"which is {old.visibility}: others would lose it"
                )
            ended = replace(
                old,
                valid_to=max(now, old.valid_from) if old.valid_to is None else old.valid_to,
                superseded_by=winner.id,
                ended_because=because,
                ended_by=Author.PERSON,
            )
            operations += [Match(stored_id(old_id), version.token), _put(ended)]
        if resolved is not None:
            operations += await self._resolved(resolved)
        await self._store.commit(operations)
        return winner

    async def is_shared(self, memory_id: str) -> bool:
        """Whether others than its user see a memory, or saw it until it was forgotten."""
        seen = await self.seen([memory_id])
        return any(each.visibility is not Visibility.USER_PRIVATE for each in seen.values())

    async def history(self, memory_id: str) -> list[MemoryVersion]:
        """Return every version of a memory in the order in which they were stored."""
        await self._version(memory_id)
        page = await self._store.history(
            stored_id(memory_id), corrections=True, newest_first=True, limit=VERSIONS_MAX
        )
        entries = sorted(page.entries, key=lambda entry: entry.sequence)
        return [version for entry in entries if (version := self._entry(entry)) is not None]

    async def usage(self, memory_ids: Iterable[str]) -> dict[str, MemoryUsage]:
        """Return the counters of memories; zeros for those that were never shown."""
        ids = list(memory_ids)
        found = await self._store.get_many([f"{USAGE}:{memory_id}" for memory_id in ids])
        usages = {memory_id: MemoryUsage(memory_id=memory_id) for memory_id in ids}
        for version in found.values():
            usage = self.readable(read_usage, version)
            if usage is not None:
                usages[usage.memory_id] = usage
        return usages

    async def count(self, changes: dict[str, Callable[[MemoryUsage], MemoryUsage]]) -> None:
        """Change the counters of memories; ``Conflict`` if another writer was first."""
        ids = list(changes)
        for start in range(0, len(ids), BATCH):
            part = {memory_id: changes[memory_id] for memory_id in ids[start : start + BATCH]}
            await self._store.commit(await self.counted(part))

    async def counted(
        self, changes: Mapping[str, Callable[[MemoryUsage], MemoryUsage]]
    ) -> list[Match | Put]:
        """Return the writes that change the counters of memories."""
        stored = await self._store.get_many([f"{USAGE}:{memory_id}" for memory_id in changes])
        operations: list[Match | Put] = []
        for memory_id, change in changes.items():
            version = stored.get(f"{USAGE}:{memory_id}")
            known = None if version is None else self.readable(read_usage, version)
            before = known or MemoryUsage(memory_id=memory_id)
            operations += [
                Match(f"{USAGE}:{memory_id}", None if version is None else version.token),
                Put(stored_usage(change(before))),
            ]
        return operations

    async def refused(self, *, limit: int) -> list[RefusedBatch]:
        """Return what sessions of the principal offered in vain, newest first."""
        user, project = self.principal.user_id, self.principal.project_id
        query = Query(
            REFUSED,
            {"user_id": user, "project_id": project},
            order=Order("refused_at", descending=True),
        )
        page = await self._store.find(query, limit=limit)
        return [read_refusals(version.document) for version in page.versions]

    async def contradictions(self, *, only_open: bool = True) -> list[Contradiction]:
        """Return contradictions between memories that the principal may see and that hold.

        Resolved ones are returned whatever became of their memories.
        """
        query = Query(CONTRADICTION, {"resolved_at": None} if only_open else {})
        pairs = [
            pair
            async for version in self.found(query)
            if (pair := self.readable(read_contradiction, version)) is not None
        ]
        memories = await self.seen(
            {each for pair in pairs for each in (pair.memory_a, pair.memory_b)}
        )
        now = self._now()
        return sorted(
            (
                pair
                for pair in pairs
                if pair.memory_a in memories
                and pair.memory_b in memories
                and (
                    not pair.is_open
                    or _still_disagree(memories[pair.memory_a], memories[pair.memory_b], pair, now)
                )
            ),
            key=lambda pair: (pair.detected_at, pair.id),
        )

    async def contradiction(self, contradiction_id: str) -> Contradiction:
        """Return a contradiction by its id or the start of it.

        ``NotFound`` if one of its memories cannot be seen.
        """
        stored = await self._store.get(f"{CONTRADICTION}:{contradiction_id}")
        if stored is None and len(contradiction_id) >= PREFIX_CHARS_MIN:
            pairs = await self.contradictions(only_open=False)
            begun = [pair for pair in pairs if pair.id.startswith(contradiction_id)]
            if len(begun) == 1:
                return begun[0]
        if stored is not None:
            pair = read_contradiction(stored.document)
            if len(await self.seen({pair.memory_a, pair.memory_b})) == len(
                {pair.memory_a, pair.memory_b}
            ):
                return pair
        raise NotFound(f"there is no contradiction {contradiction_id!r:.80}")

    async def report(self, pairs: Sequence[Contradiction]) -> list[Contradiction]:
        """Store contradictions that are not known yet; return those that were new."""
        ids = [f"{CONTRADICTION}:{pair.id}" for pair in pairs]
        known = await self._store.get_many(ids)
        new = [pair for pair in pairs if f"{CONTRADICTION}:{pair.id}" not in known]
        for start in range(0, len(new), BATCH // 2):
            part = new[start : start + BATCH // 2]
            await self._store.commit(
                operation
                for pair in part
                for operation in (
                    Match(f"{CONTRADICTION}:{pair.id}", None),
                    Put(stored_contradiction(pair)),
                )
            )
        return new

    async def links(self, memory_id: str | None = None) -> list[MemoryLink]:
        """Return the links of a memory, or all; only between memories that can be seen."""
        queries = [Query(LINK)]
        if memory_id is not None:
            queries = [Query(LINK, {side: memory_id}) for side in ("memory_a", "memory_b")]
        found = [
            link
            for query in queries
            async for version in self.found(query)
            if (link := self.readable(read_link, version)) is not None
        ]
        seen = await self.seen({each for link in found for each in (link.memory_a, link.memory_b)})
        return sorted(
            (link for link in found if link.memory_a in seen and link.memory_b in seen),
            key=lambda link: (-link.strength, link.id),
        )

    async def close(self, resolved: Contradiction) -> None:
        """Store how a contradiction was resolved."""
        await self._store.commit(await self._resolved(resolved))

    async def _resolved(self, resolved: Contradiction) -> list[Match | Put]:
        object_id = f"{CONTRADICTION}:{resolved.id}"
        version = await self._store.get(object_id)
        if version is None or not read_contradiction(version.document).is_open:
            raise Incorrect(f"the contradiction {resolved.id} is not open")
        return [Match(object_id, version.token), Put(stored_contradiction(resolved))]

    async def found(self, query: Query, *, as_of: AsOf = LATEST) -> AsyncIterator[Version]:
        """Yield all documents that a query finds, whoever may see them."""
        cursor, more = None, True
        while more:
            page = await self._store.find(query, as_of=as_of, limit=PAGE, cursor=cursor)
            for version in page.versions:
                yield version
            cursor, more = page.cursor, page.cursor is not None

    async def seen(self, memory_ids: Iterable[str]) -> dict[str, Memory]:
        """Return those of some memories that the principal may see, by id."""
        found = await self._store.get_many([stored_id(memory_id) for memory_id in memory_ids])
        memories = [self.readable(read_memory, version) for version in found.values()]
        return {each.id: each for each in memories if each and each.visible_to(self.principal)}

    async def _version(self, memory_id: str, *, as_of: AsOf = LATEST) -> Version:
        version = await self._store.get(stored_id(memory_id), as_of=as_of)
        if (
            version is None
            or version.document["type"] != MEMORY
            or not read_memory(version.document).visible_to(self.principal)
        ):
            raise NotFound(f"there is no memory {memory_id!r:.80}")
        return version

    def _entry(self, entry: HistoryEntry) -> MemoryVersion | None:
        if entry.document is None:
            return None
        memory = read_memory(entry.document)
        if not memory.visible_to(self.principal):
            return None
        return MemoryVersion(memory=memory, system_time=entry.system_time, sequence=entry.sequence)

    def _require_own(self, memory: Memory) -> None:
        """Raise unless the principal may write a memory: to others it would be out of reach."""
        if memory.visibility is Visibility.USER_PRIVATE:
            own = memory.user_id == self.principal.user_id
        else:
            own = memory.project_id == self.principal.project_id
        if not own:
            raise NotFound(
                f"there is no memory {memory.id} that {self.principal.user_id} may change"
            )

    def _queries(self) -> tuple[Query, ...]:
        user, project = self.principal.user_id, self.principal.project_id
        return (
            Query(MEMORY, {"visibility": str(Visibility.USER_PRIVATE), "user_id": user}),
            Query(MEMORY, {"visibility": str(Visibility.PROJECT_SHARED), "project_id": project}),
            Query(MEMORY, {"visibility": str(Visibility.SYSTEM)}),
        )


def _is_for(principal: Principal, document: Mapping[str, Any]) -> bool:
    """Whether a principal may see a document that cannot be read, as far as it says."""
    if document.get("type") != MEMORY:
        return True
    match document.get("visibility"):
        case Visibility.USER_PRIVATE:
            return document.get("user_id") == principal.user_id
        case Visibility.PROJECT_SHARED:
            return document.get("project_id") == principal.project_id
        case visibility:
            return visibility == Visibility.SYSTEM


def _put(memory: Memory) -> Put:
    return Put(stored_memory(memory), valid_from=memory.valid_from)


def _still_disagree(one: Memory, other: Memory, pair: Contradiction, now: Instant) -> bool:
    """Whether both hold, and say what they said when the pair was reported."""
    both_hold = one.is_valid_at(now) and other.is_valid_at(now)
    return both_hold and contradiction_id(one, other) == pair.id


def wider(one: Visibility, other: Visibility) -> Visibility:
    """Return the visibility of the two that lets more people see."""
    return max(one, other, key=_REACH.__getitem__)
