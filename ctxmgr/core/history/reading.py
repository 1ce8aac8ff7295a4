"""Read from the store what past prompts were made of. Reads the store.

    chat       once
    records    of the requested turns, and the earlier ones that they continue, in batches
    versions   every version that was shown, once; content only of what was shown in full

Versions are read as they are now. Those that have changed since are looked up by their hash in the
history of their object: in an imported session the recorded sequences do not apply.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, takewhile
from typing import TYPE_CHECKING, Final

from ctxmgr.core.context.assembly import Context
from ctxmgr.core.economy.records import EconomyRecord
from ctxmgr.core.history.shown_versions import PromptVersion, Versions
from ctxmgr.core.history.turn_records import ShownReader, ShownVersion, TurnRecord
from ctxmgr.core.objects.answers import AnswerCall, CallRef, answer_parts
from ctxmgr.core.objects.chat import Chat, Turn, read_turns
from ctxmgr.core.objects.codec import from_document
from ctxmgr.core.objects.envelope import chat_id, read_list, system_prompt_id, turn_id
from ctxmgr.core.objects.purged import purged_id, purges_of
from ctxmgr.core.sessions.lineage import lineage, owner
from ctxmgr.core.store.contract import Instant, Store, Version
from ctxmgr.core.store.documents import Document
from ctxmgr.core.store.queries import batched
from ctxmgr.errors import Corrupt, Incorrect, NotFound

if TYPE_CHECKING:  # a session that is resumed reads a record, and builds no past prompt
    from ctxmgr.core.history.prompt_rows import Count, Prompt

BATCH: Final = 500
"""Records or versions in one read."""

_OF_CHATS: Final = ("turns", "toolcall_refs")
"""The fields of a chat that grow."""

_WHAT_WAS_SHOWN: Final = ("shown", "active", "activations", "section_hashes")

HISTORIES_AT_ONCE: Final = 8
HISTORY_PAGE: Final = 100
"""Versions of one object in one read, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstTurns:
    """The first turns of a chat.

    They are not verified, as a whole chat is: what a prompt shows of them is proven by its record.
    """

    session_id: str
    turns: tuple[Turn, ...] = field(repr=False)

    @property
    def toolcall_refs(self) -> tuple[str, ...]:
        """The ids of all their tool calls, in order."""
        return tuple(chain.from_iterable(turn.toolcall_ids for turn in self.turns))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPrompts:
    """Everything that consecutive prompts of a session are built from."""

    chat: Chat | FirstTurns = field(repr=False)
    first: int
    """The turn of the first prompt."""
    records: tuple[TurnRecord, ...] = field(repr=False)
    """Up to the last prompt; before the first, the records that it continues."""
    valid_times: Mapping[int, Instant] = field(repr=False)
    """Turn → when its record was stored."""
    versions: Versions = field(repr=False)

    def prompts(self, *, count: "Count") -> "Iterator[tuple[TurnRecord, Prompt]]":
        """Build the prompts one after the other. CPU-bound; reads nothing."""
        from ctxmgr.core.history.rebuild import PromptWalk  # noqa: PLC0415 (as above)

        walk = PromptWalk(self.chat.turns, self.versions, count=count)
        for record in self.records:
            walk.join(record)
            if record.n >= self.first:
                yield record, walk.build()

    def last_context(self) -> Context:
        """Build the last prompt as the context it was rendered from. CPU-bound; reads nothing."""
        from ctxmgr.core.history.rebuild import PromptWalk  # noqa: PLC0415 (as above)

        walk = PromptWalk(self.chat.turns, self.versions, count=len)  # its sizes are not used
        for record in self.records:
            walk.join(record)
        return walk.context()


async def read_chat(store: Store, session_id: str) -> Chat:
    """Return a session's chat, decoded in a thread: a long one would block the event loop."""
    version = await store.get(chat_id(session_id))
    if version is None:
        raise NotFound(f"there is no session {session_id}")
    chat = await asyncio.to_thread(from_document, version.document)
    assert isinstance(chat, Chat)
    return chat


async def is_stored(store: Store, session_id: str) -> bool:
    """Whether a session exists; its chat is not read."""
    return bool(await store.get_many((chat_id(session_id),), without=_OF_CHATS))


