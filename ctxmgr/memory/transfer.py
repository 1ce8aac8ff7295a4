"""Memories of a project into a memory file, and from a file into a project. Commits.

Exported is what the principal may see of its project; private memories only if they are asked for.

A file that is imported belongs to the principal from then on: its private memories become theirs,
all others are shared in their project, and each names the file it came from. Nothing that is stored
changes: an id that exists anywhere is skipped. Each batch is one transaction with the memories and
their use; contradictions and links follow, and only those with a memory of the file.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ctxmgr.core.store.canonical import canonical
from ctxmgr.core.store.contract import INSTANT_MAX, AsOf, Match, Put, Store
from ctxmgr.core.store.queries import batched
from ctxmgr.errors import Corrupt
from ctxmgr.memory.purging import is_purged
from ctxmgr.memory.records.contradiction import (
    CONTRADICTION,
    Contradiction,
    contradiction_id,
    stored_contradiction,
)
from ctxmgr.memory.records.levels import Levels
from ctxmgr.memory.records.link import LINK, MemoryLink, stored_link
from ctxmgr.memory.records.memory import Memory, Visibility, stored_id, stored_memory
from ctxmgr.memory.records.memory_file import MemoryFile
from ctxmgr.memory.records.usage import USAGE, MemoryUsage, stored_usage
from ctxmgr.memory.repository import MemoryRepository

IDS_AT_ONCE: Final = 500
"""Documents that are looked up, or pairs that are written, at once."""

BATCH_MEMORIES: Final = 250
"""Memories in one transaction, each with its use."""

BATCH_BYTES: Final = 8 * 1024**2
"""Bytes of the memories in one transaction, a quarter of what stores accept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedMemories:
    """A memory file."""

    data: bytes = field(repr=False)
    root: str
    memories: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedMemories:
    """What an import stored, or would store."""

    project_id: str
    """The project that the file was exported from."""
    root: str
    imported: int
    known: int
    """Memories that were skipped, because their ids are stored already."""
    contradictions: int
    links: int
    contradictions_found: int = 0
    """Contradictions with what was known here."""


async def exported_memories(repository: MemoryRepository, *, private: bool) -> MemoryFile:
    """Return what a principal may see of its project; its own private memories if asked."""
    project = repository.principal.project_id
    found = [
        memory
        async for memory in repository.all()
        if memory.project_id == project
        and not is_purged(memory)
        and (private or memory.visibility is not Visibility.USER_PRIVATE)
    ]
    for damaged in repository.damaged.values():
        if damaged.project_id == project:
            raise Corrupt(damaged.reason)
    by_id = {memory.id: memory for memory in found}
    usage: dict[str, MemoryUsage] = {}
    for part in batched(by_id, IDS_AT_ONCE):
        usage |= await repository.usage(part)
    return MemoryFile(
        project_id=project,
        memories=tuple(_without_others(memory, by_id) for memory in found),
        usage=tuple(
            each for each in usage.values() if each != MemoryUsage(memory_id=each.memory_id)
        ),
        contradictions=tuple(
            pair
            for pair in await repository.contradictions(only_open=False)
            if _is_about(pair, by_id)
        ),
        links=tuple(
            link
            for link in await repository.links()
            if link.memory_a in by_id and link.memory_b in by_id
        ),
    )


async def import_memories(
    store: Store,
    repository: MemoryRepository,
    file: MemoryFile,
    *,
    root: str,
    levels: Callable[[Memory], Levels],
    dry_run: bool,
) -> ImportedMemories:
    """Store the memories of a checked file that are not stored yet.

    ``levels`` returns the lengths of a memory, none longer than the one before.
    """
    here = await _known_here(repository, [memory.id for memory in file.memories])
    known = await _stored(store, [stored_id(memory.id) for memory in file.memories])
    new_ids = {each.id for each in file.memories if stored_id(each.id) not in known}
    from_file = new_ids | {each.id for each in here.values() if each.imported_from == root}
    new = [
        replace(
            memory,
            levels=levels(memory),
            visibility=_visibility(memory),
            user_id=repository.principal.user_id,
            project_id=repository.principal.project_id,
            supersedes=tuple(each for each in memory.supersedes if each in from_file),
            imported_from=root,
        )
        for memory in file.memories
        if memory.id in new_ids
    ]
    after = {memory.id: memory for memory in (*here.values(), *new)}
    pairs = await _new_pairs(store, file.contradictions, after, root=root)
    links = await _new_links(store, file.links, after, root=root)
    if not dry_run:
        used = {usage.memory_id: usage for usage in file.usage}
        for batch in _batches(new):
            await store.commit(await _writes(store, batch, used))
        documents = [*map(stored_contradiction, pairs), *map(stored_link, links)]
        for part in batched(documents, IDS_AT_ONCE):
            await store.commit(
                operation
                for document in part
                for operation in (Match(document["xt/id"], None), Put(document))
            )
    return ImportedMemories(
        project_id=file.project_id,
        root=root,
        imported=len(new),
        known=len(file.memories) - len(new),
        contradictions=len(pairs),
        links=len(links),
    )


