"""Delete sessions, restore them, and purge content for good. Reads the store, commits.

    deletion:{session}    the session is deleted: hidden from lists, and not resumed. A state, which
                          ``restore`` ends
    purge:{number}        the record of a purge: when, which sessions, how much, and whether it is
                          finished
    purged:{object}       which versions of an object were purged, with the hashes they had

A purge replaces the text of versions by ``[purged]``, physically. What is left is a valid document
with the same id and the same valid time, so everything that reads objects keeps working; prompts
that showed the old text can no longer be proven, and the records say why.

    a session             must be deleted, and no other session may continue it
    its files and calls   those that no other session has seen; the others are kept
    one object            must be unpinned, and seen by no other session

The records are committed before the text is removed: after a crash the purge is repeated. Only then
does the record say that it is finished; records of earlier versions do not say it, and count as
finished.
"""

from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from ctxmgr.core.append_only import OrderedIds
from ctxmgr.core.objects.chat import Chat
from ctxmgr.core.objects.codec import from_document, to_document
from ctxmgr.core.objects.compaction import COMPACTION
from ctxmgr.core.objects.envelope import (
    EXCHANGE,
    FILE,
    SESSION,
    SYSTEM_PROMPT,
    TOOLCALL,
    TURN,
    chat_id,
    exchange_id,
    session_object_id,
    system_prompt_id,
    turn_id,
)
from ctxmgr.core.objects.file import File
from ctxmgr.core.objects.purged import (
    DELETION,
    MARK,
    PURGE,
    PURGED,
    deletion_id,
    purge_id,
    purged_id,
    purges_of,
)
from ctxmgr.core.objects.session_record import SessionRecord, SystemPrompt
from ctxmgr.core.objects.toolcall import ToolCall
from ctxmgr.core.sessions.comments import COMMENT, comment_id
from ctxmgr.core.sessions.lineage import FORK
from ctxmgr.core.sessions.sets import Session
from ctxmgr.core.sessions.storage import (
    compaction_ids,
    exchange_count,
    proxied_ids,
    stored_sets,
)
from ctxmgr.core.sessions.titles import TITLE, title_id
from ctxmgr.core.store.canonical import canonical
from ctxmgr.core.store.contract import (
    PAGE_MAX,
    Delete,
    HistoryEntry,
    Operation,
    Put,
    Query,
    Store,
    Version,
)
from ctxmgr.core.store.documents import ID, KIND, Document
from ctxmgr.core.store.queries import batched
from ctxmgr.errors import Corrupt, Incorrect, NotFound

RECORDS_PER_COMMIT: Final = 500
"""Records of purged objects in one transaction."""

_FINISHED: Final = "finished"

