"""What a purge of a memory replaces: all versions of its text, and what quotes it. Reads.

    stays    id, type, kind, owner, times, origin, and what took its place
    goes     the body, all lengths, tags and the reason of its end
             reasons of its contradictions and links, and of a model's verdicts

Only a forgotten memory is purged, by its own user, and only if no contradiction about it is open
that this user can resolve.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ctxmgr.core.objects.purged import MARK
from ctxmgr.core.store.canonical import canonical
from ctxmgr.core.store.contract import PAGE_MAX, HistoryEntry, Query, Store
from ctxmgr.errors import Incorrect
from ctxmgr.memory.records.bodies import Body, Episode, Fact, Pattern, Workflow
from ctxmgr.memory.records.contradiction import CONTRADICTION, read_contradiction
from ctxmgr.memory.records.learning_kinds import VERDICT
from ctxmgr.memory.records.levels import Levels
from ctxmgr.memory.records.link import LINK
from ctxmgr.memory.records.memory import Memory, read_memory, stored_id, stored_memory
from ctxmgr.memory.repository import MemoryRepository


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPurge:
    """What a purge of a memory replaces."""

    documents: Mapping[tuple[str, int], dict[str, Any]] = field(repr=False)
    """Object and sequence → what replaces the document."""
    hashes: tuple[dict[str, Any], ...] = field(repr=False)
    """Of each version of the memory: its sequence, the hash of its content, and of what is left."""
    text_bytes: int


def is_purged(memory: Memory) -> bool:
    """Whether only the record of a memory is left."""
    return memory.levels.full == MARK and memory.body == _empty(memory.body)


async def plan_memory_purge(
    store: Store, repository: MemoryRepository, memory: Memory
) -> MemoryPurge:
    """Plan the purge of a memory; ``Incorrect`` if it is refused."""
    if memory.valid_to is None:
        raise Incorrect(f"{memory.id} is not forgotten: `ctxmgr memory forget {memory.id}` first")
    pairs = await _naming(store, CONTRADICTION, memory.id)
    for pair in map(read_contradiction, pairs.values()):
        both = {pair.memory_a, pair.memory_b}
        if pair.is_open and both == (await repository.seen(both)).keys():
            raise Incorrect(f"the contradiction {pair.id} about {memory.id} is open: resolve it")
    verdicts = [f"{VERDICT}:{object_id.partition(':')[2]}" for object_id in pairs]
    links = await _naming(store, LINK, memory.id)
    documents: dict[tuple[str, int], dict[str, Any]] = {}
    hashes: list[dict[str, Any]] = []
    text_bytes = 0
    for object_id in (stored_id(memory.id), *pairs, *verdicts, *links):
        async for entry in _history(store, object_id):
            before = entry.document
            after = None if before is None else _without_text(before)
            if before is None or after is None or after == before:
                continue
            documents[object_id, entry.sequence] = after
            text_bytes += len(canonical(before)) - len(canonical(after))
            if object_id == stored_id(memory.id):
                had, left = read_memory(before).content_hash, read_memory(after).content_hash
                row = {"sequence": entry.sequence, "content_hash": had, "left": left}
                hashes.append(row)
    return MemoryPurge(documents=documents, hashes=tuple(hashes), text_bytes=text_bytes)


def _without_text(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document of a memory, contradiction, verdict or link without what was said."""
    if "memory_type" in document:
        return stored_memory(_purged(read_memory(document)))
    quoting = ("reason", "resolution_note")
    said = {name: MARK for name in quoting if document.get(name) is not None}
    return {**document, **said}


def _purged(memory: Memory) -> Memory:
    return replace(
        memory,
        body=_empty(memory.body),
        levels=Levels(full=MARK, summary=MARK, compressed=MARK, index=MARK),
        tags=(),
        ended_because=None if memory.ended_because is None else MARK,
    )


def _empty(body: Body) -> Body:
    match body:
        case Fact():
            return Fact(key=MARK, value=MARK)
        case Episode():
            return Episode(title=MARK, full_narrative=MARK)
        case Pattern():
            return Pattern(name=MARK, trigger=MARK, template={MARK: MARK}, hint=MARK)
        case Workflow():
            return Workflow(name=MARK, trigger=MARK, steps=(MARK,), hint=MARK)


async def _naming(store: Store, kind: str, memory_id: str) -> dict[str, dict[str, Any]]:
    """Return the documents of a kind that name a memory, by id."""
    found: dict[str, dict[str, Any]] = {}
    for side in ("memory_a", "memory_b"):
        cursor, more = None, True
        while more:
            query = Query(kind, {side: memory_id})
            page = await store.find(query, limit=PAGE_MAX, cursor=cursor)
            found |= {version.object_id: version.document for version in page.versions}
            cursor, more = page.cursor, page.cursor is not None
    return found


async def _history(store: Store, object_id: str) -> AsyncIterator[HistoryEntry]:
    """Yield every version that was ever put, corrections included, each write once."""
    seen: set[int] = set()
    cursor, more = None, True
    while more:
        page = await store.history(object_id, corrections=True, limit=PAGE_MAX, cursor=cursor)
        for entry in page.entries:
            if entry.sequence not in seen:
                seen.add(entry.sequence)
                yield entry
        cursor, more = page.cursor, page.cursor is not None
