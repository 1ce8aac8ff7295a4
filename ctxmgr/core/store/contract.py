"""The interface of a bitemporal store, and the values it takes and returns. Contract.

A document is a flat mapping with an id (``xt/id``) and a kind (``type``); ``documents`` says what
it may hold. A write says from when the document is true (valid time; by default the moment of the
transaction); the store adds when it was recorded (sequence and system time).

    entry      where a version starts:  (object_id, valid_time, sequence) → document or deleted
    visible    of the entries with sequence ≤ S and valid_time ≤ V: the greatest valid_time,
               and among equals the greatest sequence

    put from F             an entry at F. It lasts until the next entry in valid time; entries that
                           merely continue the version visible at F (see below) are overwritten
    put from F until T     an entry at F and one at every entry between F and T; at T the version
                           visible there before is restored, as an entry that keeps its own sequence
    delete                 the same, without a document

These are XTDB's rules, taken from its source and confirmed in runs. Every store follows them.

Instants are UTC milliseconds. Two transactions may share an instant but never a sequence, which
alone says which came first. Sequences may have gaps.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Final, Protocol, Self, TypeAlias

from ctxmgr.core.append_only import AppendOnly
from ctxmgr.core.store.documents import Document

Instant: TypeAlias = Annotated[int, "UTC milliseconds"]
"""UTC milliseconds since 1970."""

INSTANT_MAX: Final = 253_402_300_799_999
"""The last millisecond of the year 9999: years in URLs have four digits."""

OPERATIONS_MAX: Final = 10_000
"""Operations in one transaction."""

KEY_LENGTH_MAX: Final = 128
"""Characters of an idempotency key."""

PAGE_MAX: Final = 1_000
"""Entries, versions or transactions in one page."""

BATCH_MAX: Final = 100_000
"""Ids in one batch get."""


class FieldType(StrEnum):
    """The type of a declared field, which may also be null or absent."""

    TEXT = "text"
    INTEGER = "integer"
    """A signed 64-bit integer."""
    BOOLEAN = "boolean"
    """Can be compared for equality, not ordered."""


class IdForm(StrEnum):
    """Which ids the documents of a kind have."""

    FREE = "free"
    """Any id that no declared kind reserves."""
    NAMED = "named"
    """``KIND:…``: reserved for the kind."""
    HASHED = "hashed"
    """A SHA-256 in lower-case hex: reserved for kinds of this form."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of document: the fields that ``find`` can query, and the rules for writing it."""

    name: str
    indexed: Mapping[str, FieldType] = field(default_factory=dict)
    ids: IdForm = IdForm.FREE
    check: Callable[[Document], None] | None = None
    """Raises ``Incorrect`` if a document of this kind must not be written. It sees the document
    alone: what the id determines can be checked, and is then the same in every version."""
    single_version: bool = False
    """Whether an object has one version for good. Only for kinds with free ids."""


@dataclass(frozen=True, slots=True)
class Put:
    """Store a document, valid from ``valid_from`` until ``valid_to`` or the next version."""

    document: Document
    valid_from: Instant | None = None
    """None: the time of the transaction."""
    valid_to: Instant | None = None
    """Only with ``valid_from``, and later than it."""
    checked: bool = field(default=False, compare=False)
    """Set if the document was validated by ``check_document``, or made from a value that cannot be
    built otherwise, to skip validating it again."""
    grown: Mapping[str, AppendOnly[Any]] | None = field(default=None, compare=False, repr=False)
    """The same items as those fields of the document that are lists which grow from version to
    version, so that a store reads only the new ones. What is in these lists must not change."""


@dataclass(frozen=True, slots=True)
class Delete:
    """End an object's validity from ``valid_from``. The history keeps every version."""

    object_id: str
    valid_from: Instant | None = None
    valid_to: Instant | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """Commit the transaction only if this is the current version of the object."""

    object_id: str
    token: str | None
    """The token that ``get`` or ``commit`` returned; None: the object must not exist."""
    valid_time: Instant | None = None
    """None: the time of the transaction."""


