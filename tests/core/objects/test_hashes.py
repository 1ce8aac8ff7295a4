"""The five hashes: what each covers and what it excludes."""

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.objects.hashes import (
    NOT_METADATA,
    content_hash,
    file_hash,
    file_metadata_hash,
    identity_hash,
    is_hash,
    metadata_hash,
    object_hash,
)
from ctxmgr.core.store.canonical import canonical
from ctxmgr.errors import Incorrect
from tests.core.builders.values import maps, reordered, sources, texts

hashes = st.none() | st.sampled_from(["a" * 64, "b" * 64])
inputs = st.tuples(hashes, hashes, st.sampled_from(["c" * 64, "d" * 64]))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_the_identity_of_a_sourced_object_is_of_type_and_source() -> None:
    """003-R046: any client that knows the source can compute the id."""
    source = {"type": "filesystem", "path": "/a.md", "filesystemId": "h"}

    hashed = identity_hash("file", source=source)

    serialised = '{"source":{"filesystemId":"h","path":"/a.md","type":"filesystem"},"type":"file"}'
    assert hashed == _sha256(serialised)


def test_the_identity_of_an_unsourced_object_is_of_type_and_id() -> None:
    """003-R047: the hash verifies the pair."""
    assert identity_hash("chat", object_id="chat:s") == _sha256('{"type":"chat","xt/id":"chat:s"}')


@given(texts)
def test_the_same_id_with_another_type_has_another_identity(object_id: str) -> None:
    """003-R065: reuse of an id for another type is detected."""
    as_chat = identity_hash("chat", object_id=object_id)

    assert identity_hash("session", object_id=object_id) != as_chat


@given(sources, sources)
def test_identities_are_equal_exactly_if_sources_are(one: Any, other: Any) -> None:
    """003-R044, 003-R066: one source is one object; another filesystem is another."""
    identities = {identity_hash("file", source=value.to_value()) for value in (one, other)}

    assert (len(identities) == 1) == (one == other)


@given(st.binary())
def test_a_file_hash_is_of_the_raw_bytes(data: bytes) -> None:
    """003-R049, 003-A13: for text and binary files."""
    assert file_hash(data) == hashlib.sha256(data).hexdigest()


@given(texts)
def test_unmodified_text_has_equal_file_and_content_hashes(text: str) -> None:
    """003-R052, 003-R060: a reader can tell that the stored text is the file's."""
    assert content_hash(text) == file_hash(text.encode())


def test_no_content_has_no_hash_and_empty_content_has_one() -> None:
    """003-R053: deleted and empty are different."""
    assert content_hash(None) is None
    assert content_hash("") == hashlib.sha256(b"").hexdigest()


def test_content_that_is_not_valid_text_is_refused() -> None:
    """003-A15: a lone surrogate has no UTF-8."""
    with pytest.raises(Incorrect, match="lone surrogate"):
        content_hash("\ud800")


def test_the_metadata_hash_without_fields_is_that_of_the_empty_map() -> None:
    """003-R055: never null, even if a type has no fields."""
    assert metadata_hash({}) == _sha256("{}")


def test_exactly_nine_fields_are_excluded_from_metadata() -> None:
    """003-R056: a tenth would change every existing hash."""
    hashes_of_a_version = {"file_hash", "content_hash", "metadata_hash", "object_hash"}
    envelope = {"xt/id", "type", "source", "identity_hash"}

    assert envelope | {"content"} | hashes_of_a_version == NOT_METADATA


@given(maps, st.sampled_from(sorted(NOT_METADATA)), texts)
def test_excluded_fields_do_not_change_the_metadata_hash(
    fields: dict[str, Any], excluded: str, value: str
) -> None:
    """003-R054, 003-R056: only the fields of the type count."""
    assert metadata_hash({**fields, excluded: value}) == metadata_hash(fields)


@given(maps)
def test_key_order_never_changes_the_metadata_hash(fields: dict[str, Any]) -> None:
    """003-R059: equal values have equal hashes."""
    assert metadata_hash(reordered(fields)) == metadata_hash(fields)


def test_an_object_hash_is_of_the_three_hashes_with_nulls() -> None:
    """003-R057: a missing hash is written as null."""
    expected = _sha256('{"content_hash":null,"file_hash":null,"metadata_hash":"m"}')

    assert object_hash(file=None, content=None, metadata="m") == expected


@given(inputs, inputs)
def test_an_object_hash_changes_exactly_if_an_input_changes(
    one: tuple[Any, Any, Any], other: tuple[Any, Any, Any]
) -> None:
    """003-R058: comparing one hash compares the whole version."""
    hashed = {
        object_hash(file=file, content=content, metadata=metadata)
        for file, content, metadata in (one, other)
    }

    assert (len(hashed) == 1) == (one == other)


@pytest.mark.parametrize("value", [None, 5, "", "a" * 63, "A" * 64, "g" * 64, "a" * 64 + "\n"])
def test_malformed_hashes_are_refused(value: object) -> None:
    """003-R045: SHA-256 in lower-case hex, nothing else."""
    assert not is_hash(value)
    assert is_hash("a" * 64)


@given(texts, st.integers(0, 2**40))
def test_the_metadata_hash_of_a_file_is_the_general_one(file_type: str, char_count: int) -> None:
    """Files have a fast path that writes their two fields directly, in the same canonical bytes."""
    hashed = file_metadata_hash(file_type=file_type, char_count=char_count)

    assert hashed == metadata_hash({"file_type": file_type, "char_count": char_count})


@given(st.none() | texts, st.none() | texts)
def test_an_object_hash_is_of_the_canonical_map_of_its_hashes(
    file: str | None, content: str | None
) -> None:
    """A stored hash may be any text, and a wrong one is still detected."""
    hashed = object_hash(file=file, content=content, metadata="c" * 64)

    expected = {"file_hash": file, "content_hash": content, "metadata_hash": "c" * 64}
    assert hashed == hashlib.sha256(canonical(expected)).hexdigest()
