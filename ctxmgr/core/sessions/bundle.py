"""The format of bundles: a session as one portable file with all its versions. Pure.

    lines   {"ctxmgr_bundle": 1, "session": …, "root": SHA-256 of all lines after this one}
            {"sequence": …, "writes": [{"id", "valid_from", "hash", "fields"}, …]}
            …

Every line after the first is a transaction, in the order of their commits. ``hash`` is the SHA-256
of the whole document in canonical JSON. ``fields`` are those that differ from the previous version
of the object, so that a chat takes no more space than its text:

    {"=": value}    set
    {"+": items}    a list that grew at its end
    null            removed

Everything is verified: a bundle with one altered byte is ``BundleDamaged``. A file that is not a
bundle at all is ``Incorrect``.

``VersionBytes`` keeps the canonical bytes of each field, and extends those of a list, so that a
chat of a thousand versions is encoded once.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import orjson

from ctxmgr.core.objects.codec import verify_document
from ctxmgr.core.objects.hashes import NOT_METADATA, sha256
from ctxmgr.core.store.canonical import canonical
from ctxmgr.core.store.contract import Instant
from ctxmgr.core.store.documents import ID, KIND, Document, check_document
from ctxmgr.errors import BundleDamaged, CtxmgrError, Incorrect, NewerFormat

GROWN, SET = "+", "="

_KEPT: Final[frozenset[str]] = frozenset()


class VersionBytes:
    """The canonical bytes of an object's newest version. Field names are ASCII, as in stores."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._lists: dict[str, bytearray] = {}
        """Without the closing bracket."""

    def change(self, fields: Document) -> None:
        """Advance to the next version."""
        for name, change in fields.items():
            if change is not None and GROWN in change:
                _continue(self._lists[name], change[GROWN])
                continue
            self._values.pop(name, None)
            self._lists.pop(name, None)
            if change is not None and isinstance(change[SET], list):
                self._lists[name] = bytearray(b"[")
                _continue(self._lists[name], change[SET])
            elif change is not None:
                self._values[name] = canonical(change[SET])

    def hash(self, *, without: Collection[str] = _KEPT) -> str:
        """Return the SHA-256 of the version in canonical JSON, without some fields."""
        parts: list[bytes | bytearray] = []
        for name in sorted({*self._values, *self._lists}.difference(without)):
            parts += (b"," if parts else b"{", canonical(name), b":")
            value = self._values.get(name)
            parts += (self._lists[name], b"]") if value is None else (value,)
        return sha256(*parts, b"}") if parts else sha256(b"{}")


def difference(before: Document, document: Document) -> Document:
    """Return the changed fields of a version; ``before`` is ``{}`` for the first."""
    fields: Document = {}
    for name, value in document.items():
        old = before.get(name)
        if isinstance(value, list) and isinstance(old, list) and _is_start(old, value):
            if len(value) > len(old):
                fields[name] = {GROWN: value[len(old) :]}
        elif name not in before or not _is_same(old, value):
            fields[name] = {SET: value}
    removed = [name for name in before if name not in document]
    return fields | dict.fromkeys(removed)


def is_change(change: object) -> bool:
    """Whether a value is a valid change of a field. Anything else would be ambiguous."""
    if change is None:
        return True
    if not isinstance(change, dict) or len(change) != 1:
        return False
    return SET in change or isinstance(change.get(GROWN), list)


def changed(before: Document, fields: Document) -> Document:
    """Return the version that results from changes of the previous one."""
    document = dict(before)
    for name, change in fields.items():
        if change is None:
            document.pop(name, None)
        elif GROWN in change:
            document[name] = [*document[name], *change[GROWN]]
        else:
            document[name] = change[SET]
    return document


def _continue(written: bytearray, items: list[Any]) -> None:
    if items:
        written += b"," if len(written) > 1 else b""
        written += canonical(items)[1:-1]


def _is_start(old: list[Any], new: list[Any]) -> bool:
    if len(old) > len(new):
        return False
    # Versions that were read together mostly share their items, which need no comparison.
    others = [pair for pair in zip(old, new, strict=False) if pair[0] is not pair[1]]
    return _is_same([pair[0] for pair in others], [pair[1] for pair in others])


def _is_same(old: Any, new: Any) -> bool:
    """Compare values as they are stored: in Python, True equals 1.

    Canonical JSON would take several times as long.
    """
    try:
        return _compact(old) == _compact(new)
    except TypeError:  # an integer beyond 64 bits
        return canonical(old) == canonical(new)


