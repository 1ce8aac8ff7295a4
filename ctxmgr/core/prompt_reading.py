"""What the prompts of a stored session are made of, read once for all of them. Reads the store.

    chat       once
    records    of the turns asked for, and those before them that they continue, in batches
    versions   every one that is shown, once; content only of what is shown in full

Versions are read as they are now, and those that have changed since are looked for by their hash in
their object's history: in an imported session sequences mean nothing.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ctxmgr.core.envelopes import chat_id, system_prompt_id, turn_id
from ctxmgr.core.infrastructure import Chat
from ctxmgr.core.lineages import lineage, owner
from ctxmgr.core.objects import from_document
from ctxmgr.core.prompt_rows import Count, Prompt
from ctxmgr.core.prompt_walk import PromptWalk
from ctxmgr.core.seen_versions import SeenVersion, Versions
from ctxmgr.core.store import Instant, Store, Version
from ctxmgr.core.turns import ShownReader, TurnRecord
from ctxmgr.errors import Corrupt, NotFound

BATCH: Final = 500
"""Records or versions that are read at once."""

HISTORIES_AT_ONCE: Final = 8
HISTORY_PAGE: Final = 100
"""Versions of one object that are read at once, the newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPrompts:
    """All that some prompts in a row are made of."""

    chat: Chat = field(repr=False)
    first: int
    """The turn of the first prompt."""
    records: tuple[TurnRecord, ...] = field(repr=False)
    """Up to the last; before the first, those that it continues."""
    valid_times: Mapping[int, Instant] = field(repr=False)
    """Turn → when its record was stored."""
    versions: Versions = field(repr=False)

    def prompts(self, *, count: Count) -> Iterator[tuple[TurnRecord, Prompt]]:
        """Make the prompts one after the other; takes a while, and reads nothing."""
        walk = PromptWalk(self.chat.turns, self.versions, count=count)
        for record in self.records:
            walk.join(record)
            if record.n >= self.first:
                yield record, walk.make()


async def read_chat(store: Store, session_id: str) -> Chat:
    """Return a session's chat, which is read while others have their turns."""
    version = await store.get(chat_id(session_id))
    if version is None:
        raise NotFound(f"there is no session {session_id}")
    chat = await asyncio.to_thread(from_document, version.document)
    assert isinstance(chat, Chat)
    return chat


async def read_prompts(store: Store, chat: Chat, *, first: int, last: int) -> ReadPrompts:
    """Read what the prompts of some turns are made of; before a fork they are the parent's."""
    line = await lineage(store, chat.session_id)
    ids = [turn_id(owner(line, n), number=n) for n in range(1, last + 1)]
    known = await _read_records(store, ids[first - 1 : first])
    start = known[first].record.snapshot
    known |= await _read_records(store, [*ids[start - 1 : first - 1], *ids[first:]])
    read = [known[n] for n in range(start, last + 1)]
    records = tuple(each.record for each in read)
    needed = await asyncio.to_thread(_needed, records, chat, first)
    return ReadPrompts(
        chat=chat,
        first=first,
        records=records,
        valid_times={each.record.n: each.valid_time for each in read},
        versions=await _read_versions(store, needed),
    )


@dataclass(frozen=True, slots=True)
class _ReadRecord:
    record: TurnRecord
    valid_time: Instant


@dataclass(frozen=True, slots=True)
class _Needed:
    hashes: dict[str, set[str]]
    """Object → the versions of it that were shown."""
    in_full: set[str]
    """Objects whose content is needed too."""


async def _read_records(store: Store, ids: Sequence[str]) -> dict[int, _ReadRecord]:
    read: dict[int, _ReadRecord] = {}
    shown = ShownReader()
    for some in _batches(ids):
        found = await store.get_many(some)
        lost = next((each for each in some if each not in found), None)
        if lost is not None:
            raise NotFound(f"there is no record {lost}")
        read |= await asyncio.to_thread(_records, found.values(), shown)
    return read


def _records(versions: Iterable[Version], shown: ShownReader) -> dict[int, _ReadRecord]:
    read = {}
    for each in versions:
        record = TurnRecord.from_document(each.document, shown=shown)
        read[record.n] = _ReadRecord(record, each.valid_time)
    return read


def _needed(records: Sequence[TurnRecord], chat: Chat, first: int) -> _Needed:
    made = [each for each in records if each.n >= first]
    plain = [each for each in made if each.policy is None]
    sessions = {each.session for each in records}
    in_full = set(map(system_prompt_id, sessions))
    if len(plain) < len(made):
        in_full.update(chat.toolcall_refs)
    in_full.update(object_id for record in plain for object_id in record.active)
    chats, hashes = set(map(chat_id, sessions)), dict[str, set[str]]()
    for record in records:
        for shown in record.shown:
            needed = plain or shown.object_id in in_full
            if needed and shown.object_id not in chats:
                hashes.setdefault(shown.object_id, set()).add(shown.object_hash)
    return _Needed(hashes, in_full)


async def _read_versions(store: Store, needed: _Needed) -> Versions:
    versions: dict[tuple[str, str], SeenVersion] = {}
    full = [each for each in needed.hashes if each in needed.in_full]
    rest = [each for each in needed.hashes if each not in needed.in_full]
    for ids, without in ((full, ()), (rest, ("content",))):
        for some in _batches(ids):
            found = await store.get_many(some, without=without)
            versions |= await asyncio.to_thread(_versions, found.values())
    earlier = {
        object_id: {each for each in hashes if (object_id, each) not in versions}
        for object_id, hashes in needed.hashes.items()
    }
    changed = [object_id for object_id, hashes in earlier.items() if hashes]
    for some in _batches(changed, HISTORIES_AT_ONCE):
        pasts = [_from_history(store, each, earlier[each]) for each in some]
        for found_versions in await asyncio.gather(*pasts):
            versions |= {
                key: each if key[0] in needed.in_full else replace(each, content=None)
                for key, each in found_versions.items()
            }
    return versions


def _versions(found: Iterable[Version]) -> dict[tuple[str, str], SeenVersion]:
    read = (SeenVersion.from_document(each.document) for each in found)
    return {(each.object_id, each.object_hash): each for each in read}


async def _from_history(
    store: Store, object_id: str, hashes: set[str]
) -> dict[tuple[str, str], SeenVersion]:
    """Find earlier versions of an object by their hashes."""
    found: dict[tuple[str, str], SeenVersion] = {}
    cursor = None
    while True:
        page = await store.history(
            object_id, corrections=True, newest_first=True, limit=HISTORY_PAGE, cursor=cursor
        )
        documents = [each.document for each in page.entries if each.document is not None]
        for each in documents:
            if each.get("object_hash") in hashes:
                found[object_id, each["object_hash"]] = SeenVersion.from_document(each)
        lost, cursor = hashes - {each for _, each in found}, page.cursor
        if not lost:
            return found
        if cursor is None:
            raise Corrupt(f"{object_id}: the version {min(lost)} that was shown is missing")


def _batches(ids: Sequence[str], size: int = BATCH) -> Iterator[Sequence[str]]:
    for at in range(0, len(ids), size):
        yield ids[at : at + size]