def _without_others(memory: Memory, exported: dict[str, Memory]) -> Memory:
    """Return a memory that names only memories of the same file."""
    successor = memory.superseded_by
    return replace(
        memory,
        supersedes=tuple(each for each in memory.supersedes if each in exported),
        superseded_by=successor if successor in exported else None,
    )


def _is_about(pair: Contradiction, memories: dict[str, Memory]) -> bool:
    """Whether a pair is about two memories as they are, not as they were before an edit."""
    one, other = memories.get(pair.memory_a), memories.get(pair.memory_b)
    return one is not None and other is not None and contradiction_id(one, other) == pair.id


def _visibility(memory: Memory) -> Visibility:
    private = memory.visibility is Visibility.USER_PRIVATE
    return Visibility.USER_PRIVATE if private else Visibility.PROJECT_SHARED


async def _new_pairs(
    store: Store, pairs: Sequence[Contradiction], memories: dict[str, Memory], *, root: str
) -> list[Contradiction]:
    known = await _stored(store, [f"{CONTRADICTION}:{pair.id}" for pair in pairs])
    return [
        pair
        for pair in pairs
        if f"{CONTRADICTION}:{pair.id}" not in known
        and _is_about(pair, memories)
        and _is_from_file(pair, memories, root)
    ]


async def _new_links(
    store: Store, links: Sequence[MemoryLink], memories: dict[str, Memory], *, root: str
) -> list[MemoryLink]:
    known = await _stored(store, [f"{LINK}:{link.id}" for link in links])
    return [
        link
        for link in links
        if f"{LINK}:{link.id}" not in known and _is_from_file(link, memories, root)
    ]


def _is_from_file(pair: Contradiction | MemoryLink, memories: dict[str, Memory], root: str) -> bool:
    """Whether both memories are in this project, and one of them came from the file.

    A file must not settle anything between two memories that were known here.
    """
    ends = [memories.get(pair.memory_a), memories.get(pair.memory_b)]
    found = [memory for memory in ends if memory is not None]
    from_file = any(memory.imported_from == root for memory in found)
    return from_file and len(found) == len(ends)


async def _known_here(repository: MemoryRepository, ids: Iterable[str]) -> dict[str, Memory]:
    """Return those of some memories that the principal may see in its project."""
    found: dict[str, Memory] = {}
    for part in batched(ids, IDS_AT_ONCE):
        found |= await repository.seen(part)
    project = repository.principal.project_id
    return {each.id: each for each in found.values() if each.project_id == project}


async def _stored(store: Store, ids: Iterable[str]) -> set[str]:
    """Return which ids are stored, for any principal, also if they become valid later."""
    found: set[str] = set()
    for part in batched(ids, IDS_AT_ONCE):
        found.update(await store.get_many(part, as_of=AsOf(valid_time=INSTANT_MAX)))
    return found


async def _writes(
    store: Store, memories: Sequence[Memory], used: dict[str, MemoryUsage]
) -> list[Match | Put]:
    counted = await _stored(store, [f"{USAGE}:{memory.id}" for memory in memories])
    operations: list[Match | Put] = []
    for memory in memories:
        document = stored_memory(memory)
        put = Put(document, valid_from=memory.valid_from)
        operations += [Match(stored_id(memory.id), None), put]
        usage_id = f"{USAGE}:{memory.id}"
        if memory.id in used and usage_id not in counted:
            operations += [Match(usage_id, None), Put(stored_usage(used[memory.id]))]
    return operations


def _batches(memories: Sequence[Memory]) -> Iterator[list[Memory]]:
    batch: list[Memory] = []
    size = 0
    for memory in memories:
        own = len(canonical(stored_memory(memory)))
        if batch and (len(batch) == BATCH_MEMORIES or size + own > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(memory)
        size += own
    if batch:
        yield batch
