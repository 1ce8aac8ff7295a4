"""A checked transaction on its way to the writer: encoded documents, digest and key. Computes.

Documents are encoded before any other task runs, so that what the caller changes in them later
affects neither what is written nor what the key stands for.

    document    a single JSON body     small, or without parts worth storing separately
                JSON per field         otherwise, or once it has a previous version to share with
                GrownField             a long list that grows from version to version: only its new
                                       items are encoded
    digest      24 bytes of the hash of the writes, 8 of the hash of the matches

A transaction without a caller's key gets a generated one:

    mark    8 random bytes; for a transaction with matches, 8 bytes of their hash follow.
            Stored in place of the digest. A writer keeps its mark until something is rolled back.
            A transaction stored without a mark has the mark of the nearest one before it
    key     the random bytes in hex, "-", the sequence

The sequence alone would not identify a transaction: when a COMMIT fails, it is used again.
"""

import hashlib
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self, TypeAlias

import orjson

from ctxmgr.core.append_only import AppendOnly, Fold
from ctxmgr.core.store.canonical import canonical_items
from ctxmgr.core.store.contract import Delete, Instant, Match, Put
from ctxmgr.core.store.documents import ID, Document, check_size
from ctxmgr.core.store.transactions import LONG_LIST_MIN, CheckedOperations, digest, written_id
from ctxmgr.stores.sqlite.body_format import SPACE, dumps, join_fields, loads
from ctxmgr.stores.sqlite.body_reader import raw_fields

PLAIN_MAX: Final = 1_024
"""Bytes of JSON up to which a document is stored as a single body: splitting would save little."""

PIECE_MIN: Final = 8_192
"""Bytes of JSON from which a value is stored once, under its hash. That is half a page: looking up
a smaller one takes as long as writing it several times."""

MARK_EVERY: Final = 64
"""Transactions after which a mark is written again, which bounds the search for it."""

_ITEMS_MAX: Final = 32
"""List items above which a document is split without encoding it whole first."""

_LARGE_TEXT_MIN: Final = PIECE_MIN // 6
"""Characters from which a text may reach ``PIECE_MIN``: JSON takes at most six bytes for each."""

_NONCE_BYTES: Final = 8
"""Random bytes of a mark; together with the sequence they are unique in practice."""

_WRITES_HASH_BYTES: Final = 24
"""Bytes of a digest that identify the writes; the rest identifies the matches."""

_MATCHES_HASH_BYTES: Final = 8

_GENERATED_KEY: Final = re.compile(r"([0-9a-f]{16})-([1-9][0-9]{0,14})")
"""A sequence is below 2^49, because a write's number is 14 bits longer."""


class _JsonSize(NamedTuple):
    """What is known of the JSON of a list without having all of it."""

    size: int
    """Bytes of the items, each with the bracket or comma before it."""
    new: int
    """Bytes of the items that were added last."""
    exact: bool
    """Whether it holds an integer beyond 64 bits."""

    def add(self, items: Sequence[Any]) -> "_JsonSize":
        """Continue with the next items."""
        raws = list(map(dumps, items))
        exact = [raw[0] == SPACE for raw in raws]
        added = sum(map(len, raws)) - sum(exact) + len(raws)
        return _JsonSize(self.size + added, added, self.exact or any(exact))


_JSON_SIZE: Final[Fold[Any, _JsonSize]] = Fold(_JsonSize(0, 0, exact=False), add=_JsonSize.add)


@dataclass(frozen=True, slots=True, eq=False)
class GrownField:
    """A long list that grows from version to version."""

    items: AppendOnly[Any]

    def __len__(self) -> int:
        """Return the bytes of its JSON."""
        return _JSON_SIZE.of(self.items).size + 1

    @property
    def new_bytes(self) -> int:
        """Bytes of JSON that were not known before."""
        return _JSON_SIZE.of(self.items).new

    @property
    def exact(self) -> bool:
        """Whether it holds an integer beyond 64 bits."""
        return _JSON_SIZE.of(self.items).exact

    def json(self) -> bytes:
        """Return its JSON, as ``raw_fields`` does."""
        return dumps(self.items[:]).removeprefix(b" ")


RawField: TypeAlias = bytes | GrownField
"""The JSON of a value."""

RawFields: TypeAlias = Sequence[tuple[str, RawField]]
"""Field names, each with its value."""


