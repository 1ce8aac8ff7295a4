"""The five object types as they are stored and read back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.objects.chat import Chat, Turn
from ctxmgr.core.objects.codec import (
    KINDS,
    StoredObject,
    from_document,
    to_document,
    verify_document,
)
from ctxmgr.core.objects.envelope import CONTENT_KINDS, INFRASTRUCTURE_KINDS, OBJECT_KINDS
from ctxmgr.core.objects.file import File
from ctxmgr.core.objects.hashes import ENVELOPE, metadata_hash
from ctxmgr.core.objects.session_record import SessionRecord, SystemPrompt
from ctxmgr.core.objects.sources import FilesystemSource
from ctxmgr.core.objects.toolcall import ToolCall
from ctxmgr.core.store.contract import Put
from ctxmgr.core.store.documents import check_document
from ctxmgr.core.store.transactions import check_operations
from ctxmgr.errors import Corrupt, HashMismatch, Incorrect
from tests.core.builders.values import reordered, stored_objects

SOURCE = FilesystemSource(filesystem_id="h", path="/a/main.ts")
CALL = ToolCall(
    toolcall_id="call_1", tool="ls", args={}, status="ok", chat_ref="chat:s1", content="a.ts"
)
CHAT = Chat(session_id="s1").append(Turn(user="hi", assistant=(), toolcall_ids=("call_1",)))
SESSION = SessionRecord(session_id="s1", session_index=("call_1",), metadata_pool=("call_1",))
EXAMPLES: tuple[StoredObject, ...] = (
    File.read(SOURCE, data=b"text"),
    CALL,
    CHAT,
    SystemPrompt(session_id="s1", content="Be kind."),
    SESSION,
)
FORBIDDEN = ("locked", "provenance", "nickname")


def _kind(version: StoredObject) -> str:
    return version.kind


@given(stored_objects)
def test_a_stored_object_is_read_back_unchanged(version: StoredObject) -> None:
    """003-R016, 003-R005: encoding and decoding lose nothing."""
    document = to_document(version)

    assert from_document(document) == version
    assert from_document(reordered(document)) == version


@given(stored_objects)
def test_every_object_can_be_stored(version: StoredObject) -> None:
    """003-R023, 003-R028: flat, and valid as a document of its kind."""
    document = to_document(version)

    check_document(document)
    check_operations([Put(document)], KINDS)
    verify_document(document)


@given(stored_objects)
def test_every_object_has_its_envelope_content_and_hashes(version: StoredObject) -> None:
    """003-R030, 003-R031, 003-R032, 003-R033, 003-R048, 003-R053, 003-R055:
    only files have a file_hash and a source.
    """
    document = to_document(version)

    assert all(document[name] for name in ("xt/id", "type", "identity_hash"))
    assert all(document[name] for name in ("metadata_hash", "object_hash"))
    assert (document["content"] is None) == (document["content_hash"] is None)
    assert ("file_hash" in document) == (document["source"] is not None)
    assert (document["type"] == "file") == ("file_hash" in document)


@given(stored_objects)
def test_the_metadata_hash_covers_exactly_the_fields_of_the_type(version: StoredObject) -> None:
    """003-R054, 003-R056: the fields listed for the type, and no others."""
    assert metadata_hash(to_document(version)) == version.metadata_hash
    assert metadata_hash(version.metadata()) == version.metadata_hash


def test_there_are_five_types_in_two_classes() -> None:
    """003-R017, 003-R018, 003-R019, 003-R020:
    files and tool calls are content; only files have a source.
    """
    assert {"file", "toolcall"} == CONTENT_KINDS
    assert {"chat", "system_prompt", "session"} == INFRASTRUCTURE_KINDS
    assert {version.kind for version in EXAMPLES} == OBJECT_KINDS
    assert [version.kind for version in EXAMPLES if version.source] == ["file"]


@pytest.mark.parametrize("kind", ["note", "File", "", None, 7, [], "turn"])
def test_an_unknown_type_is_refused(kind: object) -> None:
    """003-R017: exactly five."""
    with pytest.raises(Corrupt, match="unknown object type"):
        from_document({**to_document(CALL), "type": kind})


@pytest.mark.parametrize("version", EXAMPLES, ids=_kind)
def test_an_unknown_field_is_refused(version: StoredObject) -> None:
    """003-R035: no locked, provenance or nickname, nor anything else."""
    assert to_document(version).keys().isdisjoint(FORBIDDEN)
    for name in (*FORBIDDEN, "path"):
        document = {**to_document(version), name: "x"}
        document["metadata_hash"] = metadata_hash(document)

        with pytest.raises(Corrupt):
            from_document(document)


@pytest.mark.parametrize("version", EXAMPLES, ids=_kind)
def test_an_unknown_field_is_named_when_all_hashes_match(version: StoredObject) -> None:
    """003-R035: a document of a newer program is distinguished from a damaged one."""
    document = _resealed({**to_document(version), "nickname": "x"})

    with pytest.raises(Corrupt, match="has no field 'nickname'") as caught:
        from_document(document)

    assert not isinstance(caught.value, HashMismatch)


@pytest.mark.parametrize("version", EXAMPLES, ids=_kind)
def test_a_missing_field_is_refused(version: StoredObject) -> None:
    """003-R031, 003-R033: an object without one of its fields is not of that type."""
    complete = to_document(version)

    for name in complete:
        document = {key: value for key, value in complete.items() if key != name}
        with pytest.raises(Corrupt):
            from_document(document)


def test_a_missing_field_is_named() -> None:
    """003-R085: the message says what to look for."""
    document = to_document(SESSION)
    del document["pinned_set"]

    with pytest.raises(Corrupt, match="'session:s1': the field 'pinned_set' is missing"):
        from_document(document)


@pytest.mark.parametrize("version", EXAMPLES, ids=_kind)
@pytest.mark.parametrize("field", ["identity_hash", "content_hash", "metadata_hash", "object_hash"])
def test_a_wrong_hash_is_named_with_both_values(version: StoredObject, field: str) -> None:
    """003-R045, 003-R048: damage is detected on reading, with its location."""
    document = {**to_document(version), field: "0" * 64}

    with pytest.raises(HashMismatch) as caught:
        from_document(document)

    assert (caught.value.field, caught.value.stored) == (field, "0" * 64)
    assert caught.value.computed == to_document(version)[field]


@pytest.mark.parametrize(
    ("version", "changes", "field"),
    [
        (EXAMPLES[0], {"content": "other"}, "content_hash"),
        (EXAMPLES[0], {"file_hash": "0" * 64}, "object_hash"),
        (EXAMPLES[0], {"char_count": 5}, "metadata_hash"),
        (EXAMPLES[0], {"file_type": "py"}, "metadata_hash"),
        (EXAMPLES[0], {"xt/id": "other"}, "xt/id"),
        (EXAMPLES[0], {"source": {**SOURCE.to_value(), "path": "/b"}}, "xt/id"),
        (CALL, {"xt/id": "call_2"}, "identity_hash"),
        (CALL, {"args": {"x": 1}}, "metadata_hash"),
        (CALL, {"content": None}, "content_hash"),
        (CHAT, {"turn_count": 2}, "metadata_hash"),
        (CHAT, {"toolcall_refs": []}, "metadata_hash"),
        (CHAT, {"content": "x"}, "content_hash"),
        (SESSION, {"active_set": ["call_1"]}, "metadata_hash"),
    ],
)
def test_a_changed_field_does_not_match_its_hash(
    version: StoredObject, changes: dict[str, Any], field: str
) -> None:
    """003-R045, 003-R058, 003-R081: no field can change unnoticed."""
    document = {**to_document(version), **changes}

    for check in (verify_document, from_document):
        with pytest.raises(HashMismatch) as caught:
            check(document)
        assert caught.value.field == field


@pytest.mark.parametrize(
    ("version", "changes", "message"),
    [
        (EXAMPLES[0], {"char_count": 5}, "char_count is stored as 5, but must be 4"),
        (EXAMPLES[0], {"file_type": "py"}, "file_type is stored as 'py', but must be 'ts'"),
        (EXAMPLES[0], {"source": None}, "a source must be a map, not None"),
        (EXAMPLES[0], {"file_hash": "short"}, "file_hash must be a SHA-256 in hex"),
        (EXAMPLES[0], {"content": 5}, "content must be a string, not 5"),
        (CALL, {"status": "maybe"}, "status must be ok or fail"),
        (CALL, {"file_refs": "abc"}, "file_refs must be a list, not 'abc'"),
        (CALL, {"file_refs": None}, "has no field 'file_refs'"),
        (CALL, {"xt/id": 7}, "an object id .* must be a non-empty string"),
        (CHAT, {"turn_count": 2}, "turn_count is stored as 2, but must be 1"),
        (CHAT, {"session_ref": "session:s2"}, "session_ref is stored as 'session:s2'"),
        (CHAT, {"xt/id": "s1"}, "the id of a chat must start with chat:"),
        (CHAT, {"turns": {}}, "turns must be a list"),
        (CHAT, {"turns": [{}]}, "a turn must have the fields assistant"),
        (SESSION, {"session_index": None}, "session_index must be a list, not None"),
        (SESSION, {"metadata_pool": ["x"]}, "x is in metadata_pool and not in session_index"),
        (SESSION, {"session_id": "s2"}, "xt/id is stored as 'session:s1'"),
    ],
)
def test_fields_that_contradict_each_other_are_corrupt(
    version: StoredObject, changes: dict[str, Any], message: str
) -> None:
    """003-R031, 003-R068, 003-R069, 003-R081: even if every hash matches."""
    document = _resealed({**to_document(version), **changes})

    with pytest.raises(Corrupt, match=message):
        from_document(document)


@pytest.mark.parametrize(
    "changes", [{"content": 5}, {"args": {"x": float("nan")}}, {"xt/id": None}, {"source": "x"}]
)
def test_a_document_that_cannot_be_hashed_is_corrupt(changes: dict[str, Any]) -> None:
    """003-R045: verifying a damaged store reports it instead of crashing."""
    with pytest.raises(Corrupt):
        verify_document({**to_document(CALL), **changes})


def test_other_kinds_have_no_hashes_to_check() -> None:
    """003-R016: layers store other documents beside the five types."""
    verify_document({"xt/id": "turn:s1:1", "type": "turn", "session": "s1", "n": 1})
    verify_document({"xt/id": "m1", "type": "memory", "object_hash": "anything"})


@given(stored_objects, st.sampled_from(["xt/id", "type", "source", "identity_hash"]))
def test_a_write_that_changes_the_envelope_is_refused(version: StoredObject, name: str) -> None:
    """003-R011, 003-R026, 003-R029, 003-R030: identity is fixed at creation."""
    document = to_document(version)
    other = "chat" if version.kind == "session" else "session"

    check_operations([Put(document)], KINDS)
    with pytest.raises(Incorrect):
        check_operations([Put({**document, name: other})], KINDS)


@given(stored_objects, stored_objects)
def test_two_objects_never_share_a_history(one: StoredObject, other: StoredObject) -> None:
    """003-R029, 003-R044: a version follows only another of the same object."""
    document = to_document(one)
    document |= {name: to_document(other)[name] for name in ENVELOPE if name != "xt/id"}

    if (one.kind, one.object_id) == (other.kind, other.object_id):
        check_operations([Put(document)], KINDS)
    else:
        with pytest.raises(Incorrect):
            check_operations([Put(document)], KINDS)


def test_every_type_declares_what_it_is_found_by() -> None:
    """003-R016: and the plain documents, which are none of the five."""
    plain = {"turn", "lifecycle", "fork", "run", "lease", "imported", "policy", "compaction"}
    plain |= {"recorded"}
    of_people = {"title", "comment", "deletion", "purge", "purged"}
    assert set(KINDS) == OBJECT_KINDS | plain | of_people
    assert all(name == kind.name for name, kind in KINDS.items())


def _resealed(document: dict[str, Any]) -> dict[str, Any]:
    """Recompute every hash that can be recomputed."""
    for _ in range(6):
        try:
            verify_document(document)
        except HashMismatch as wrong:
            document = {**document, wrong.field: wrong.computed}
        except Corrupt:
            break
    return document