RUN: Final = "run"
"""The kind of the document with a run's task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgePlan:
    """What a purge removes."""

    sessions: tuple[str, ...]
    documents: Mapping[tuple[str, int], Document] = field(repr=False)
    """Object and sequence → what replaces the document."""
    hashes: Mapping[str, tuple[Document, ...]] = field(repr=False)
    """File or tool call → of each version: its sequence, the hashes it has, and the object hash
    that will be left."""
    text_bytes: int
    """Of the documents that are replaced; versions may share what they store."""
    kept: tuple[str, ...] = field(repr=False)
    """Objects of the sessions that others have seen too."""


async def delete_session(store: Store, session_id: str) -> None:
    """Hide a session; ``NotFound`` if there is none. Deleting it again changes nothing."""
    if await store.get(session_object_id(session_id)) is None:
        raise NotFound(f"no session {session_id}; `ctxmgr sessions` lists them")
    if await store.get(deletion_id(session_id)) is None:
        document = {ID: deletion_id(session_id), KIND: DELETION, "session": session_id}
        await store.commit([Put(document)])


async def restore_session(store: Store, session_id: str) -> None:
    """Show a deleted session again; ``Incorrect`` if it was purged."""
    deletion = await store.get(deletion_id(session_id))
    if deletion is None:
        raise NotFound(f"session {session_id} is not deleted")
    if "purge" in deletion.document:
        raise Incorrect(
            f"session {session_id} was purged (purge {deletion.document['purge']}), and cannot be "
            "restored"
        )
    await store.commit([Delete(deletion_id(session_id))])


async def deleted_sessions(store: Store) -> dict[str, Version]:
    """Return the deleted sessions, by id; the valid time is that of the deletion."""
    return {
        str(version.document["session"]): version async for version in _all(store, Query(DELETION))
    }


async def plan_purge(
    store: Store,
    *,
    sessions: Collection[str] = (),
    objects: Mapping[str, int | None] = MappingProxyType({}),
) -> PurgePlan:
    """Plan a purge of deleted sessions and of single objects; ``Incorrect`` if it is refused.

    ``objects`` names files and tool calls, each with the sequence of one version, or None for all.
    """
    deleted = await deleted_sessions(store)
    for session_id in sessions:
        if session_id not in deleted:
            raise Incorrect(
                f"session {session_id} is not deleted: `ctxmgr sessions delete {session_id}` first"
            )
    await _refuse_continued(store, sessions)
    members, others = await _members(store, frozenset(sessions))
    _refuse_used(objects, others)
    used = frozenset().union(*(session.session_index for session in others))
    content = [object_id for object_id in members if object_id not in used]
    planning = _Planning(store)
    for object_id in content:
        await planning.add_content(object_id)
    for object_id, sequence in objects.items():
        await planning.add_content(object_id, sequence=sequence)
    for session_id in sessions:
        await planning.add_session(session_id)
    return PurgePlan(
        sessions=tuple(sessions),
        documents=planning.documents,
        hashes={object_id: tuple(rows) for object_id, rows in planning.hashes.items()},
        text_bytes=planning.text_bytes,
        kept=tuple(object_id for object_id in members if object_id in used),
    )


async def purge(store: Store, plan: PurgePlan) -> int:
    """Carry out a plan, and return the number of the purge."""
    numbers = [int(version.document["n"]) async for version in _all(store, Query(PURGE))]
    number = max(numbers, default=0) + 1
    record: Document = {
        ID: purge_id(number),
        KIND: PURGE,
        "n": number,
        "sessions": list(plan.sessions),
        "objects": len(plan.hashes),
        "versions": len(plan.documents),
        _FINISHED: False,
    }
    operations: list[Operation] = [Put(record)]
    for session_id in plan.sessions:
        document = {ID: deletion_id(session_id), KIND: DELETION, "session": session_id}
        operations.append(Put({**document, "purge": number}))
    for object_id, rows in plan.hashes.items():
        before = purges_of(await store.get(purged_id(object_id)))
        operations.append(
            Put(
                {
                    ID: purged_id(object_id),
                    KIND: PURGED,
                    "object": object_id,
                    "versions": [*before, *({**row, "purge": number} for row in rows)],
                }
            )
        )
    for batch in batched(operations, RECORDS_PER_COMMIT):
        await store.commit(batch)
    await store.rewrite(plan.documents)
    await store.commit([Put({**record, _FINISHED: True})])
    return number


async def interrupted_sessions(store: Store) -> list[str]:
    """Return the deleted sessions whose purge began and is not known to have finished."""
    unfinished = {
        record["n"] for record in await purge_records(store) if not record.get(_FINISHED, True)
    }
    deleted = await deleted_sessions(store)
    return [
        session_id
        for session_id, version in deleted.items()
        if version.document.get("purge") in unfinished
    ]


async def purge_records(store: Store) -> list[Document]:
    """Return the records of all purges, oldest first."""
    found = [version.document async for version in _all(store, Query(PURGE))]
    return sorted(found, key=lambda document: int(document["n"]))


async def _refuse_continued(store: Store, sessions: Collection[str]) -> None:
    for parent in sessions:
        async for version in _all(store, Query(FORK, where={"parent": parent})):
            child = str(version.document["session"])
            if child not in sessions:
                raise Incorrect(
                    f"session {child} was forked from {parent} and shows its turns: purge both, or "
                    "neither"
                )


async def _members(store: Store, sessions: frozenset[str]) -> tuple[dict[str, None], list[Session]]:
    """Return the objects of these sessions in their order, and the sets of all other sessions."""
    members: dict[str, None] = {}
    others: list[Session] = []
    async for version in _all(store, Query(SESSION), without=("session_index", "metadata_pool")):
        if not version.object_id.startswith(session_object_id("")):
            continue  # a document of that type under another object id is no session
        session = await _sets(store, version.object_id)
        if session.session_id in sessions:
            members.update(dict.fromkeys(session.session_index))
        else:
            others.append(session)
    return members, others


async def _sets(store: Store, object_id: str) -> Session:
    """Return the sets of a session; of a damaged one whatever it names, so that this is kept.

    One damaged record must not make it impossible to purge anything else.
    """
    try:
        stored = await stored_sets(store, object_id)
        assert stored is not None, "just found"
    except Corrupt:
        version = await store.get(object_id)
        document = {} if version is None else version.document
        pinned = _named(document, "pinned_set")
        named = {**_named(document, "session_index"), **_named(document, "metadata_pool"), **pinned}
        return Session(
            session_id=object_id.removeprefix(session_object_id("")),
            session_index=OrderedIds(named),
            metadata_pool=OrderedIds(named),
            pinned_set=OrderedIds(pinned),
        )
    return stored.session


def _named(document: Document, field_name: str) -> dict[str, None]:
    ids = document.get(field_name)
    named = ids if isinstance(ids, list | tuple) else ()
    return dict.fromkeys(each for each in named if isinstance(each, str))


def _refuse_used(objects: Iterable[str], others: Iterable[Session]) -> None:
    for object_id in objects:
        users = [session for session in others if object_id in session.session_index]
        pinned = next((user.session_id for user in users if object_id in user.pinned_set), None)
        if pinned is not None:
            raise Incorrect(f"{object_id} is pinned in session {pinned}: unpin it first")
        if len(users) > 1:
            names = ", ".join(user.session_id for user in users)
            raise Incorrect(f"{object_id} is in several sessions ({names}): purge those as well")


class _Planning:
    def __init__(self, store: Store) -> None:
        self._store = store
        self.documents: dict[tuple[str, int], Document] = {}
        self.hashes: dict[str, list[Document]] = {}
        self.text_bytes = 0

    async def add_content(self, object_id: str, *, sequence: int | None = None) -> None:
        """Add every version of a file or a tool call that has text, or one version."""
        found = False
        async for entry in _history(self._store, object_id):
            found = True
            if entry.document is None or sequence not in {None, entry.sequence}:
                continue
            purged = _without_text(entry.document)
            if purged is None:
                continue
            self._replace(entry, purged)
            names = ("object_hash", "content_hash", "file_hash")
            self.hashes.setdefault(object_id, []).append(
                {
                    "sequence": entry.sequence,
                    "left": purged["object_hash"],
                    **{name: entry.document[name] for name in names if name in entry.document},
                }
            )
        if not found:
            raise NotFound(f"{object_id} was never written")

    async def add_session(self, session_id: str) -> None:
        """Add the session's own documents: chat, sets, prompt, run, title, comments, records."""
        chat = await self._store.get(chat_id(session_id))
        turns = 0 if chat is None else len(chat.document["turns"])
        empty: dict[str, Document] = {
            chat_id(session_id): to_document(Chat(session_id=session_id)),
            session_object_id(session_id): to_document(SessionRecord(session_id=session_id)),
            system_prompt_id(session_id): to_document(
                SystemPrompt(session_id=session_id, content=MARK)
            ),
            f"{RUN}:{session_id}": {ID: f"{RUN}:{session_id}", KIND: RUN},
            title_id(session_id): {ID: title_id(session_id), KIND: TITLE, TITLE: MARK},
        }
        for n in range(1, turns + 1):
            object_id = turn_id(session_id, number=n)
            empty[object_id] = {ID: object_id, KIND: TURN, "session": session_id, "n": n}
            comment = comment_id(session_id, n)
            empty[comment] = {ID: comment, KIND: COMMENT, COMMENT: MARK}
        for object_id in await compaction_ids(self._store, session_id):
            number = int(object_id.rpartition(":")[2])
            own = {"session": session_id, "n": number}
            empty[object_id] = {ID: object_id, KIND: COMPACTION, **own}
        for n in range(1, await exchange_count(self._store, session_id) + 1):
            object_id = exchange_id(session_id, number=n)
            empty[object_id] = {ID: object_id, KIND: EXCHANGE, "session": session_id, "n": n}
        for object_id in await proxied_ids(self._store, session_id):
            empty[object_id] = {ID: object_id, KIND: object_id.partition(":")[0]}
        for object_id, document in empty.items():
            async for entry in _history(self._store, object_id):
                if entry.document is not None and entry.document != document:
                    self._replace(entry, document)

    def _replace(self, entry: HistoryEntry, document: Document) -> None:
        self.documents[entry.object_id, entry.sequence] = document
        self.text_bytes += len(canonical(entry.document)) - len(canonical(document))


