"""The format of bundles: a session as one portable file with all its versions. Pure.

    lines   {"ctxmgr_bundle": 3, "session": …, "root": SHA-256 of all lines after this one}
            {"sequence": …, "writes": [{"id", "valid_from", "hash", "fields"}, …]}
            …

Every line after the first is a transaction, in the order of their commits, and holds each object
once. ``hash`` is the SHA-256 of the whole document in canonical JSON. ``fields`` are those that
differ from the previous version of the object, so that a chat takes no more space than its text:

    {"=": value}    set
    {"+": items}    a list that grew at its end
    null            removed

Everything is verified: a bundle with one altered byte is ``BundleDamaged``. A file that is not a
bundle at all is ``Incorrect``. Versions of the five types are verified by their own hashes, which
cover every field; ``hash`` would be a second hash over the same bytes. Lines are read one at a time
and counted against a ``BundleBudget``.

``VersionBytes`` keeps the canonical bytes of each field, and extends those of a list, so that a
chat of a thousand versions is encoded once.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Self, TypeAlias

import orjson

from ctxmgr.core.append_only import AppendOnly
from ctxmgr.core.objects.codec import verify_document
from ctxmgr.core.objects.compaction import COMPACTION
from ctxmgr.core.objects.envelope import OBJECT_KINDS, check_session_id
from ctxmgr.core.objects.hashes import NOT_METADATA, sha256
from ctxmgr.core.sessions.bundle_limits import BundleBudget, count_values
from ctxmgr.core.store.canonical import canonical
from ctxmgr.core.store.contract import INSTANT_MAX, Instant
from ctxmgr.core.store.documents import (
    ID,
    KIND,
    Document,
    check_document,
    check_size,
    check_transaction_size,
)
from ctxmgr.errors import BundleDamaged, CtxmgrError, Incorrect, NewerFormat

GROWN, SET = "+", "="

_KEPT: Final[frozenset[str]] = frozenset()


class VersionBytes:
    """The canonical bytes of an object's newest version. Field names are ASCII, as in stores."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._lists: dict[str, bytearray] = {}
        """Without the closing bracket."""

    @property
    def size(self) -> int:
        """The bytes of all values."""
        return sum(map(len, self._values.values())) + sum(map(len, self._lists.values()))

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


BUNDLE_FORMAT: Final = 3
"""The newest format. Bundles of format 1 hold no policy of their session, and only those of format
3 hold compactions; all are read alike."""

WITHOUT_COMPACTIONS: Final = 2
"""The format of a bundle without compactions, which earlier versions can read."""

SEQUENCE_MAX: Final = 2**63 - 1
"""Sequences are 64-bit integers in every store."""

NO_BUNDLE: Final = "not a bundle: pass a file that `ctxmgr export` has written"

Lines: TypeAlias = Callable[[], Iterator[bytes]]
"""Reads the unpacked lines of a bundle, from the first; each ends with a newline."""

