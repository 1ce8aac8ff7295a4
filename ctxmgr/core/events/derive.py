"""Derive events from a committed transaction. Pure.

    document        events
    session         SessionStarted, SetsChanged
    lifecycle       SessionPaused, SessionResumed
    toolcall        ToolCallCreated
    turn            TurnFinished, with the turn from the chat of the same transaction
    compaction      Compacted
    system_prompt   SystemPromptChanged
    file            FileDiscovered, FileIndexed, FileUpdated, FileDeleted

An event's id is the sequence of its transaction and its position among the transaction's events, in
the order of the writes. Files and sessions are compared with their previous versions, which the
caller reads (``compared``); everything else follows from the transaction alone.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from ctxmgr.core.events.events import (
    Compacted,
    Event,
    EventId,
    FileDeleted,
    FileDiscovered,
    FileEvent,
    FileIndexed,
    FileUpdated,
    SessionPaused,
    SessionResumed,
    SessionStarted,
    SetsChanged,
    SystemPromptChanged,
    ToolCallCreated,
    TurnFinished,
)
from ctxmgr.core.events.lifecycle import PAUSED
from ctxmgr.core.objects.envelope import CHAT, FILE, SESSION, chat_id
from ctxmgr.core.objects.file import NO_BYTES_HASH
from ctxmgr.core.objects.session_record import SETS
from ctxmgr.core.store.contract import Instant, Transaction
from ctxmgr.core.store.documents import ID, KIND, Document

Before: TypeAlias = Mapping[str, Document]
"""The versions that a transaction replaced, by id; without new objects."""

COMPACTED: Final = (
    "trigger",
    "range_start",
    "range_end",
    "tokens_before",
    "tokens_after",
    "summary",
)
"""The fields of a compaction that its event has."""

_NEEDED: Final = {
    "session": frozenset({"session_id", *SETS}),
    "lifecycle": frozenset({"session", "state"}),
    "toolcall": frozenset({"chat_ref", "tool", "status", "object_hash"}),
    "turn": frozenset({"session", "n", "prompt_hash"}),
    "compaction": frozenset({"session", "n", *COMPACTED}),
    "system_prompt": frozenset({"content"}),
    "file": frozenset({"source", "content", "file_hash", "object_hash"}),
}
"""The fields of each kind of document that events are derived from."""

_Derived: TypeAlias = tuple[type[Event], dict[str, Any]]
"""An event's class and fields, without id and time."""


def compared(transaction: Transaction) -> tuple[str, ...]:
    """Return the ids of the objects whose previous versions ``derive`` needs.

    Read them as of the sequence before the transaction.
    """
    documents = (write.document or {} for write in transaction.writes)
    return tuple(document[ID] for document in documents if document.get(KIND) in {FILE, SESSION})


def derive(transaction: Transaction, *, before: Before) -> tuple[Event, ...]:
    """Return the events of a transaction that was read with its documents.

    Documents that other programs store under the same kinds are ignored.
    """
    written = [(write, write.document) for write in transaction.writes if write.document]
    chats = {document[ID]: document for _, document in written if document[KIND] == CHAT}
    events: list[_Derived] = []
    for write, document in written:
        if _is_ours(document):
            previous = before.get(document[ID])
            previous = previous if _is_ours(previous) else None
            events += _events(document, write.valid_from, previous, chats)
    return tuple(
        event(
            id=EventId(transaction.sequence, position),
            system_time=transaction.system_time,
            **values,
        )
        for position, (event, values) in enumerate(events)
    )


def events_after(events: Iterable[Event], *, last: EventId | None) -> Iterator[Event]:
    """Yield the events that a listener has not handled yet."""
    return (event for event in events if last is None or event.id > last)


def _is_ours(document: Document | None) -> bool:
    needed = _NEEDED.get(document[KIND]) if document else None
    return needed is not None and document is not None and needed <= document.keys()


def _events(
    document: Document, valid_time: Instant, before: Document | None, chats: Mapping[str, Document]
) -> Iterator[_Derived]:
    match document[KIND]:
        case "session":
            yield from _session(document, before)
        case "lifecycle":
            event = SessionPaused if document["state"] == PAUSED else SessionResumed
            yield event, {"session_id": document["session"]}
        case "toolcall":
            names = ("chat_ref", "tool", "status", "object_hash")
            yield ToolCallCreated, {"object_id": document[ID], **_fields(document, names)}
        case "turn":
            session_id, n = document["session"], document["n"]
            turns = chats.get(chat_id(session_id), {}).get("turns", [])
            turn = turns[n - 1] if n <= len(turns) else None
            prompt_hash = document["prompt_hash"]
            yield (
                TurnFinished,
                {"session_id": session_id, "n": n, "turn": turn, "prompt_hash": prompt_hash},
            )
        case "compaction":
            values = {"session_id": document["session"], "n": document["n"]}
            yield Compacted, values | _fields(document, COMPACTED)
        case "system_prompt":
            session_id = document[ID].removeprefix("system_prompt:")
            yield SystemPromptChanged, {"session_id": session_id, "text": document["content"]}
        case "file":
            values = {"object_id": document[ID], "valid_time": valid_time}
            yield (
                _file_event(document, before),
                values | _fields(document, ("source", "object_hash")),
            )


def _session(document: Document, before: Document | None) -> Iterator[_Derived]:
    session_id = document["session_id"]
    if before is None:
        yield SessionStarted, {"session_id": session_id}
    for name in SETS:
        added, removed = _difference(before[name] if before else [], document[name])
        if added or removed:
            values = {"set_name": name, "added": added, "removed": removed}
            yield SetsChanged, {"session_id": session_id, **values}


def _difference(old: list[str], new: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if new[: len(old)] == old:  # an index of 100,000 ids grows at its end
        return tuple(new[len(old) :]), ()
    before, now = set(old), set(new)
    return (
        tuple(object_id for object_id in new if object_id not in before),
        tuple(object_id for object_id in old if object_id not in now),
    )


def _file_event(document: Document, before: Document | None) -> type[FileEvent]:
    if document["file_hash"] is None:  # it had been read if it has grown too large since
        was_read = before is not None and before["file_hash"] is not None
        return FileUpdated if was_read else FileDiscovered
    without_text = document["content"] is None
    if without_text and document["file_hash"] == NO_BYTES_HASH:
        return FileDeleted
    if before is None or before["file_hash"] is None:
        return FileIndexed
    lost_text = without_text and before["content"] is not None
    same_bytes = document["file_hash"] == before["file_hash"]  # deleting a text keeps its hash
    return FileDeleted if lost_text and same_bytes else FileUpdated


def _fields(document: Document, names: Iterable[str]) -> dict[str, Any]:
    return {name: document[name] for name in names}