def _without_text(document: Document) -> Document | None:
    """Return a version of a file or tool call without its text; None if it has none."""
    kind = document.get(KIND)
    if kind not in {FILE, TOOLCALL}:
        name = "a system prompt" if kind == SYSTEM_PROMPT else f"a {kind}"
        raise Incorrect(f"{document[ID]} is {name}; only files and tool calls can be purged alone")
    version = from_document(document)
    if isinstance(version, File):
        if version.content in {None, MARK}:
            return None
        return to_document(replace(version, content=MARK))
    assert isinstance(version, ToolCall)
    if version.content == MARK and not version.args:
        return None
    return to_document(replace(version, content=MARK, args={}, args_display=None))


async def _history(store: Store, object_id: str) -> AsyncIterator[HistoryEntry]:
    """Yield every version that was ever put, corrections included, each write once."""
    cursor, seen = None, set[int]()
    while True:
        page = await store.history(object_id, corrections=True, limit=PAGE_MAX, cursor=cursor)
        for entry in page.entries:
            if entry.sequence not in seen:
                seen.add(entry.sequence)
                yield entry
        cursor = page.cursor
        if cursor is None:
            return


async def _all(
    store: Store, query: Query, *, without: Collection[str] = ()
) -> AsyncIterator[Version]:
    cursor: Any = None
    while True:
        page = await store.find(query, without=without, limit=PAGE_MAX, cursor=cursor)
        for version in page.versions:
            yield version
        cursor = page.cursor
        if cursor is None:
            return