class EncodedDocument(NamedTuple):
    """A document in bytes, as the caller gave it."""

    document: Document
    """A shallow copy, from which declared fields are read."""
    json: bytes | None
    """The whole document; None: it is in ``fields``."""
    fields: RawFields
    """Empty if the document is in ``json``."""
    exact: bool
    """Whether it holds an integer beyond 64 bits."""
    size: int
    """Bytes of JSON."""

    @property
    def new_bytes(self) -> int:
        """Bytes of JSON that have to be read to store it, if its previous version is remembered."""
        known = (len(raw) - raw.new_bytes for _, raw in self.fields if isinstance(raw, GrownField))
        return self.size - sum(known)

    @property
    def is_small(self) -> bool:
        """Whether it is stored as a single body whatever came before."""
        return self.json is not None and self.size <= PLAIN_MAX

    def split(self) -> Self:
        """Return the same document with the JSON of each field."""
        if self.json is None:
            return self
        return self._replace(json=None, fields=raw_fields(loads(self.json))[1])

    def decode(self) -> Document:
        """Return the document as it was when the caller gave it."""
        fields = ((name, json_of(raw)) for name, raw in self.fields)
        document: Document = loads(self.json or join_fields(fields, exact=self.exact))
        return document


class Change(NamedTuple):
    """A put, or a delete (``encoded`` is None)."""

    object_id: str
    encoded: EncodedDocument | None
    valid_from: Instant | None
    valid_to: Instant | None


class Job(NamedTuple):
    """A checked and encoded transaction."""

    matches: tuple[Match, ...]
    changes: tuple[Change, ...]
    key: str | None
    digest: bytes | None
    """None: the caller gave no key."""
    size: int
    """Bytes of JSON of all documents that have to be read to store them."""


def encode_change(write: Put | Delete) -> Change:
    """Encode a write; ``Incorrect`` if its document is too large."""
    encoded = None
    if isinstance(write, Put):
        encoded = encode_document(write.document, grown=write.grown)
    return Change(written_id(write), encoded, write.valid_from, write.valid_to)


def json_of(raw: RawField) -> bytes:
    """Return the JSON of a field."""
    return raw if isinstance(raw, bytes) else raw.json()


def encode_document(
    document: Document, *, grown: Mapping[str, AppendOnly[Any]] | None = None
) -> EncodedDocument:
    """Encode a document; ``Incorrect`` if it is too large."""
    long = {name: items for name, items in (grown or {}).items() if len(items) >= LONG_LIST_MIN}
    whole = None if long else _encode_whole(document)
    if whole is not None:
        check_size(document[ID], len(whole))
        return EncodedDocument(document.copy(), whole, (), False, len(whole))
    exact, fields = _fields(document, long)
    size = sum([len(raw) for _, raw in fields])
    check_size(document[ID], size)
    if size <= PLAIN_MAX:
        whole = join_fields(((name, json_of(raw)) for name, raw in fields), exact=exact)
        return EncodedDocument(document.copy(), whole, (), exact, size)
    return EncodedDocument(document.copy(), None, fields, exact, size)


def operations_digest(matches: tuple[Match, ...], changes: Sequence[Change]) -> bytes:
    """Identify the operations by their encoded bytes, which costs one hash.

    Equal operations may have other bytes, for example keys in another order. If digests differ,
    ``may_be_same`` says whether what was written has to be compared.
    """
    hashed = hashlib.sha256()
    for object_id, encoded, valid_from, valid_to in changes:
        size = None if encoded is None else encoded.size
        hashed.update(orjson.dumps([object_id, valid_from, valid_to, size]))
        if encoded is None:
            continue
        if encoded.json is not None:
            hashed.update(encoded.json)
        for name, raw in encoded.fields:
            hashed.update(orjson.dumps(name))
            if isinstance(raw, bytes):
                hashed.update(raw)
            else:
                hashed.update(canonical_items(raw.items).digest().encode())
    return hashed.digest()[:_WRITES_HASH_BYTES] + _matches_hash(matches)


def may_be_same(stored_digest: bytes, job: Job) -> bool:
    """Whether the transaction with this digest had the matches of this job."""
    if job.digest is None:
        return False
    return stored_digest[_WRITES_HASH_BYTES:] == job.digest[_WRITES_HASH_BYTES:]


