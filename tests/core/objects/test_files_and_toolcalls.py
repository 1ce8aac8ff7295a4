"""Files and tool calls as values."""

from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.objects.codec import to_document
from ctxmgr.core.objects.file import NO_BYTES_HASH, File, FileState
from ctxmgr.core.objects.hashes import file_hash, object_hash
from ctxmgr.core.objects.sources import FilesystemSource
from ctxmgr.core.objects.toolcall import ToolCall
from ctxmgr.errors import Incorrect
from tests.core.builders.values import files, texts, toolcalls

SOURCE = FilesystemSource(filesystem_id="h", path="/a/main.ts")


def _toolcall(**changes: Any) -> ToolCall:
    given = {"toolcall_id": "call_1", "tool": "grep", "args": {"p": "x"}, "status": "ok"}
    return ToolCall(**{**given, "chat_ref": "chat:s1", "content": "out", **changes})


@given(files)
def test_the_id_of_a_file_is_its_identity(file: File) -> None:
    """003-R062, 003-R048: the id can be computed before anything is stored."""
    assert file.object_id == file.identity_hash


@given(texts)
def test_a_text_file_has_its_text_and_counts_code_points(text: str) -> None:
    """003-R060, 003-R069, 003-A16: a character counts as one, also beyond the BMP."""
    file = File.read(SOURCE, data=text.encode())

    assert (file.content, file.char_count) == (text, len(text))
    assert file.file_hash == file.content_hash
    assert file.state() is FileState.LIVE


@given(texts)
def test_reading_bytes_equals_building_from_text(text: str) -> None:
    """The shared hash computation must not change the result."""
    file = File.read(SOURCE, data=text.encode())

    assert file == File(source=SOURCE, content=text, file_hash=file_hash(text.encode()))


def test_a_byte_order_mark_stays_in_the_text() -> None:
    """003-R060: what is stored unmodified has the hash of the file."""
    file = File.read(SOURCE, data=b"\xef\xbb\xbfa")

    assert file.content == "\ufeffa"
    assert file.file_hash == file.content_hash


def test_a_stub_has_never_been_read() -> None:
    """003-R051, 003-R053, 003-R069, 003-R177: its path is known, its content is not."""
    stub = File.stub(SOURCE)

    assert (stub.content, stub.file_hash, stub.content_hash) == (None, None, None)
    assert (stub.char_count, stub.file_type) == (0, "ts")
    assert stub.is_stub
    assert stub.state() is FileState.STUB


def test_binary_data_has_a_hash_and_no_content() -> None:
    """003-A13, 003-R053: the agent learns that it is binary and whether it changed."""
    file = File.read(SOURCE, data=b"\xff\xfe\x00")

    assert (file.content, file.content_hash, file.char_count) == (None, None, 0)
    assert file.file_hash is not None
    assert file.state() is FileState.NONTEXT


def test_a_deletion_keeps_the_last_file_hash() -> None:
    """003-A01, 003-R010: deleted is not unread, and the object stays the same."""
    live = File.read(SOURCE, data=b"text")

    gone = live.deleted()

    assert (gone.object_id, gone.file_hash) == (live.object_id, live.file_hash)
    assert (gone.content, gone.content_hash, gone.char_count) == (None, None, 0)
    assert gone.state(earlier=[live]) is FileState.DELETED


def test_a_deletion_written_twice_is_still_a_deletion() -> None:
    """003-R124, 003-A01: two clients may detect it at the same time."""
    live = File.read(SOURCE, data=b"text")

    assert live.deleted().state(earlier=[live.deleted(), live]) is FileState.DELETED


def test_a_text_that_became_binary_is_not_deleted() -> None:
    """003-A01, 003-A13: only an equal file_hash in the previous version marks a deletion."""
    binary = File.read(SOURCE, data=b"\xff")

    assert binary.state(earlier=[File.read(SOURCE, data=b"text")]) is FileState.NONTEXT


def test_the_deletion_of_what_has_no_text_is_a_version_of_its_own() -> None:
    """003-R118, 003-R189: with the last file_hash it would equal the version before it."""
    binary = File.read(SOURCE, data=b"\xff")

    for file in (binary, File.stub(SOURCE)):
        gone = file.deleted()
        assert gone.object_hash != file.object_hash
        assert (gone.content, gone.char_count, gone.file_hash) == (None, 0, NO_BYTES_HASH)
        assert gone.state() is FileState.DELETED
        assert not gone.needs_history


def test_a_deleted_empty_file_is_deleted() -> None:
    """An empty file is an empty text, so no version without text but a deletion has its hash."""
    empty = File.read(SOURCE, data=b"")

    assert (empty.state(), empty.deleted().state()) == (FileState.LIVE, FileState.DELETED)