def _compact(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


BUNDLE_FORMAT: Final = 1

NO_BUNDLE: Final = "not a bundle: pass a file that `ctxmgr export` has written"

Read: TypeAlias = Callable[[Any, "_Before"], "BundledWrite"]
"""Unpacks a write, given the newest version of each object before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledWrite:
    """One version of one object."""

    document: Document = field(repr=False)
    valid_from: Instant
    hash: str | None = None
    """Of the document, verified; None if it does not come from a bundle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledTransaction:
    """What one transaction wrote of the session."""

    sequence: int
    """In the store that it was exported from."""
    writes: tuple[BundledWrite, ...]


class VersionHashes:
    """Hashes the versions of one object in order, and finds what each of them changed."""

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
    """The versions of one object, packed in order."""

    def __init__(self) -> None:
        self.packed: list[tuple[int, Document]] = []
        self._hashes = VersionHashes()

    def follows(self, sequence: int) -> bool:
        """Whether a version may be added next: sequences must ascend."""
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


class BundleWriter:
    """Packs objects, each with all its versions."""

    def __init__(self) -> None:
        self._writes: dict[int, list[Document]] = {}

    def add(self, versions: Iterable[tuple[int, BundledWrite]]) -> None:
        """Add the versions of one object with their sequences, in ascending order."""
        own = Versions()
        for sequence, write in versions:
            own.add(sequence, write)
        self.take(own)

    def take(self, versions: Versions) -> None:
        """Add the versions of one object that were packed already."""
        for sequence, packed in versions.packed:
            self._writes.setdefault(sequence, []).append(packed)

    def to_bytes(self, session_id: str) -> tuple[bytes, str]:
        """Return the bundle and its root hash. Equal sessions result in equal bytes."""
        lines = b"".join(
            _line({"sequence": sequence, "writes": self._writes[sequence]})
            for sequence in sorted(self._writes)
        )
        root = sha256(lines)
        heading = {"ctxmgr_bundle": BUNDLE_FORMAT, "session": session_id, "root": root}
        return _line(heading) + lines, root


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle whose root hash has been verified."""

    session_id: str
    root: str
    _lines: bytes = field(repr=False)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Bundle":
        """Read a bundle; ``BundleDamaged`` if its root hash does not match."""
        first, _, lines = data.partition(b"\n")
        heading = _heading(first)
        if heading["ctxmgr_bundle"] > BUNDLE_FORMAT:
            raise NewerFormat("the bundle", heading["ctxmgr_bundle"], BUNDLE_FORMAT)
        if heading.get("root") != sha256(lines):
            raise BundleDamaged("the root hash of the bundle does not match its lines")
        return cls(str(heading.get("session")), heading["root"], lines)

    def transactions(self) -> Iterator[BundledTransaction]:
        """Yield the transactions in order; every document is verified."""
        return self._read(_checked_write)

    def transactions_again(self) -> Iterator[BundledTransaction]:
        """Yield the transactions without verifying them again, which takes most of the time."""
        return self._read(_write)

    def _read(self, read: Read) -> Iterator[BundledTransaction]:
        before = _Before()
        for line in self._lines.splitlines():
            value = _object(line)
            try:
                writes = tuple(read(write, before) for write in value["writes"])
                yield BundledTransaction(sequence=value["sequence"], writes=writes)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise BundleDamaged(
                    f"a line of the bundle is not a transaction: {error!r}"
                ) from error


class _Before:
    """The newest version of each object that has been unpacked."""

    def __init__(self) -> None:
        self.documents: dict[str, Document] = {}
        self.bytes: defaultdict[str, VersionBytes] = defaultdict(VersionBytes)


def _checked_write(packed: Any, before: _Before) -> BundledWrite:
    if not all(map(is_change, packed["fields"].values())):
        raise BundleDamaged(f"{packed['id']!r:.80}: the change of a field cannot be read")
    write = _write(packed, before)
    document, object_id = write.document, packed["id"]
    written = before.bytes[object_id]
    try:
        check_document(_new_in(document, packed["fields"]))
        written.change(packed["fields"])
        if document.get(ID) != object_id or written.hash() != packed["hash"]:
            raise BundleDamaged("the document does not match its hash")
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
    """Return the fields of a version that have not been checked with the previous version."""
    changes = {name: change for name, change in fields.items() if change is not None}
    new = {name: change.get(SET, change.get(GROWN)) for name, change in changes.items()}
    return {**new, ID: document.get(ID), KIND: document.get(KIND)}


def _line(value: Document) -> bytes:
    # Not canonical JSON, in which a large float would be read back as an integer.
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return text.encode() + b"\n"


def _heading(line: bytes) -> dict[str, Any]:
    try:
        heading = _object(line)
    except BundleDamaged as error:
        raise Incorrect(f"{NO_BUNDLE} (its first line is not that of a bundle)") from error
    if not isinstance(heading.get("ctxmgr_bundle"), int):
        raise Incorrect(f"{NO_BUNDLE} (its first line is not that of a bundle)")
    return heading


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BundleDamaged(f"a line of the bundle is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise BundleDamaged("a line of the bundle is not a JSON object")
    return value
