"""Golden vectors from a program in another language: an independent check of all hashes."""

import json
import struct
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from ctxmgr.core.objects.codec import from_document, to_document, verify_document
from ctxmgr.core.objects.hashes import (
    content_hash,
    file_hash,
    identity_hash,
    metadata_hash,
    object_hash,
    sha256,
)
from ctxmgr.core.store.canonical import canonical
from tests.components import need

FOLDER: Final = Path(__file__).parent / "vectors"
TEXT: Final = (FOLDER / "vectors.json").read_text(encoding="utf-8")
VECTORS: Final[dict[str, list[dict[str, Any]]]] = json.loads(TEXT)


def _untagged(tagged: dict[str, Any]) -> Any:
    [(tag, inner)] = tagged.items()
    match tag:
        case "i":
            return _integer(inner)
        case "f":
            return struct.unpack(">d", bytes.fromhex(inner))[0]
        case "l":
            return [_untagged(item) for item in inner]
        case "m":
            return {key: _untagged(item) for key, item in inner}
        case _:
            return inner


def _integer(digits: str) -> int:
    sign, digits = (-1, digits[1:]) if digits.startswith("-") else (1, digits)
    number = 0
    for start in range(0, len(digits), 4_000):
        piece = digits[start : start + 4_000]
        number = number * 10 ** len(piece) + int(piece)
    return sign * number


def _ids(vector: dict[str, Any]) -> str:
    return str(vector["name"])


@pytest.mark.parametrize("vector", VECTORS["values"], ids=_ids)
def test_a_value_has_the_canonical_form_of_the_vector(vector: dict[str, Any]) -> None:
    """003-A15, 003-R059: including integers beyond 2^53, which no other check covers."""
    value = _untagged(vector["value"])

    assert canonical(value) == vector["canonical"].encode()
    assert sha256(canonical(value)) == vector["sha256"]


@pytest.mark.parametrize("vector", VECTORS["objects"], ids=_ids)
def test_an_object_has_the_five_hashes_of_the_vector(vector: dict[str, Any]) -> None:
    """003-R045, 003-R046, 003-R047, 003-R049, 003-R050, 003-R051, 003-R052, 003-R053, 003-R054,
    003-R055, 003-R056, 003-R057, 003-R058: a client in any language recomputes them.
    """
    document = _untagged(vector["document"])
    source, content = document["source"], document["content"]
    given = {"source": source} if source else {"object_id": document["xt/id"]}

    assert identity_hash(document["type"], **given) == document["identity_hash"]
    assert content_hash(content) == document["content_hash"]
    assert metadata_hash(document) == document["metadata_hash"]
    hashes = {"content": document["content_hash"], "metadata": document["metadata_hash"]}
    assert object_hash(file=document.get("file_hash"), **hashes) == document["object_hash"]


@pytest.mark.parametrize("vector", VECTORS["objects"], ids=_ids)
def test_the_document_of_a_vector_is_read_and_written_unchanged(vector: dict[str, Any]) -> None:
    """003-R017, 003-R028, 003-R032, 003-R033, 003-R085:
    the stored form has exactly the specified fields.
    """
    document = _untagged(vector["document"])

    version = from_document(document)

    verify_document(document)
    assert to_document(version) == document
    assert canonical(to_document(version)) == vector["canonical"].encode()


@pytest.mark.parametrize("vector", VECTORS["bytes"])
def test_bytes_have_the_file_hash_of_the_vector(vector: dict[str, str]) -> None:
    """003-R049, 003-A13: of the raw bytes, for text and binary files."""
    assert file_hash(bytes.fromhex(vector["hex"])) == vector["file_hash"]


def test_the_vectors_are_the_output_of_the_program() -> None:
    """A golden file edited by hand would prove nothing."""
    need("node")

    made = subprocess.run(
        ["node", FOLDER / "make.mjs"], capture_output=True, check=True, timeout=60, text=True
    )

    assert made.stdout == TEXT
