"""What happened: values that the client announces, and that every transaction can tell again. Pure.

    document        events
    session         SessionStarted, SetsChanged
    lifecycle       SessionPaused, SessionResumed
    toolcall        ToolCallCreated
    turn            TurnFinished, with the turn from the chat of the same transaction
    system_prompt   SystemPromptChanged
    file            FileDiscovered, FileIndexed, FileUpdated, FileDeleted

An event's id is the sequence of its transaction and its place among that transaction's events, in
the order of the writes. Files and sessions are compared with the version before, which the caller
looks up (``compared``); everything else is told by the transaction alone.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol, TypeAlias

from ctxmgr.core.documents import ID, KIND, Document
from ctxmgr.core.envelopes import CHAT, FILE, SESSION, chat_id
from ctxmgr.core.sessions import SETS
from ctxmgr.core.store import Instant, Transaction

LIFECYCLE: Final = "lifecycle"
"""A plain document ``lifecycle:{session}`` that says what a session's document must not: whether
some client has it open."""

ACTIVE: Final = "active"
PAUSED: Final = "paused"


@dataclass(frozen=True, slots=True, order=True)
class EventId:
    """Where an event stands among all events of a store."""

    sequence: int
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened and is stored."""

    name: ClassVar[str] = "event"

    id: EventId
    system_time: Instant
    """When it was stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStarted(Event):
    name = "session_started"

    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPaused(Event):
    name = "session_paused"

    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResumed(Event):
    name = "session_resumed"

    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPromptChanged(Event):
    """Also the first one."""

    name = "system_prompt_changed"

    session_id: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetsChanged(Event):
    """One of a session's four sets is another."""

    name = "sets_changed"

    session_id: str
    set_name: str
    added: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFinished(Event):
    name = "turn_finished"

    session_id: str
    n: int
    turn: Mapping[str, Any] | None = field(repr=False)
    """As the chat stores it; None: the transaction holds no such turn of the chat."""
    prompt_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallCreated(Event):
    name = "toolcall_created"

    object_id: str
    chat_ref: str
    tool: str
    status: str
    object_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEvent(Event):
    """A new version of a file."""

    object_id: str
    source: Mapping[str, str]
    object_hash: str
    valid_time: Instant
    """When the file changed, as far as is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDiscovered(FileEvent):
    """Seen, not read."""

    name = "file_discovered"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIndexed(FileEvent):
    """Read for the first time."""

    name = "file_indexed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileUpdated(FileEvent):
    name = "file_updated"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDeleted(FileEvent):
    name = "file_deleted"


class Listener(Protocol):
    """Hears every event at least once and in order.

    It keeps the id of the last event it has handled, together with what it made of it, and is told
    everything after that when it starts. One that fails never fails the turn: it is reported, and
    told the same event again later.
    """

    name: str

    async def last_handled(self) -> EventId | None:
        """Return where to go on; None: from the beginning."""
        ...

    async def handle(self, event: Event) -> None:
        """Take one event. An id at or before the last handled one has been taken already."""
        ...


Before: TypeAlias = Mapping[str, Document]
"""The versions that a transaction's documents replaced, by id; new objects are not in it."""

_NEEDED: Final = {
    "session": frozenset({"session_id", *SETS}),
    "lifecycle": frozenset({"session", "state"}),
    "toolcall": frozenset({"chat_ref", "tool", "status", "object_hash"}),
    "turn": frozenset({"session", "n", "prompt_hash"}),
    "system_prompt": frozenset({"content"}),
    "file": frozenset({"source", "content", "file_hash", "object_hash"}),
}
"""What each kind of document is read for."""

_Told: TypeAlias = tuple[type[Event], dict[str, Any]]


def compared(transaction: Transaction) -> tuple[str, ...]:
    """Name the objects whose version before the transaction ``derive`` needs.

    Read them as of the sequence before it.
    """
    documents = (write.document or {} for write in transaction.writes)
    return tuple(each[ID] for each in documents if each.get(KIND) in {FILE, SESSION})


def _ours(document: Document | None) -> Document | None:
    return document if _is_ours(document) else None


