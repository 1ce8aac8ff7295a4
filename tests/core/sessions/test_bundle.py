"""Bundles: versions are packed, unpacked and never trusted."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.objects.codec import to_document
from ctxmgr.core.objects.hashes import sha256
from ctxmgr.core.sessions.bundle import BundledWrite, BundleWriter, VersionBytes
from ctxmgr.core.store.documents import DEPTH_MAX
from ctxmgr.errors import BundleDamaged, NewerFormat
from tests.core.builders.values import stored_objects
from tests.core.sessions.hostile_bundles import read_bundle

BUNDLES = Path(__file__).parent / "bundles"


@given(st.lists(stored_objects, max_size=6))
def test_a_packed_session_is_unpacked_unchanged(objects: list[object]) -> None:
    """No version of a session is lost (003-R007)."""
    packing, documents = BundleWriter(), {}
    for version in objects:
        document = to_document(version)  # type: ignore[arg-type]
        documents.setdefault(document["xt/id"], []).append(document)
    for number, versions in enumerate(documents.values()):
        packing.add(
            (number * 100 + position, BundledWrite(document=document, valid_from=position))
            for position, document in enumerate(versions)
        )

    bundle = read_bundle(packing.to_bytes("s1")[0])

    unpacked = [
        write.document for transaction in bundle.transactions() for write in transaction.writes
    ]
    assert unpacked == [document for versions in documents.values() for document in versions]


def test_equal_sessions_give_equal_bytes() -> None:
    """A bundle can be identified by its root (003-R059)."""
    assert BundleWriter().to_bytes("s1") == BundleWriter().to_bytes("s1")


def test_a_newer_format_is_refused() -> None:
    """The error says what to do; an unknown format is not guessed at."""
    data = b'{"ctxmgr_bundle":4}\n'

    with pytest.raises(NewerFormat):
        read_bundle(data)


def test_a_document_that_does_not_match_its_hash_is_refused() -> None:
    """Recomputing the root is not enough to forge a bundle."""
    lines = b'{"sequence":1,"writes":[{"fields":{},"hash":"0","id":"a","valid_from":1}]}\n'
    heading = f'{{"ctxmgr_bundle":1,"root":"{sha256(lines)}","session":"s"}}\n'.encode()

    bundle = read_bundle(heading + lines)

    with pytest.raises(BundleDamaged):
        list(bundle.transactions())


def test_a_bundle_of_an_earlier_release_is_read() -> None:
    """003-R007: old exports stay readable, byte for byte."""
    data = gzip.decompress((BUNDLES / "format-1.bundle").read_bytes())
    bundle, packing = read_bundle(data), BundleWriter()
    versions: dict[str, list[tuple[int, BundledWrite]]] = {}

    for transaction in bundle.transactions():
        for write in transaction.writes:
            versions.setdefault(write.document["xt/id"], []).append((transaction.sequence, write))
    for object_versions in versions.values():
        packing.add(object_versions)

    assert len(versions["chat:kept"]) == 5
    assert packing.to_bytes("kept")[1] == bundle.root


def test_a_forged_version_in_the_middle_is_detected() -> None:
    """003-R010: every version is verified by its hashes, not only the newest."""
    data = gzip.decompress((BUNDLES / "format-1.bundle").read_bytes())
    lines = data.partition(b"\n")[2].replace(b"done 2", b"done 9")
    heading = f'{{"ctxmgr_bundle":1,"root":"{sha256(lines)}","session":"kept"}}\n'.encode()

    with pytest.raises(BundleDamaged, match="chat:kept"):
        list(read_bundle(heading + lines).transactions())


def _nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


def _forged(change: Any) -> bytes:
    """Bundle a note with this change of its list, and matching hashes."""
    first = {"xt/id": {"=": "n"}, "type": {"=": "note"}, "items": {"=": ["x"]}}
    written, lines = VersionBytes(), b""
    for sequence, fields in enumerate((first, {"items": change}), start=1):
        written.change(fields)
        write = {"id": "n", "valid_from": sequence, "hash": written.hash(), "fields": fields}
        lines += json.dumps({"sequence": sequence, "writes": [write]}).encode() + b"\n"
    return f'{{"ctxmgr_bundle":1,"root":"{sha256(lines)}","session":"s"}}\n'.encode() + lines


def test_a_list_that_grew_is_unpacked_as_it_was_hashed() -> None:
    """What the forgeries below are made like."""
    bundle = read_bundle(_forged({"+": ["y"]}))

    assert [transaction.writes[0].document["items"] for transaction in bundle.transactions()][
        -1
    ] == ["x", "y"]


@pytest.mark.parametrize(
    "change",
    [
        {"+": "abc"},
        {"+": {"k": 1}},
        {"=": ["x"], "+": ["y"]},
        {"=": ["x"], "+": [_nested(DEPTH_MAX + 1)]},
        {"=": ["x"], "-": 1},
    ],
    ids=["text", "mapping", "both", "both and too deep", "more"],
)
def test_a_change_that_can_be_read_in_two_ways_is_noticed(change: Any) -> None:
    """Else what is stored would be neither what was hashed nor what was checked."""
    bundle = read_bundle(_forged(change))

    with pytest.raises(BundleDamaged, match="the change of a field cannot be read"):
        list(bundle.transactions())