Verify: TypeAlias = Callable[[Document, Document, Callable[[], str]], None]
"""Verifies a version: its document, the new values of changed fields, where a list that grew has
only its new items, and what returns its ``metadata_hash``. Raises one of our errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledWrite:
    """One version of one object."""

    document: Document = field(repr=False)
    valid_from: Instant
    hash: str | None = None
    """Identifies the version, as ``version_hash`` does; None if it does not come from a bundle."""
    grown: Mapping[str, AppendOnly[Any]] = field(default_factory=dict, repr=False, compare=False)
    """The lists of the document that have grown so far, so that a store reads only what is new."""


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
        self._format = WITHOUT_COMPACTIONS

    def add(self, versions: Iterable[tuple[int, BundledWrite]]) -> None:
        """Add the versions of one object with their sequences, in ascending order."""
        own = Versions()
        for sequence, write in versions:
            own.add(sequence, write)
        self.take(own)

    def take(self, versions: Versions) -> None:
        """Add the versions of one object that were packed already."""
        for sequence, packed in versions.packed:
            if str(packed["id"]).startswith(f"{COMPACTION}:"):
                self._format = BUNDLE_FORMAT
            self._writes.setdefault(sequence, []).append(packed)

    def to_bytes(self, session_id: str) -> tuple[bytes, str]:
        """Return the bundle and its root hash. Equal sessions result in equal bytes."""
        lines = b"".join(
            _line({"sequence": sequence, "writes": self._writes[sequence]})
            for sequence in sorted(self._writes)
        )
        root = sha256(lines)
        heading = {"ctxmgr_bundle": self._format, "session": session_id, "root": root}
        return _line(heading) + lines, root


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle whose root hash has been verified."""

    session_id: str
    root: str
    _lines: Lines = field(repr=False)
    _budget: BundleBudget = field(repr=False)

    @classmethod
    def from_lines(cls, lines: Lines, *, budget: BundleBudget) -> Self:
        """Read a bundle; ``BundleDamaged`` if its root hash does not match."""
        reading = lines()
        heading = _heading(next(reading, b""), budget)
        if heading["ctxmgr_bundle"] > BUNDLE_FORMAT:
            raise NewerFormat("the bundle", heading["ctxmgr_bundle"], BUNDLE_FORMAT)
        hashed = hashlib.sha256()
        for line in reading:
            hashed.update(line)
        if heading.get("root") != hashed.hexdigest():
            raise BundleDamaged("the root hash of the bundle does not match its lines")
        try:
            check_session_id(heading.get("session"))
        except Incorrect as error:
            raise BundleDamaged(f"the bundle does not name its session: {error}") from error
        return cls(heading["session"], heading["root"], lines, budget)

    def transactions(self, verify: Verify | None = None) -> Iterator[BundledTransaction]:
        """Yield the transactions in order; every document is verified, by default its hashes."""
        return self._read(_CheckedVersions(verify or _verify_hashes, budget=self._budget))

    def transactions_again(self) -> Iterator[BundledTransaction]:
        """Yield the transactions without verifying them again, which takes most of the time."""
        return self._read(_Versions())

    def _read(self, versions: "_Versions") -> Iterator[BundledTransaction]:
        last = -1
        for number, line in enumerate(self._lines()):
            if number == 0:
                continue
            value = _object(line, self._budget)
            try:
                sequence, writes = value["sequence"], value["writes"]
                if type(sequence) is not int or not last < sequence <= SEQUENCE_MAX:
                    raise BundleDamaged(f"{sequence!r:.80} does not follow transaction {last}")
                ids = [packed["id"] for packed in writes]
                if len(set(ids)) < len(ids):
                    raise BundleDamaged(f"transaction {sequence} writes an object twice")
                read = tuple(map(versions.read, writes))
                with _damaged(f"transaction {sequence}"):
                    check_transaction_size(sum(map(versions.size, ids)))
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise BundleDamaged(
                    f"a line of the bundle is not a transaction: {error!r:.200}"
                ) from error
            last = sequence
            yield BundledTransaction(sequence=sequence, writes=read)


class _Versions:
    """Unpacks the versions of objects, and keeps the newest of each."""

    def __init__(self) -> None:
        self._documents: dict[str, Document] = {}
        self._grown: dict[str, dict[str, AppendOnly[Any]]] = {}

    def read(self, packed: Any) -> BundledWrite:
        object_id = packed["id"]
        document = changed(self._documents.get(object_id, {}), packed["fields"])
        self._documents[object_id] = document
        hashed = document["object_hash"] if document[KIND] in OBJECT_KINDS else packed["hash"]
        return BundledWrite(
            document=document,
            valid_from=packed["valid_from"],
            hash=hashed,
            grown=self._lists(object_id, document, packed["fields"]),
        )

    def _lists(
        self, object_id: str, document: Document, fields: Document
    ) -> Mapping[str, AppendOnly[Any]]:
        """Return the lists of a version that began as those of the version before it."""
        lists = dict(self._grown.get(object_id, {}))
        for name, change in fields.items():
            if change is not None and GROWN in change:
                before = lists.get(name)
                new = change[GROWN]
                lists[name] = AppendOnly(document[name]) if before is None else before.add(new)
            else:
                lists.pop(name, None)
        self._grown[object_id] = lists
        return lists

    def size(self, _object_id: str) -> int:
        """Return the bytes of an object's newest version, as far as they are counted."""
        return 0