def _is_ours(document: Document | None) -> bool:
    needed = _NEEDED.get(document[KIND]) if document else None
    return needed is not None and document is not None and needed <= document.keys()


def derive(transaction: Transaction, *, before: Before) -> tuple[Event, ...]:
    """Tell what happened in a transaction that was read with its documents.

    Another program may keep documents of its own under the same words; they tell nothing.
    """
    written = [(each, each.document) for each in transaction.writes if each.document]
    chats = {document[ID]: document for _, document in written if document[KIND] == CHAT}
    told = [
        each
        for write, document in written
        if _is_ours(document)
        for each in _told(document, write.valid_from, _ours(before.get(document[ID])), chats)
    ]
    return tuple(
        event(id=EventId(transaction.sequence, place), system_time=transaction.system_time, **about)
        for place, (event, about) in enumerate(told)
    )


def unheard(events: Iterable[Event], *, last: EventId | None) -> Iterator[Event]:
    """Leave out what a listener has handled already."""
    return (event for event in events if last is None or event.id > last)


def lifecycle_document(session_id: str, *, state: str) -> Document:
    """Return the document whose transaction says that a session was paused or resumed."""
    assert state in {ACTIVE, PAUSED}
    return {
        ID: f"{LIFECYCLE}:{session_id}",
        KIND: LIFECYCLE,
        "session": session_id,
        "state": state,
    }


def _told(
    document: Document, valid_time: Instant, before: Document | None, chats: Mapping[str, Document]
) -> Iterator[_Told]:
    match document[KIND]:
        case "session":
            yield from _session(document, before)
        case "lifecycle":
            event = SessionPaused if document["state"] == PAUSED else SessionResumed
            yield event, {"session_id": document["session"]}
        case "toolcall":
            known = ("chat_ref", "tool", "status", "object_hash")
            yield ToolCallCreated, {"object_id": document[ID], **_fields(document, known)}
        case "turn":
            yield TurnFinished, _turn(document, chats)
        case "system_prompt":
            session_id = document[ID].removeprefix("system_prompt:")
            yield SystemPromptChanged, {"session_id": session_id, "text": document["content"]}
        case "file":
            about = {"object_id": document[ID], "valid_time": valid_time}
            yield _file(document, before), about | _fields(document, ("source", "object_hash"))


def _session(document: Document, before: Document | None) -> Iterator[_Told]:
    session_id = document["session_id"]
    if before is None:
        yield SessionStarted, {"session_id": session_id}
    for name in SETS:
        added, removed = _difference(before[name] if before else [], document[name])
        if added or removed:
            about = {"set_name": name, "added": added, "removed": removed}
            yield SetsChanged, {"session_id": session_id, **about}


def _difference(old: list[str], new: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if new[: len(old)] == old:  # an index of 100,000 ids grows at its end
        return tuple(new[len(old) :]), ()
    there, still = set(old), set(new)
    return (
        tuple(object_id for object_id in new if object_id not in there),
        tuple(object_id for object_id in old if object_id not in still),
    )


def _turn(document: Document, chats: Mapping[str, Document]) -> dict[str, Any]:
    session_id, n = document["session"], document["n"]
    turns = chats.get(chat_id(session_id), {}).get("turns", [])
    turn = turns[n - 1] if n <= len(turns) else None
    prompt_hash = document["prompt_hash"]
    return {"session_id": session_id, "n": n, "turn": turn, "prompt_hash": prompt_hash}


def _file(document: Document, before: Document | None) -> type[FileEvent]:
    if document["file_hash"] is None:
        return FileDiscovered
    if before is None or before["file_hash"] is None:
        return FileIndexed
    lost_its_text = document["content"] is None and before["content"] is not None
    return FileDeleted if lost_its_text and _same_bytes(document, before) else FileUpdated


def _same_bytes(document: Document, before: Document) -> bool:
    return bool(document["file_hash"] == before["file_hash"])  # a deletion keeps the last one


def _fields(document: Document, names: Iterable[str]) -> dict[str, Any]:
    return {name: document[name] for name in names}