async def stored_answers(store: Store, session_id: str) -> list[list[Document]]:
    """Return the parts of every answer in a session's chat; ``NotFound`` if there is none.

    Their form is checked, but they are not verified, as ``Client.resume`` verifies them.
    """
    version = await store.get(chat_id(session_id))
    if version is None:
        raise NotFound(f"there is no session {session_id}")
    try:
        answers = [turn["assistant"] for turn in version.document["turns"]]
        are_parts = {*map(type, chain.from_iterable(answers))} <= {dict}
    except (KeyError, TypeError):
        are_parts = False
    if not are_parts:
        raise Corrupt(f"{chat_id(session_id)}: the answers of its turns are not lists of parts")
    return answers


async def read_turns_until(store: Store, session_id: str, *, turn: int) -> FirstTurns:
    """Return the turns of a session's chat up to a turn."""
    version = await store.get(chat_id(session_id))
    if version is None:
        raise NotFound(f"there is no session {session_id}")
    return await asyncio.to_thread(_first_turns, version.document, session_id, max(turn, 0))


def _first_turns(document: Document, session_id: str, count: int) -> FirstTurns:
    try:
        values = read_list("turns", document.get("turns"))
        return FirstTurns(session_id=session_id, turns=read_turns(list(values[:count])))
    except Incorrect as error:
        raise Corrupt(f"{chat_id(session_id)}: {error}") from error


async def read_prompts(
    store: Store, chat: Chat | FirstTurns, *, first: int, last: int
) -> ReadPrompts:
    """Read what the prompts of some turns are built from; before a fork they are the parent's."""
    ancestors = await lineage(store, chat.session_id)
    ids = [turn_id(owner(ancestors, n), number=n) for n in range(1, last + 1)]
    read = await _read_records(store, ids[first - 1 : first])
    start = read[first].record.snapshot
    read |= await _read_records(store, [*ids[start - 1 : first - 1], *ids[first:]])
    records = tuple(read[n].record for n in range(start, last + 1))
    needed = await asyncio.to_thread(_needed, records, chat, first)
    return ReadPrompts(
        chat=chat,
        first=first,
        records=records,
        valid_times={record.n: read[record.n].valid_time for record in records},
        versions=await _read_versions(store, needed),
    )


async def read_economy(store: Store, session_id: str, *, turn: int) -> EconomyRecord | None:
    """Return what decided the economy prompt of a turn; before a fork it is the parent's.

    None: the turn has no record, or its prompt was a plain one.
    """
    version = await store.get(turn_id(session_id, number=turn)) if turn else None
    if version is None and turn:
        parent = owner(await lineage(store, session_id), turn)
        version = await store.get(turn_id(parent, number=turn))
    last = None if version is None else TurnRecord.from_document(version.document)
    if last is None or last.policy is None:
        return None
    # The lists of what was shown are long, and not needed here.
    records = await store.get_many(last.needed(), without=_WHAT_WAS_SHOWN)
    if len(records) < len(last.needed()):
        raise Corrupt(f"{last.object_id}: a record that it continues is missing")
    policies = [version.document.get("policy") for version in reversed(records.values())]
    # The first economy record after a plain one lists everything again.
    unbroken = list(takewhile(lambda policy: policy is not None, policies))
    return EconomyRecord.joined(policy for policy in reversed(unbroken) if policy is not None)


async def with_handle(store: Store, session_id: str, handle: str) -> str | None:
    """Return the object that has a handle in a session's last prompt, or in the answer to it.

    They are numbered as ``held_turn`` numbers them. None if that prompt was not an economy one.
    """
    chat = await read_chat(store, session_id)
    record = await read_economy(store, session_id, turn=chat.turn_count)
    if record is None:
        return None
    handles: dict[str, str] = {}
    for number, turn in enumerate(chat.turns, start=1):
        notices = record.notices.get(number, ())
        handles.update((notice.handle, notice.object_id) for notice in notices)
        calls = {
            object_id: CallRef(object_id=object_id, tool="", status="ok")
            for object_id in turn.toolcall_ids
        }
        for part in answer_parts(turn, calls=calls):
            if isinstance(part, AnswerCall):
                handles[f"#{len(handles) + 1}"] = part.ref.object_id
    return handles.get(handle)


async def read_version(store: Store, shown: ShownVersion) -> PromptVersion:
    """Return a version that a prompt showed, with its content."""
    object_id, hashed = shown.object_id, shown.object_hash
    needed = _Needed({object_id: {hashed}}, {object_id})
    return (await _read_versions(store, needed))[object_id, hashed]