Operation: TypeAlias = Put | Delete | Match


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOf:
    """A point on both time axes. The default is now, with everything that is known."""

    valid_time: Instant | None = None
    """When it was valid; None: now."""
    sequence: int | None = None
    """Only what was stored up to this transaction."""
    system_time: Instant | None = None
    """At most one of the two. An instant takes in every transaction of that millisecond; one after
    the last transaction means all that is known."""


LATEST: Final = AsOf()


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A committed transaction: it is durable, and every later read of this store sees it."""

    sequence: int
    """The number of the transaction, which orders all transactions of the store."""
    system_time: Instant
    """When it was committed."""
    key: str
    """Its idempotency key: the given one, or a generated one."""
    token: str
    """The version token of every document this transaction put."""
    repeated: bool = False
    """True if the key had been committed before, and nothing was written now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """An object as of the requested point."""

    object_id: str
    document: Document
    valid_time: Instant
    """When this version became valid."""
    token: str | None
    """Identifies this version for ``Match``; None if another program wrote it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """The start of one version of an object."""

    object_id: str
    valid_time: Instant
    sequence: int
    system_time: Instant
    deleted: bool
    document: Document | None
    """None: deleted, or not asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A put or delete of one object in a transaction."""

    object_id: str
    deleted: bool
    document: Document | None
    """None: deleted, or not asked for."""
    valid_from: Instant
    """As given, or the time of the transaction."""
    valid_to: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """A committed transaction in the feed, with its puts and deletes in their order."""

    sequence: int
    system_time: Instant
    key: str
    writes: tuple[Write, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """``low ≤ field < high``; either end may be open."""

    field: str
    low: str | int | None = None
    high: str | int | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """The field that results are ordered by."""

    field: str
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """A query for documents of one kind, by fields that the kind declares."""

    kind: str
    where: Mapping[str, str | int | bool | None] = field(default_factory=dict)
    """Field values that must all be equal. None matches null, not an absent field."""
    between: Range | None = None
    """A range of one field. Documents without a value in that field are not found."""
    order: Order | None = None
    """The order of the results. Documents without a value in that field are not found. Text is
    ordered by UTF-16 code unit, as canonical JSON orders keys; ties, and queries without an order,
    by id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPage:
    """A page of found versions."""

    versions: Sequence[Version]
    cursor: str | None
    """The cursor of the next page; None if this is the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPage:
    """A page of an object's history."""

    entries: Sequence[HistoryEntry]
    cursor: str | None
    """The cursor of the next page; None if this is the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """An overview of a store."""

    url: str
    """Without credentials."""
    engine: str
    """Technology and version, such as ``SQLite 3.46.1``."""
    sequence: int | None
    """The sequence of the last transaction; None if there is none yet."""
    system_time: Instant | None
    """The time of the last transaction."""
    details: Mapping[str, str | int | bool | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """What a rewrite did."""

    versions: int
    """Versions whose documents were replaced."""
    bytes_before: int | None
    """Size of the store's file; None if the store has none of its own."""
    bytes_after: int | None


