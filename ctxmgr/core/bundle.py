"""A session as one portable file: every version that it is made of, each named by its hash. Pure.

    lines   {"ctxmgr_bundle": 1, "session": …, "root": SHA-256 of all lines after this one}
            {"sequence": …, "writes": [{"id", "valid_from", "hash", "fields"}, …]}
            …

A line is a transaction, in the order they were committed. ``hash`` is the SHA-256 of the whole
document in canonical JSON. ``fields`` gives those that differ from the object's version before it,
as ``{"=": value}``, or ``{"+": items}`` for a list that grew: so a chat costs what its text costs.

Nothing is believed: a bundle with one altered byte is ``BundleDamaged``. What never was a bundle is
``Incorrect``: its giver took one file for another.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from ctxmgr.core.documents import ID, KIND, Document, check_document
from ctxmgr.core.hashes import NOT_METADATA, sha256
from ctxmgr.core.objects import verify_document
from ctxmgr.core.store import Instant
from ctxmgr.core.version_bytes import (
    GROWN,
    SET,
    VersionBytes,
    changed,
    difference,
    is_change,
)
from ctxmgr.errors import BundleDamaged, CtxmgrError, Incorrect, NewerFormat

BUNDLE_FORMAT: Final = 1

NO_BUNDLE: Final = "this is no bundle: give a file that `ctxmgr export` wrote"

Read: TypeAlias = Callable[[Any, "_Before"], "BundledWrite"]
"""Unpacks a write, given the newest version of each object before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledWrite:
    """One version of one object."""

    document: Document = field(repr=False)
    valid_from: Instant
    hash: str | None = None
    """Of the document, as its bundle says and was checked; None: it comes from no bundle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledTransaction:
    """What one transaction wrote of the session."""

    sequence: int
    """In the store it was exported from."""
    writes: tuple[BundledWrite, ...]


class VersionHashes:
    """Hashes the versions of one object one after the other, and finds what each changed."""

    def __init__(self) -> None:
        self._before: Document = {}
        self._bytes = VersionBytes()

    def next(self, document: Document) -> tuple[str, Document]:
        """Return the hash of the next version, and its ``fields``."""
        fields = difference(self._before, document)
        self._bytes.change(fields)
        self._before = document
        return self._bytes.hash(), fields


class Versions:
    """The versions of one object, packed one after the other; holds what their text costs."""

    def __init__(self) -> None:
        self.packed: list[tuple[int, Document]] = []
        self._hashes = VersionHashes()

    def follows(self, sequence: int) -> bool:
        """Tell whether a version may come next: their sequences ascend."""
        return not self.packed or sequence >= self.packed[-1][0]

    def add(self, sequence: int, write: BundledWrite) -> None:
        assert self.follows(sequence)
        hashed, fields = self._hashes.next(write.document)
        packed = {
            "id": write.document[ID],
            "valid_from": write.valid_from,
            "hash": hashed,
            "fields": fields,
        }
        self.packed.append((sequence, packed))


class Packing:
    """Packs objects, each with all its versions."""

    def __init__(self) -> None:
        self._writes: dict[int, list[Document]] = {}

    def add(self, versions: Iterable[tuple[int, BundledWrite]]) -> None:
        """Take the versions of one object with their sequences, in ascending order."""
        own = Versions()
        for sequence, write in versions:
            own.add(sequence, write)
        self.take(own)

    def take(self, versions: Versions) -> None:
        """Take the versions of one object that were packed already."""
        for sequence, packed in versions.packed:
            self._writes.setdefault(sequence, []).append(packed)

    def to_bytes(self, session_id: str) -> tuple[bytes, str]:
        """Return the bundle and its root hash. Equal sessions give equal bytes."""
        lines = b"".join(
            _line({"sequence": sequence, "writes": self._writes[sequence]})
            for sequence in sorted(self._writes)
        )
        root = sha256(lines)
        heading = {"ctxmgr_bundle": BUNDLE_FORMAT, "session": session_id, "root": root}
        return _line(heading) + lines, root


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle whose root hash was right."""

    session_id: str
    root: str
    _lines: bytes = field(repr=False)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Bundle":
        """Check a bundle; ``BundleDamaged`` unless it is as it was made."""
        heading, _, lines = data.partition(b"\n")
        known = _heading(heading)
        if known["ctxmgr_bundle"] > BUNDLE_FORMAT:
            raise NewerFormat("the bundle", known["ctxmgr_bundle"], BUNDLE_FORMAT)
        if known.get("root") != sha256(lines):
            raise BundleDamaged("the bundle's root hash is not that of what it holds")
        return cls(str(known.get("session")), known["root"], lines)

    def transactions(self) -> Iterator[BundledTransaction]:
        """Give what it holds, in order, each document checked against its hashes."""
        return self._read(_checked_write)

    def transactions_again(self) -> Iterator[BundledTransaction]:
        """Give the same once more, after all of it was checked: that costs most of the time."""
        return self._read(_write)

    def _read(self, read: Read) -> Iterator[BundledTransaction]:
        before = _Before()
        for line in self._lines.splitlines():
            known = _object(line)
            try:
                writes = tuple(read(each, before) for each in known["writes"])
                yield BundledTransaction(sequence=known["sequence"], writes=writes)
            except (KeyError, TypeError, AttributeError) as error:
                raise BundleDamaged(f"the bundle's line is no transaction: {error!r}") from error


class _Before:
    """The newest version of each object that was unpacked so far."""

    def __init__(self) -> None:
        self.documents: dict[str, Document] = {}
        self.bytes: defaultdict[str, VersionBytes] = defaultdict(VersionBytes)


def _checked_write(packed: Any, before: _Before) -> BundledWrite:
    if not all(map(is_change, packed["fields"].values())):
        raise BundleDamaged(f"{packed['id']!r:.80}: a field is neither set, continued nor removed")
    write = _write(packed, before)
    document, object_id = write.document, packed["id"]
    written = before.bytes[object_id]
    try:
        check_document(_new_in(document, packed["fields"]))
        written.change(packed["fields"])
        if document.get(ID) != object_id or written.hash() != packed["hash"]:
            raise BundleDamaged("the bundled document is not that of its hash")
        verify_document(document, metadata=written.hash(without=NOT_METADATA))
    except CtxmgrError as error:
        raise BundleDamaged(f"{object_id!r:.80}: {error}") from error
    return write


def _write(packed: Any, before: _Before) -> BundledWrite:
    object_id = packed["id"]
    document = changed(before.documents.get(object_id, {}), packed["fields"])
    before.documents[object_id] = document
    return BundledWrite(
        document=document, valid_from=int(packed["valid_from"]), hash=packed["hash"]
    )


def _new_in(document: Document, fields: Document) -> Document:
    """Return what has to be checked of a version: the rest was, with the version before it."""
    changes = {name: change for name, change in fields.items() if change is not None}
    new = {name: change.get(SET, change.get(GROWN)) for name, change in changes.items()}
    return {**new, ID: document.get(ID), KIND: document.get(KIND)}


def _line(value: Document) -> bytes:
    # Not canonical JSON, in which a large float is read back as another number.
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return text.encode() + b"\n"


def _heading(line: bytes) -> dict[str, Any]:
    try:
        known = _object(line)
    except BundleDamaged as error:
        raise Incorrect(f"{NO_BUNDLE} (its first line is not a bundle's)") from error
    if not isinstance(known.get("ctxmgr_bundle"), int):
        raise Incorrect(f"{NO_BUNDLE} (its first line is not a bundle's)")
    return known


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BundleDamaged(f"the bundle holds a line that is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise BundleDamaged("the bundle holds a line that is no object")
    return value