@dataclass(frozen=True, slots=True)
class _ReadRecord:
    record: TurnRecord
    valid_time: Instant


@dataclass(frozen=True, slots=True)
class _Needed:
    hashes: dict[str, set[str]]
    """Object → the hashes of its versions that were shown."""
    in_full: set[str]
    """Objects whose content is needed too."""


async def _read_records(store: Store, ids: Sequence[str]) -> dict[int, _ReadRecord]:
    read: dict[int, _ReadRecord] = {}
    shown = ShownReader()
    for batch in batched(ids, BATCH):
        versions = await store.get_many(batch)
        missing = next((object_id for object_id in batch if object_id not in versions), None)
        if missing is not None:
            raise NotFound(f"there is no record {missing}")
        read |= await asyncio.to_thread(_records, versions.values(), shown)
    return read


def _records(versions: Iterable[Version], shown: ShownReader) -> dict[int, _ReadRecord]:
    read = {}
    for version in versions:
        record = TurnRecord.from_document(version.document, shown=shown)
        read[record.n] = _ReadRecord(record, version.valid_time)
    return read


def _needed(records: Sequence[TurnRecord], chat: Chat | FirstTurns, first: int) -> _Needed:
    built = [record for record in records if record.n >= first]
    plain = [record for record in built if record.policy is None]
    sessions = {record.session for record in records}
    in_full = set(map(system_prompt_id, sessions))
    if len(plain) < len(built):
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
    versions: dict[tuple[str, str], PromptVersion] = {}
    in_full = [object_id for object_id in needed.hashes if object_id in needed.in_full]
    as_lines = [object_id for object_id in needed.hashes if object_id not in needed.in_full]
    for ids, without in ((in_full, ()), (as_lines, ("content",))):
        for batch in batched(ids, BATCH):
            current = await store.get_many(batch, without=without)
            versions |= await asyncio.to_thread(_versions, current.values())
    missing = {
        object_id: lacking
        for object_id, hashes in needed.hashes.items()
        if (lacking := {hash_ for hash_ in hashes if (object_id, hash_) not in versions})
    }
    for batch in batched(missing, HISTORIES_AT_ONCE):
        searches = [_from_history(store, object_id, missing[object_id]) for object_id in batch]
        for earlier in await asyncio.gather(*searches):
            versions |= {
                key: version if key[0] in needed.in_full else replace(version, content=None)
                for key, version in earlier.items()
            }
    return versions


def _versions(stored: Iterable[Version]) -> dict[tuple[str, str], PromptVersion]:
    read = (PromptVersion.from_document(version.document) for version in stored)
    return {(version.object_id, version.object_hash): version for version in read}


async def _from_history(
    store: Store, object_id: str, hashes: set[str]
) -> dict[tuple[str, str], PromptVersion]:
    """Find earlier versions of an object by their hashes."""
    versions: dict[tuple[str, str], PromptVersion] = {}
    missing, cursor = set(hashes), None
    stored: dict[int, Document] = {}
    while True:
        page = await store.history(
            object_id, corrections=True, newest_first=True, limit=HISTORY_PAGE, cursor=cursor
        )
        for entry in page.entries:
            if entry.document is not None:
                stored[entry.sequence] = entry.document
            if entry.document is not None and entry.document.get("object_hash") in missing:
                version = PromptVersion.from_document(entry.document)
                versions[object_id, version.object_hash] = version
                missing.remove(version.object_hash)
        cursor = page.cursor
        if not missing:
            return versions
        if cursor is None:
            purged = await _purged(store, object_id, missing, stored)
            if purged.keys() != {(object_id, hash_) for hash_ in missing}:
                raise Corrupt(f"{object_id}: the version {min(missing)} that was shown is missing")
            return versions | purged


async def _purged(
    store: Store, object_id: str, hashes: set[str], stored: Mapping[int, Document]
) -> dict[tuple[str, str], PromptVersion]:
    """Return what is left of versions that were purged, under the hashes that they had."""
    by_hash = {document.get("object_hash"): document for document in stored.values()}
    found: dict[tuple[str, str], PromptVersion] = {}
    for row in purges_of(await store.get(purged_id(object_id))):
        left = by_hash.get(row["left"]) if "left" in row else stored.get(row["sequence"])
        if row["object_hash"] in hashes and left is not None:
            found[object_id, row["object_hash"]] = replace(
                PromptVersion.from_document(left),
                object_hash=row["object_hash"],
                purge=row["purge"],
            )
    return found