class _CheckedVersions(_Versions):
    """Verifies each version as it is unpacked."""

    def __init__(self, verify: Verify, *, budget: BundleBudget) -> None:
        super().__init__()
        self._verify = verify
        self._budget = budget
        self._bytes: defaultdict[str, VersionBytes] = defaultdict(VersionBytes)
        self._values: defaultdict[str, dict[str, int]] = defaultdict(dict)
        """Object → field → the values in it."""

    def read(self, packed: Any) -> BundledWrite:
        object_id, fields, valid_from = packed["id"], packed["fields"], packed["valid_from"]
        if not all(map(is_change, fields.values())):
            raise BundleDamaged(f"{object_id!r:.80}: the change of a field cannot be read")
        if type(valid_from) is not int or not 0 <= valid_from <= INSTANT_MAX:
            raise BundleDamaged(
                f"{object_id!r:.80}: {valid_from!r:.80} is not a time in UTC milliseconds"
            )
        new = {
            name: change.get(SET, change.get(GROWN))
            for name, change in fields.items()
            if change is not None
        }
        before = self._documents.get(object_id, {})
        with _damaged(object_id):
            # What has not changed was checked with the version before.
            check_document({**new, ID: new.get(ID, before.get(ID)), KIND: _kind(before, new)})
        write, written = super().read(packed), self._bytes[object_id]
        written.change(fields)
        size = written.size
        self._budget.add_version(hashed_bytes=size, values=self._added(object_id, fields, new))
        with _damaged(object_id):
            check_size(object_id, size)
            if write.document.get(ID) != object_id:
                raise BundleDamaged(f"its document has the id {write.document.get(ID)!r:.80}")
            if write.document[KIND] not in OBJECT_KINDS and written.hash() != packed["hash"]:
                raise BundleDamaged("the document does not match its hash")
            self._verify(write.document, new, partial(written.hash, without=NOT_METADATA))
        return write

    def size(self, object_id: str) -> int:
        return self._bytes[object_id].size

    def _added(self, object_id: str, fields: Document, new: Document) -> int:
        """Return how many more values the object's newest version has than the one before."""
        counts, added = self._values[object_id], 0
        for name, change in fields.items():
            count = count_values(new[name]) if name in new else 0
            before = counts.get(name, 0)
            counts[name] = before + count if change is not None and GROWN in change else count
            added += counts[name] - before
        return added


@contextmanager
def _damaged(where: object) -> Iterator[None]:
    """Raise our errors as ``BundleDamaged``, with the place."""
    try:
        yield
    except CtxmgrError as error:
        raise BundleDamaged(f"{where!r:.80}: {error}") from error


def version_hash(document: Document) -> str:
    """Return what identifies a version among those of its object."""
    if document.get(KIND) in OBJECT_KINDS:
        return str(document.get("object_hash"))
    return sha256(canonical(document))


def _verify_hashes(document: Document, _: Document, metadata: Callable[[], str]) -> None:
    if document[KIND] in OBJECT_KINDS:
        verify_document(document, metadata=metadata())


def _kind(before: Document, new: Document) -> Any:
    """Return the kind of a version, which never changes."""
    kind = new.get(KIND, before.get(KIND))
    if before and kind != before[KIND]:
        raise BundleDamaged(f"it changes its type from {before[KIND]} to {kind!r:.80}")
    return kind


def _line(value: Document) -> bytes:
    # Not canonical JSON, in which a large float would be read back as an integer.
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return text.encode() + b"\n"


def _heading(line: bytes, budget: BundleBudget) -> dict[str, Any]:
    try:
        heading = _object(line, budget)
    except BundleDamaged as error:
        raise Incorrect(f"{NO_BUNDLE} (its first line is not that of a bundle)") from error
    if type(heading.get("ctxmgr_bundle")) is not int:
        raise Incorrect(f"{NO_BUNDLE} (its first line is not that of a bundle)")
    return heading


def _object(line: bytes, budget: BundleBudget) -> dict[str, Any]:
    budget.check_line(line)
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BundleDamaged(f"a line of the bundle is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise BundleDamaged("a line of the bundle is not a JSON object")
    return value
