"""Bundles: versions packed, unpacked, and never believed."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.objects.codec import to_document
from ctxmgr.core.objects.hashes import sha256
from ctxmgr.core.sessions.bundle import Bundle, BundledWrite, BundleWriter, VersionBytes
from ctxmgr.core.store.documents import DEPTH_MAX
from ctxmgr.errors import BundleDamaged, NewerFormat
from tests.core.builders.values import stored_objects

BUNDLES = Path(__file__).parent / "bundles"


@given(st.lists(stored_objects, max_size=6))
def test_what_is_packed_is_unpacked(objects: list[object]) -> None:
    """Nothing of a session is lost on the way (003-R007)."""
    packing, documents = BundleWriter(), {}
    for version in objects:
        document = to_document(version)  # type: ignore[arg-type]
        documents.setdefault(document["xt/id"], []).append(document)
    for number, versions in enumerate(documents.values()):
        packing.add(
            (number * 100 + place, BundledWrite(document=document, valid_from=place))
            for place, document in enumerate(versions)
        )

    bundle = Bundle.from_bytes(packing.to_bytes("s1")[0])

    unpacked = [
        write.document for transaction in bundle.transactions() for write in transaction.writes
    ]
    assert unpacked == [document for versions in documents.values() for document in versions]


def test_equal_sessions_give_equal_bytes() -> None:
    """A bundle can be named by its root (003-R059)."""
    assert BundleWriter().to_bytes("s1") == BundleWriter().to_bytes("s1")


def test_a_newer_format_is_left_alone() -> None:
    """It is said what to do, and nothing is guessed."""
    data = b'{"ctxmgr_bundle":2}\n'

    with pytest.raises(NewerFormat):
        Bundle.from_bytes(data)


def test_a_document_that_is_not_its_hash_is_noticed() -> None:
    """Whoever computes the root anew must still forge every hash."""
    lines = b'{"sequence":1,"writes":[{"fields":{},"hash":"0","id":"a","valid_from":1}]}\n'
    heading = f'{{"ctxmgr_bundle":1,"root":"{sha256(lines)}","session":"s"}}\n'.encode()

    bundle = Bundle.from_bytes(heading + lines)

    with pytest.raises(BundleDamaged):
        list(bundle.transactions())


def test_a_bundle_of_an_earlier_release_is_read() -> None:
    """003-R007: what was exported once stays readable, to the byte."""
    data = gzip.decompress((BUNDLES / "format-1.bundle").read_bytes())
    bundle, packing = Bundle.from_bytes(data), BundleWriter()
    versions: dict[str, list[tuple[int, BundledWrite]]] = {}

    for transaction in bundle.transactions():
        for write in transaction.writes:
            versions.setdefault(write.document["xt/id"], []).append((transaction.sequence, write))
    for each_object in versions.values():
        packing.add(each_object)

    assert len(versions["chat:kept"]) == 5
    assert packing.to_bytes("kept")[1] == bundle.root


def test_a_forged_version_in_the_middle_is_noticed() -> None:
    """003-R010: each version is held to its own hashes, not only the newest."""
    data = gzip.decompress((BUNDLES / "format-1.bundle").read_bytes())
    lines = data.partition(b"\n")[2].replace(b"done 2", b"done 9")
    heading = f'{{"ctxmgr_bundle":1,"root":"{sha256(lines)}","session":"kept"}}\n'.encode()

    with pytest.raises(BundleDamaged, match="chat:kept"):
        list(Bundle.from_bytes(heading + lines).transactions())


def _nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


def _forged(change: Any) -> bytes:
    """Bundle a note whose list is changed so, with every hash made to fit."""
    first = {"xt/id": {"=": "n"}, "type": {"=": "note"}, "items": {"=": ["x"]}}
    written, lines = VersionBytes(), b""
    for sequence, fields in enumerate((first, {"items": change}), start=1):
        written.change(fields)
        write = {"id": "n", "valid_from": sequence, "hash": written.hash(), "fields": fields}
        lines += json.dumps({"sequence": sequence, "writes": [write]}).encode() + b"\n"
    return f'{{"ctxmgr_bundle":1,"root":"{sha256(lines)}","session":"s"}}\n'.encode() + lines


def test_a_list_that_grew_is_unpacked_as_it_was_hashed() -> None:
    """What the forgeries below are made like."""
    bundle = Bundle.from_bytes(_forged({"+": ["y"]}))

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
    bundle = Bundle.from_bytes(_forged(change))

    with pytest.raises(BundleDamaged, match="the change of a field cannot be read"):
        list(bundle.transactions())
