"""Events, derived again from the transactions."""

from typing import Any, Final

import pytest
from hypothesis import given

from ctxmgr.core.client.recall import entries
from ctxmgr.core.events.derive import compared, derive, events_after
from ctxmgr.core.events.events import (
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
from ctxmgr.core.events.lifecycle import PAUSED, lifecycle_document
from ctxmgr.core.history.turn_records import TurnRecord
from ctxmgr.core.objects.chat import Chat, Turn
from ctxmgr.core.objects.codec import to_document
from ctxmgr.core.objects.file import File
from ctxmgr.core.objects.hashes import sha256
from ctxmgr.core.objects.session_record import SETS, SessionRecord, SystemPrompt
from ctxmgr.core.objects.sources import FilesystemSource
from ctxmgr.core.objects.toolcall import ToolCall
from ctxmgr.core.sessions.sets import Session
from ctxmgr.core.store.contract import Transaction, Write
from ctxmgr.core.store.documents import Document, check_document
from tests.core.builders.session_steps import Steps, after, steps
from tests.core.builders.values import sessions

SOURCE: Final = FilesystemSource(filesystem_id="host", path="/a.py")
STUB: Final = File.stub(SOURCE)
READ: Final = File.read(SOURCE, data=b"1")
BINARY: Final = File.read(SOURCE, data=b"\xff")
CALL: Final = ToolCall(
    toolcall_id="call_1", tool="bash", args={}, status="fail", chat_ref="chat:s1", content="no"
)


def _transaction(*documents: Document) -> Transaction:
    writes = tuple(
        Write(
            object_id=document["xt/id"],
            deleted=False,
            document=document,
            valid_from=50 + n,
            valid_to=None,
        )
        for n, document in enumerate(documents)
    )
    return Transaction(sequence=7, system_time=99, key="k", writes=writes)


def _derived(*documents: Document, before: dict[str, Document] | None = None) -> list[Event]:
    return list(derive(_transaction(*documents), before=before or {}))


def _turn_record(n: int) -> Document:
    record = TurnRecord(
        session="s1",
        n=n,
        prompt_hash=sha256(b""),
        section_hashes={},
        snapshot=n,
        shown=(),
        active=(),
    )
    return record.to_document()


def test_events_are_numbered_as_they_were_written() -> None:
    """003-R005: an id gives the position of an event, so that listeners recognise duplicates."""
    events = _derived(to_document(CALL), to_document(STUB), to_document(SystemPrompt(
        session_id="s1", content="Be careful."
    )))  # fmt: skip

    assert [event.id for event in events] == [EventId(7, 0), EventId(7, 1), EventId(7, 2)]
    assert {event.system_time for event in events} == {99}
    assert [type(event) for event in events] == [
        ToolCallCreated,
        FileDiscovered,
        SystemPromptChanged,
    ]


def test_a_tool_call_event_omits_the_output() -> None:
    """003-R013: a listener that needs it has the id."""
    (event,) = _derived(to_document(CALL))

    assert isinstance(event, ToolCallCreated)
    assert (event.object_id, event.tool, event.status) == ("call_1", "bash", "fail")
    assert (event.chat_ref, event.object_hash) == ("chat:s1", CALL.object_hash)


@pytest.mark.parametrize(
    ("before", "now", "kind"),
    [
        (None, STUB, FileDiscovered),
        (None, READ, FileIndexed),
        (STUB, READ, FileIndexed),
        (READ, File.read(SOURCE, data=b"2"), FileUpdated),
        (READ, File.read(SOURCE, data=b"\xff"), FileUpdated),
        (READ, READ.deleted(), FileDeleted),
        (READ.deleted(), READ, FileUpdated),
        (BINARY, BINARY.deleted(), FileDeleted),
        (STUB, STUB.deleted(), FileDeleted),
        (READ, STUB, FileUpdated),
    ],
)
def test_each_change_of_a_file_has_its_own_event(
    before: File | None, now: File, kind: type[FileEvent]
) -> None:
    """003-A01: found, read, changed and deleted are four different things."""
    earlier = {before.object_id: to_document(before)} if before else {}

    (event,) = _derived(to_document(now), before=earlier)

    assert type(event) is kind
    assert isinstance(event, FileEvent)
    assert (event.object_id, event.source) == (now.object_id, SOURCE.to_value())
    assert event.valid_time == 50


def test_a_turn_event_contains_the_conversation() -> None:
    """003-R078, 003-A38: transcript and audit receive the same conversation, once."""
    turn = Turn(user="hi", assistant=({"type": "text", "text": "yo"},))
    chat = Chat(session_id="s1").append(Turn(user="", assistant=())).append(turn)

    (event,) = _derived(to_document(chat), _turn_record(2))

    assert isinstance(event, TurnFinished)
    assert (event.session_id, event.n, event.turn) == ("s1", 2, turn.value)


def test_a_turn_event_without_its_chat_has_no_text() -> None:
    """Unknown text is never invented."""
    (event,) = _derived(_turn_record(2))

    assert isinstance(event, TurnFinished)
    assert event.turn is None


def test_only_the_first_version_of_a_session_starts_it() -> None:
    """Later versions are changes, not starts."""
    record = to_document(SessionRecord(session_id="s1"))

    (started,) = _derived(record)

    assert isinstance(started, SessionStarted)
    assert _derived(record, before={"session:s1": record}) == []


def test_pause_and_resume_are_separate_documents() -> None:
    """A session's document has exactly the specified fields, none of them for this."""
    documents = [lifecycle_document("s1", state=state) for state in (PAUSED, "active")]

    (paused,), (resumed,) = map(_derived, documents)

    check_document(documents[0])
    assert (type(paused), type(resumed)) == (SessionPaused, SessionResumed)


@given(sessions(), steps)
def test_set_changes_lead_from_version_to_version(record: SessionRecord, done: Steps) -> None:
    """003-R004, 003-R125: applying the events reproduces the sets."""
    now = after(Session.from_record(record), done).to_record()

    events = _derived(to_document(now), before={record.object_id: to_document(record)})

    held = {name: set(getattr(record, name)) for name in SETS}
    for event in events:
        assert isinstance(event, SetsChanged)
        held[event.set_name] = held[event.set_name] - set(event.removed) | set(event.added)
    assert held == {name: set(getattr(now, name)) for name in SETS}


def test_only_files_and_sessions_are_compared() -> None:
    """A replay looks up no more than it needs."""
    documents: list[Any] = [CALL, READ, SessionRecord(session_id="s1"), Chat(session_id="s1")]

    transaction = _transaction(*map(to_document, documents))

    assert compared(transaction) == (READ.object_id, "session:s1")


def test_documents_of_other_kinds_give_no_events() -> None:
    """Layers keep other kinds of documents in the same store."""
    deletion = Write(object_id="x", deleted=True, document=None, valid_from=1, valid_to=None)
    transaction = Transaction(sequence=1, system_time=1, key="k", writes=(deletion,))

    assert derive(transaction, before={}) == ()
    assert _derived({"xt/id": "note:1", "type": "note"}) == []


def test_a_listener_continues_after_its_last_event() -> None:
    """PG-08: at least once and in order; handled events are skipped."""
    events = _derived(to_document(CALL), to_document(STUB))

    assert list(events_after(events, last=None)) == events
    assert list(events_after(events, last=EventId(7, 0))) == events[1:]
    assert list(events_after(events, last=EventId(8, 0))) == []


@pytest.mark.parametrize(
    "kind", ["session", "lifecycle", "toolcall", "turn", "system_prompt", "file", "note"]
)
def test_a_foreign_document_gives_no_event_and_hides_none(kind: str) -> None:
    """One invalid document must not end a listener's stream."""
    theirs = {"xt/id": "theirs", "type": kind}

    (event,) = _derived(theirs, to_document(READ), before={READ.object_id: {**theirs, "x": 1}})

    assert isinstance(event, FileIndexed)
    assert [entry.object_id for entry in entries([_transaction(theirs, to_document(READ))])] == [
        READ.object_id
    ]
