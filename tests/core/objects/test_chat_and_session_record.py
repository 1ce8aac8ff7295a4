"""Chat, system prompt and session as values."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.append_only import OrderedIds
from ctxmgr.core.objects.chat import AssistantMeta, Chat, Turn
from ctxmgr.core.objects.codec import to_document
from ctxmgr.core.objects.envelope import SESSION_ID_BYTES_MAX, turn_id
from ctxmgr.core.objects.hashes import metadata_hash
from ctxmgr.core.objects.session_record import SETS, SessionRecord, SystemPrompt
from ctxmgr.core.sessions.sets import Session
from ctxmgr.core.store.documents import DEPTH_MAX, check_document
from ctxmgr.errors import Incorrect
from tests.core.builders.values import chats, object_ids, turns


def _turn(**changes: Any) -> Turn:
    return Turn(**{"user": "hi", "assistant": ({"type": "text", "text": "yo"},), **changes})


@given(chats)
def test_a_chat_has_the_hash_of_its_fields(chat: Chat) -> None:
    """003-R054, 003-R079, 003-R080, 003-R081, 003-R082:
    cached bytes must not change the hash.
    """
    assert chat.metadata_hash == metadata_hash(chat.metadata())


@given(chats, turns)
def test_adding_a_turn_makes_a_new_version_of_the_same_chat(chat: Chat, turn: Turn) -> None:
    """003-R078, 003-R081, 003-R048: the id stays; the count and the hash change."""
    longer = chat.append(turn)

    assert (longer.object_id, longer.identity_hash) == (chat.object_id, chat.identity_hash)
    assert longer.turn_count == len(longer.turns) == chat.turn_count + 1
    assert longer.turns[:-1] == chat.turns
    assert longer.object_hash != chat.object_hash


@given(chats, st.lists(turns, max_size=5), st.integers(0, 5))
def test_a_chat_that_grew_is_the_chat_that_is_read(
    chat: Chat, added: list[Turn], branch: int
) -> None:
    """003-R059, 003-R078, 003-R082: another client must compute the same hashes from the turns."""
    grown = [chat]
    for turn in added:
        grown.append(grown[-1].append(turn))
    grown.append(grown[min(branch, len(added))].append(_turn(toolcall_ids=("other",))))

    for version in grown:
        whole = Chat(session_id=chat.session_id, turns=version.turns)
        assert to_document(version) == to_document(whole)
        assert list(to_document(version)) == list(to_document(whole))
        assert version.metadata_hash == metadata_hash(version.metadata())
        assert {name: list(items) for name, items in version.grown().items()} == {
            name: version.metadata()[name] for name in ("toolcall_refs", "turns")
        }


@given(st.lists(st.lists(object_ids, max_size=4), max_size=5), st.data())
def test_a_session_that_grew_is_the_session_that_is_read(
    steps: list[list[str]], data: st.DataObject
) -> None:
    """003-R059, 003-R085: another client must compute the same hashes from the sets."""
    session = Session(session_id="s1")
    for step in steps:
        session = session.add(step)
        if step and data.draw(st.booleans()):
            session = session.activate(step[0]).pin(step[-1])

        record = session.to_record()

        whole = SessionRecord(
            session_id="s1",
            session_index=tuple(session.session_index),
            metadata_pool=tuple(session.metadata_pool),
            active_set=tuple(session.active_set),
            pinned_set=tuple(session.pinned_set),
        )
        assert record == whole
        assert to_document(record) == to_document(whole)
        assert record.metadata_hash == metadata_hash(record.metadata())


def test_a_record_of_sets_checks_what_it_did_not_check_before() -> None:
    """003-R085: an id that cannot be stored must not enter the store with valid ones."""
    sets = dict.fromkeys(SETS, OrderedIds(["a"]))
    SessionRecord.of("s1", sets=sets)
    longer = OrderedIds(["a"]).add(["ctxmgr/reserved"])

    with pytest.raises(Incorrect, match="reserved"):
        SessionRecord.of("s1", sets={**sets, "session_index": longer, "metadata_pool": longer})
    with pytest.raises(Incorrect, match="b is in active_set and not in metadata_pool"):
        SessionRecord.of("s1", sets={**sets, "active_set": OrderedIds(["b"])})


def test_a_chat_lists_every_tool_call_once_in_order() -> None:
    """003-R082, 003-R013: references only; each output is a separate object."""
    chat = Chat(session_id="s1").append(_turn(toolcall_ids=("b", "a"))).append(_turn())
    chat = chat.append(_turn(toolcall_ids=("c",)))

    assert chat.toolcall_refs == ("b", "a", "c")
    assert chat.metadata()["toolcall_refs"] == ["b", "a", "c"]


def test_a_chat_has_no_content_and_refers_to_its_session() -> None:
    """003-A19, 003-R064, 003-R080, 003-R053: the turns are the text."""
    document = to_document(Chat(session_id="s1"))

    assert (document["content"], document["content_hash"]) == (None, None)
    assert (document["xt/id"], document["session_ref"]) == ("chat:s1", "session:s1")
    assert (document["turns"], document["turn_count"], document["toolcall_refs"]) == ([], 0, [])


def test_a_turn_is_stored_in_the_specified_form() -> None:
    """003-A18: question, answer, tool calls and details of the model."""
    meta = AssistantMeta(api="messages", stopReason="stop", usage={"input": 3}, timestamp=17)

    turn = _turn(toolcall_ids=("a",), assistant_meta=meta)

    assert turn.value == {
        "user": "hi",
        "assistant": [{"type": "text", "text": "yo"}],
        "toolcall_ids": ["a"],
        "assistant_meta": {
            "api": "messages",
            "stopReason": "stop",
            "usage": {"input": 3},
            "timestamp": 17,
        },
    }


@given(turns)
def test_a_turn_is_read_back_unchanged(turn: Turn) -> None:
    """003-A18, 003-R005: an old turn can be reproduced."""
    assert Turn.from_value(turn.value) == turn


def test_parts_changed_later_do_not_change_the_turn() -> None:
    """003-R079: a harness may keep changing its messages."""
    part, usage = {"type": "text", "text": "yo"}, {"input": 1}
    turn = _turn(assistant=(part,), assistant_meta=AssistantMeta(usage=usage))

    part["text"] = "changed"
    usage["input"] = 2

    assert turn.assistant == ({"type": "text", "text": "yo"},)
    assert turn.assistant_meta.usage == {"input": 1}
    assert Turn.from_value(turn.value) == turn


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"user": None}, "turn user must be a string, not None"),
        ({"assistant": [{"type": "text"}]}, "turn assistant must be a tuple of parts"),
        ({"assistant": ("yo",)}, "a part of an answer must be a map with a type, not 'yo'"),
        ({"assistant": ({"text": "yo"},)}, "a part of an answer must be a map with a type"),
        (
            {"assistant": ({"type": "x", "n": float("inf")},)},
            "turn: inf cannot be represented in JSON",
        ),
        ({"toolcall_ids": ["a"]}, "turn toolcall_ids must be a tuple of ids"),
        ({"toolcall_ids": ("a", "a")}, "turn toolcall_ids contains an id twice"),
        ({"toolcall_ids": ("",)}, "an object id .* must be a non-empty string"),
        ({"assistant_meta": AssistantMeta(usage=[])}, "assistant_meta usage must be a map"),  # type: ignore[arg-type]
        (
            {"assistant_meta": AssistantMeta(timestamp=True)},
            "timestamp must be an integer, not True",
        ),
        ({"assistant_meta": AssistantMeta(api=1)}, "assistant_meta api must be a string, not 1"),  # type: ignore[arg-type]
    ],
)
def test_an_invalid_turn_is_refused(changes: dict[str, Any], message: str) -> None:
    """003-A18: what a harness passes is checked before it is stored."""
    with pytest.raises(Incorrect, match=message):
        _turn(**changes)


@pytest.mark.parametrize("depth", [DEPTH_MAX - 4, DEPTH_MAX - 3, 5_000])
def test_every_accepted_turn_can_be_stored(depth: int) -> None:
    """003-R079: an invalid turn is refused when it is created, not when its chat is saved."""
    nested: list[Any] = []
    for _ in range(depth - 1):
        nested = [nested]

    try:
        turn = _turn(assistant=({"type": "x", "deep": nested},))
    except Incorrect:
        assert depth > DEPTH_MAX - 4
    else:
        check_document(to_document(Chat(session_id="s1", turns=(turn,))))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("hi", "a turn must have the fields .*assistant_meta, toolcall_ids, user, not 'hi'"),
        (
            {"user": "hi"},
            "a turn must have the fields assistant, assistant_meta, toolcall_ids, user",
        ),
        ({**_turn().value, "more": 1}, "a turn must have the fields assistant, assistant_meta"),
        ({**_turn().value, "assistant": "x"}, "turn assistant must be a list, not 'x'"),
        ({**_turn().value, "toolcall_ids": None}, "turn toolcall_ids must be a list, not None"),
        ({**_turn().value, "assistant_meta": {"seed": 1}}, "assistant_meta may have api, model"),
        ({**_turn().value, "assistant_meta": {"api": None}}, "assistant_meta may have api, model"),
    ],
)
def test_a_stored_turn_with_other_fields_is_refused(value: object, message: str) -> None:
    """003-A18: unknown and missing fields are not ignored."""
    with pytest.raises(Incorrect, match=message):
        Turn.from_value(value)


def test_a_system_prompt_consists_of_its_text() -> None:
    """003-R083, 003-R084, 003-R055, 003-R064: it has no other fields, and still a metadata_hash."""
    prompt = SystemPrompt(session_id="s1", content="Be kind.")

    assert prompt.object_id == "system_prompt:s1"
    assert prompt.metadata() == {}
    assert prompt.metadata_hash == metadata_hash({})
    assert prompt.object_hash != SystemPrompt(session_id="s1", content="Be.").object_hash


def test_a_session_stores_ids_in_order() -> None:
    """003-R085, 003-R093, 003-A17, 003-A19, 003-R064: lists of ids, without copies of objects."""
    session = SessionRecord(
        session_id="s1",
        session_index=("b", "a", "c"),
        metadata_pool=("b", "a"),
        active_set=("a",),
        pinned_set=("b",),
    )

    assert (session.object_id, session.content) == ("session:s1", None)
    assert session.metadata() == {
        "session_id": "s1",
        "chat_ref": "chat:s1",
        "system_prompt_ref": "system_prompt:s1",
        "session_index": ["b", "a", "c"],
        "metadata_pool": ["b", "a"],
        "active_set": ["a"],
        "pinned_set": ["b"],
    }


def test_the_order_of_a_set_changes_the_hash() -> None:
    """003-A17: order is what keeps a prompt's prefix stable."""
    one = SessionRecord(session_id="s1", session_index=("a", "b"))
    other = SessionRecord(session_id="s1", session_index=("b", "a"))

    assert one.metadata_hash != other.metadata_hash


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ({"metadata_pool": ("a",)}, "a is in metadata_pool and not in session_index"),
        ({"session_index": ("a",), "active_set": ("a",)}, "a is in active_set and not in metadata"),
        ({"session_index": ("a",), "pinned_set": ("a",)}, "a is in pinned_set and not in metadata"),
        ({"session_index": ("a", "a")}, "session_index contains an id twice"),
        ({"session_index": ["a"]}, "session_index must be a tuple of ids"),
        ({"session_index": (1,)}, "an object id .* must be a non-empty string"),
    ],
)
def test_sets_that_are_not_nested_are_refused(sets: dict[str, Any], message: str) -> None:
    """003-R090, 003-R091, 003-A08: every visible object is in the index."""
    with pytest.raises(Incorrect, match=message):
        SessionRecord(session_id="s1", **sets)


@pytest.mark.parametrize("session_id", ["", "é" * (SESSION_ID_BYTES_MAX // 2 + 1), "\ud800", 7])
def test_an_invalid_session_id_is_refused(session_id: Any) -> None:
    """003-R064: three other ids are derived from it, and each must be valid."""
    with pytest.raises(Incorrect, match="session_id"):
        Chat(session_id=session_id)


def test_the_id_of_a_turn_record_has_session_and_number() -> None:
    """003-R005: the record of turn 7 is read without a query."""
    assert turn_id("s1", number=7) == "turn:s1:7"