def test_stored_content_may_differ_from_the_source() -> None:
    """003-R061: file_hash is of the source, content_hash of the stored text."""
    stored = File.read(SOURCE, data=b"key = 7\n", kept=lambda _: "key = ***\n")

    assert stored.file_hash == sha256(b"key = 7\n").hexdigest()
    assert stored.content_hash == sha256(b"key = ***\n").hexdigest()


@given(st.binary())
def test_a_file_that_was_read_has_the_hash_of_its_bytes(data: bytes) -> None:
    """003-R049, 003-R168: a change of one byte, even of white space, is a new version."""
    assert File.read(SOURCE, data=data).file_hash == sha256(data).hexdigest()


@given(files)
def test_the_path_of_a_file_is_in_its_source_only(file: File) -> None:
    """003-R070, 003-R068: the payload describes the content, the source its location."""
    assert file.metadata() == {"file_type": file.file_type, "char_count": file.char_count}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"content": 5}, "content must be a string, not 5"),
        ({"content": "\ud800"}, "lone surrogate"),
        ({"file_hash": "abc"}, "file_hash must be a SHA-256 in hex, not 'abc'"),
        ({"file_hash": None}, "a file with content must have a file_hash"),
    ],
)
def test_an_invalid_file_is_refused(changes: dict[str, Any], message: str) -> None:
    """003-R031, 003-R051: invalid states cannot be constructed."""
    with pytest.raises(Incorrect, match=message):
        File(**{"source": SOURCE, "content": "x", "file_hash": "a" * 64, **changes})


@given(toolcalls)
def test_a_tool_call_has_the_given_id_and_no_source(call: ToolCall) -> None:
    """003-R027, 003-R030, 003-R050, 003-R064: the harness chooses the id."""
    document = to_document(call)

    assert document["xt/id"] == call.toolcall_id
    assert document["source"] is None
    assert "file_hash" not in document
    hashes = {"content": call.content_hash, "metadata": call.metadata_hash}
    assert call.object_hash == object_hash(file=None, **hashes)


def test_a_tool_call_keeps_arguments_and_result() -> None:
    """003-R072, 003-R073, 003-R075, 003-R076: everything except the output is metadata."""
    call = _toolcall(tool="Grep")

    assert call.content == "out"
    expected = {"tool": "Grep", "args": {"p": "x"}, "status": "ok", "chat_ref": "chat:s1"}
    assert call.metadata() == expected


def test_optional_fields_are_stored_only_when_given() -> None:
    """003-R074, 003-R077, 003-A15: an absent field differs from null and has another hash."""
    call = _toolcall(args_display="x in src", file_refs=("f1", "f2"))

    fields = call.metadata()

    assert (fields["args_display"], fields["file_refs"]) == ("x in src", ["f1", "f2"])
    assert not {"args_display", "file_refs"} & _toolcall().metadata().keys()
    assert call.metadata_hash != _toolcall().metadata_hash


@pytest.mark.parametrize(
    "changes",
    [
        {"tool": "find"},
        {"args": {"p": "y"}},
        {"status": "fail"},
        {"chat_ref": "chat:s2"},
        {"args_display": ""},
        {"file_refs": ()},
    ],
)
def test_every_field_of_a_tool_call_is_hashed(changes: dict[str, Any]) -> None:
    """003-R054, 003-R072, 003-R073, 003-R074, 003-R075, 003-R076, 003-R077:
    each is covered by metadata_hash.
    """
    assert _toolcall(**changes).metadata_hash != _toolcall().metadata_hash


def test_arguments_changed_later_do_not_change_the_tool_call() -> None:
    """003-R071: a tool may change its arguments after they were recorded."""
    args: dict[str, Any] = {"paths": ["a"]}
    call = _toolcall(args=args)

    args["paths"].append("b")

    assert call.args == {"paths": ["a"]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"toolcall_id": ""}, "an object id .* must be a non-empty string"),
        ({"toolcall_id": "ctxmgr/x"}, "are reserved"),
        ({"tool": ""}, "tool must be a string of 1 to 200 bytes, not ''"),
        ({"tool": "é" * 101}, "tool must be a string of 1 to 200 bytes"),
        ({"chat_ref": None}, "chat_ref must be a string, not None"),
        ({"args": ["x"]}, "args must be a map, not"),
        ({"args": {"x": float("nan")}}, "args: nan cannot be represented in JSON"),
        ({"args": {"x": (1,)}}, "args: a tuple cannot be stored"),
        ({"status": "error"}, "status must be ok or fail, not 'error'"),
        ({"content": b"out"}, "content must be a string, not b'out'"),
        ({"args_display": 3}, "args_display must be a string, not 3"),
        ({"file_refs": ["f"]}, "file_refs must be a tuple of ids"),
        ({"file_refs": ("f", "f")}, "file_refs contains an id twice"),
    ],
)
def test_an_invalid_tool_call_is_refused(changes: dict[str, Any], message: str) -> None:
    """003-R073, 003-R075: external data is validated on entry."""
    with pytest.raises(Incorrect, match=message):
        _toolcall(**changes)