class Store(Protocol):
    """A bitemporal database of documents.

    It can be used by many tasks concurrently. Every method raises the errors of ``ctxmgr.errors``,
    never those of a driver. Cancelling a call leaves a complete transaction or none.
    """

    async def commit(self, operations: Iterable[Operation], *, key: str | None = None) -> Commit:
        """Apply all operations in one transaction, or none.

        Matches are checked against the state before the transaction, whatever their position. An id
        can be put or deleted once per transaction. Without a match the last write wins; all
        versions are kept. When this returns, the transaction is durable, and every later read sees
        it.

        ``key`` makes a retry safe: if a transaction with this key was committed before, nothing is
        written and its ``Commit`` is returned, with ``repeated`` set. The same key with other
        operations is ``Incorrect``. A transaction whose match failed does not use up its key.

        Documents of declared kinds have ids of their kind's form and pass its check; no other kind
        can use those ids. An object of a kind with a single version can be put again only with an
        equal document, by any client and at any valid time; and no document of such a kind can be
        put under the id of an existing object of another kind.

        Raises ``Conflict`` with every id whose match failed, ``Incorrect`` for an invalid document
        or time, ``Unavailable`` if nothing was written, and ``OutcomeUnknown`` if that cannot be
        known.
        """
        ...

    async def get(self, object_id: str, *, as_of: AsOf = LATEST) -> Version | None:
        """Return an object as of a point; None if it did not exist or was deleted.

        Raises ``Unavailable`` for a sequence that the store has not reached.
        """
        ...

    async def get_many(
        self,
        object_ids: Iterable[str],
        *,
        as_of: AsOf = LATEST,
        without: Collection[str] = (),
    ) -> dict[str, Version]:
        """Return many objects as of one point, by id, in the order of the ids.

        Ids without a visible version are left out. Fields named in ``without`` are left out of the
        documents, and large ones are not read at all.
        """
        ...

    async def history(
        self,
        object_id: str,
        *,
        as_of: AsOf = LATEST,
        since: Instant | None = None,
        newest_first: bool = False,
        corrections: bool = False,
        documents: bool = True,
        limit: int = PAGE_MAX,
        cursor: str | None = None,
    ) -> HistoryPage:
        """List the versions of an object by (valid time, sequence), ascending or descending.

        Only entries with ``since ≤ valid_time ≤ as_of.valid_time`` are listed; None means no bound,
        so that versions in the future are listed, too. Of several versions for one valid time only
        the newest is listed, unless ``corrections`` is set. An unknown id has no entries. Documents
        of a page may share values and must not be modified.
        """
        ...

    async def history_many(
        self,
        object_ids: Iterable[str],
        *,
        as_of: AsOf = LATEST,
        without: Collection[str] = (),
        limit: int,
    ) -> dict[str, Sequence[HistoryEntry]]:
        """Return the last ``limit`` versions of many objects, each newest first, by id.

        As ``history``, but only versions that have begun as of the point are listed. Ids without
        any are left out, as are the fields named in ``without``.
        """
        ...

    async def find(
        self,
        query: Query,
        *,
        as_of: AsOf = LATEST,
        without: Collection[str] = (),
        limit: int = 100,
        cursor: str | None = None,
    ) -> FoundPage:
        """Find objects by their fields, a page at a time.

        Fields named in ``without`` are left out of the documents, and large ones are not read at
        all; the field that the query orders by is kept.

        An undeclared field, a value of the wrong type, or the cursor of another query is
        ``Incorrect``. The pages of a query are consistent with each other if ``as_of`` has a
        sequence and a valid time; otherwise each page sees the current state of the store.
        """
        ...

    async def feed(
        self, *, after: int | None = None, limit: int = PAGE_MAX, documents: bool = True
    ) -> Sequence[Transaction]:
        """Return the transactions after a sequence, oldest first; from the beginning if None.

        The feed is complete and ordered: no transaction is ever added before one that was returned.
        It holds every put and delete, with the document as it was put. A page may be shorter than
        ``limit`` if documents are large; only an empty page is the end. Documents of a page may
        share values and must not be modified.
        """
        ...

    async def rewrite(self, documents: Mapping[tuple[str, int], Document]) -> Rewritten:
        """Replace the documents of versions, by object and sequence, and remove the old ones.

        Each gets another document of its kind under the same id. The history of an object keeps its
        entries: the same valid times in the same order, corrections included. A store may give all
        versions of a rewritten object new sequences, system times and tokens, and leave its earlier
        writes out of the feed; a rewrite itself is not in the feed.

        ``NotFound`` if there is no such version, and nothing is changed then. It may need the store
        for itself: ``Unavailable`` if that is in use elsewhere, and ``Conflict`` if one of the
        objects was written meanwhile.
        """
        ...

    async def finish_rewrites(self) -> int:
        """Finish rewrites that were interrupted, and return how many there were.

        Until then, objects of such a rewrite may be missing.
        """
        ...

    async def status(self) -> StoreStatus:
        """Return an overview of the store; raises if it cannot be used."""
        ...

    async def close(self) -> None:
        """Finish accepted transactions and release the store."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc: object) -> None: ...