def value_digest(job: Job) -> bytes:
    """Identify the operations by their values, as files written by earlier versions do."""
    writes = tuple(
        Delete(object_id, valid_from, valid_to)
        if encoded is None
        else Put(encoded.decode(), valid_from, valid_to)
        for object_id, encoded, valid_from, valid_to in job.changes
    )
    return bytes.fromhex(digest(CheckedOperations(job.matches, writes)))


class GeneratedKey(NamedTuple):
    """The parts of a key that a caller did not choose."""

    nonce: bytes
    sequence: int

    @classmethod
    def parse(cls, key: str) -> Self | None:
        """Read a generated key; None: the key is a caller's."""
        match = _GENERATED_KEY.fullmatch(key)
        return None if match is None else cls(bytes.fromhex(match[1]), int(match[2]))

    def has_mark(self, mark: bytes | None) -> bool:
        """Whether this is the key of the transaction with that mark."""
        return mark is not None and mark[:_NONCE_BYTES] == self.nonce


def generated_key(mark: bytes | None, sequence: int) -> str:
    """Return the key of a transaction without a caller's key; old files may lack the mark."""
    return f"{(mark or b'')[:_NONCE_BYTES].hex()}-{sequence}"


def mark_has_matches(stored_mark: bytes | None, matches: tuple[Match, ...]) -> bool:
    """Whether the transaction stored with this mark had these matches."""
    matches_hash = _matches_hash(matches) if matches else b""
    return (stored_mark or b"")[_NONCE_BYTES:] == matches_hash


@dataclass(slots=True)
class Marks:
    """The mark of a writer's next transaction, and whether it has to be stored with it."""

    nonce: bytes = field(default_factory=lambda: secrets.token_bytes(_NONCE_BYTES))
    _last: int = -1
    """The newest transaction that has our mark."""
    _stored: int = -1
    """The newest transaction that our mark was stored with; -1: none."""

    def renew(self) -> None:
        """Take a new nonce: after a rollback, sequences are used again."""
        self.nonce, self._stored = secrets.token_bytes(_NONCE_BYTES), -1

    def begin(self, last: int) -> None:
        """Start after transaction ``last``; if another process wrote it, store the mark again."""
        if last != self._last:
            self._last, self._stored = last, -1

    def follow(self, sequence: int) -> None:
        """Record a transaction of this writer."""
        self._last = sequence

    def next(self, sequence: int, matches: tuple[Match, ...]) -> bytes | None:
        """Return the mark to store with a transaction that has no key; None: none is needed."""
        is_stored = self._stored >= 0 and sequence - self._stored < MARK_EVERY
        if is_stored and not matches:
            return None
        self._stored = sequence
        return self.nonce + (_matches_hash(matches) if matches else b"")


def _matches_hash(matches: tuple[Match, ...]) -> bytes:
    # For lists of texts, small integers and nulls, orjson's output is the canonical form.
    plain = [(match.object_id, match.token, match.valid_time) for match in matches]
    return hashlib.sha256(orjson.dumps(plain)).digest()[:_MATCHES_HASH_BYTES]


def _fields(
    document: Document, long: Mapping[str, AppendOnly[Any]]
) -> tuple[bool, list[tuple[str, RawField]]]:
    """Return whether a field holds an integer beyond 64 bits, and the fields in their order."""
    exact, raws = raw_fields({name: document[name] for name in document if name not in long})
    grown = {name: GrownField(items) for name, items in long.items()}
    by_name = dict(raws)
    exact = exact or any(raw.exact for raw in grown.values())
    return exact, [(name, grown.get(name) or by_name[name]) for name in document]


def _encode_whole(document: Document) -> bytes | None:
    """Return the document's JSON; None: parts of it may be stored separately."""
    items = 0
    for value in document.values():
        if isinstance(value, list):
            items += len(value)
        elif isinstance(value, str) and len(value) >= PIECE_MIN:
            return None
    if items > _ITEMS_MAX:
        return None
    try:
        whole = orjson.dumps(document)
    except TypeError:  # an integer beyond 64 bits
        return None
    size = len(whole)
    if size > PLAIN_MAX and (items or (size >= PIECE_MIN and _has_large_value(document))):
        return None
    # Copied: orjson's bytes may occupy a buffer of twice their size, and hundreds of them are kept.
    return bytes(memoryview(whole))


def _has_large_value(document: Document) -> bool:
    return any(
        len(orjson.dumps(value)) >= PIECE_MIN
        for value in document.values()
        if isinstance(value, dict | list)
        or (isinstance(value, str) and len(value) >= _LARGE_TEXT_MIN)
    )
