"""Store: what a bitemporal database must do for us. Contract.

A document is a flat mapping with an id (``xt/id``) and a kind (``type``); what it may hold is the
law of ``documents``. A write says from when the document is true (valid time, default: the
moment of the transaction); the store adds when it learnt it (sequence and system time).

    entry      where a version starts:  (object_id, valid_time, sequence) → document or deleted
    visible    of the entries with sequence ≤ S and valid_time ≤ V: the greatest valid_time,
               and among equals the greatest sequence

    put from F             an entry at F. It lasts until the next entry in valid time; entries that
                           merely continue the version visible at F (see below) are overwritten
    put from F until T     an entry at F and one at every entry between F and T; at T the version
                           visible there before is restored, as an entry that keeps its own sequence
    delete                 the same with nothing as the document

These are XTDB's rules, seen in its source and in runs; every store gives the answers it gives.

Instants are UTC milliseconds. Two transactions may share one; the sequence never does, and it alone
says which came first. Sequences may have gaps.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol, Self, TypeAlias

from ctxmgr.core.documents import Document

Instant: TypeAlias = int
"""UTC milliseconds since 1970."""

INSTANT_MAX: Final = 253_402_300_799_999
"""The last millisecond of the year 9999: dates in URLs have four digits for the year."""

OPERATIONS_MAX: Final = 10_000
"""Operations in one transaction."""

KEY_LENGTH_MAX: Final = 128
"""Characters of an idempotency key."""

PAGE_MAX: Final = 1_000
"""Entries, versions or transactions in one page."""

BATCH_MAX: Final = 100_000
"""Ids in one batch get."""


class FieldType(StrEnum):
    """What a declared field holds. Null and absent are always allowed."""

    TEXT = "text"
    INTEGER = "integer"
    """64 bits, signed."""
    BOOLEAN = "boolean"
    """For equality only."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of document and the fields that ``find`` may ask for."""

    name: str
    indexed: Mapping[str, FieldType] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Put:
    """Store the document, true from ``valid_from`` until ``valid_to`` or the next version."""

    document: Document
    valid_from: Instant | None = None
    """None: the moment of the transaction."""
    valid_to: Instant | None = None
    """Needs ``valid_from`` and is after it."""
    checked: bool = field(default=False, compare=False)
    """True: ``check_document`` has passed the document, and nothing has changed it since. Whoever
    writes a long chat over and over need not have all of it looked at each time."""


@dataclass(frozen=True, slots=True)
class Delete:
    """End the object's validity from ``valid_from``. History keeps every version."""

    object_id: str
    valid_from: Instant | None = None
    valid_to: Instant | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """Let the transaction through only if this version is the visible one."""

    object_id: str
    token: str | None
    """As ``get`` or ``commit`` returned it; None: nothing may be visible ('absent')."""
    valid_time: Instant | None = None
    """None: at the moment of the transaction."""


Operation: TypeAlias = Put | Delete | Match


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOf:
    """A point on both time axes. The default is: now, with all that is known."""

    valid_time: Instant | None = None
    """None: the store's now."""
    sequence: int | None = None
    system_time: Instant | None = None
    """At most one of the two. An instant takes in every transaction of that millisecond; one after
    the last transaction means all that is known."""


LATEST: Final = AsOf()


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A transaction that is durable and visible to every later read of this store."""

    sequence: int
    system_time: Instant
    key: str
    token: str
    """The version token of every document this transaction put."""
    repeated: bool = False
    """The key had been committed before; nothing was written now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One object as it was visible at the point asked for."""

    object_id: str
    document: Document
    valid_time: Instant
    """Where this version starts on the valid axis."""
    token: str | None
    """For ``Match``. None: written by another program, without our bookkeeping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """Where one version of an object starts."""

    object_id: str
    valid_time: Instant
    sequence: int
    system_time: Instant
    deleted: bool
    document: Document | None
    """None: deleted, or not asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """What one transaction said about one object."""

    object_id: str
    deleted: bool
    document: Document | None
    """None: deleted, or not asked for."""
    valid_from: Instant
    """As given, or the transaction's own instant."""
    valid_to: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """A committed transaction, with its puts and deletes in the order they were given."""

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
    field: str
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """What to find: documents of one kind, by fields that the kind declares."""

    kind: str
    where: Mapping[str, str | int | bool | None] = field(default_factory=dict)
    """Equalities, all of which hold. None finds null, not absent."""
    between: Range | None = None
    """Finds only documents in which the field is neither null nor absent."""
    order: Order | None = None
    """Likewise. Text is ordered by UTF-16 code unit, as canonical JSON orders keys. Ties, and a
    query without an order, are ordered by id, ascending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPage:
    versions: Sequence[Version]
    cursor: str | None
    """For the next page of the same query; None: this was the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPage:
    entries: Sequence[HistoryEntry]
    cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """What a person wants to know of a store at a glance."""

    url: str
    """Without credentials."""
    engine: str
    """Technology and version, such as ``SQLite 3.46.1``."""
    sequence: int | None
    """Of the last transaction; None: there is none yet."""
    system_time: Instant | None
    details: Mapping[str, str | int | bool | None]


class Store(Protocol):
    """A bitemporal database of documents.

    Safe for many tasks at once. Errors are those of ``ctxmgr.errors``, never a driver's. A query
    that fails raises; it never comes back empty. Cancelling a call leaves a whole transaction or
    none.
    """

    async def commit(self, operations: Iterable[Operation], *, key: str | None = None) -> Commit:
        """Apply all operations in one transaction, or none.

        Matches are judged against what was visible before the transaction, whatever their place.
        An id is put or deleted once per transaction. Without a match the last write wins and all
        are kept. Returns once the transaction is durable and will be seen by every later read.

        ``key`` makes a retry safe: a transaction with a key that is committed already writes
        nothing and returns the first one's ``Commit`` (``repeated``). The same key with other
        operations is ``Incorrect``. A failed match leaves no trace of its key.

        Raises ``Conflict`` naming every id whose match failed, ``Incorrect`` for documents or
        times that break the law, ``Unavailable`` when nothing was written, ``OutcomeUnknown`` when
        that cannot be known.
        """
        ...

    async def get(self, object_id: str, *, as_of: AsOf = LATEST) -> Version | None:
        """Return the version visible at that point, or None: never written, or deleted there.

        A sequence that the store has not reached raises ``Unavailable``.
        """
        ...

    async def get_many(
        self,
        object_ids: Iterable[str],
        *,
        as_of: AsOf = LATEST,
        without: Collection[str] = (),
    ) -> dict[str, Version]:
        """Return the visible versions by id, all as of one point, in the order of the ids.

        Ids with nothing visible are left out; an id given twice comes back once. Fields named in
        ``without`` are left out of the documents, and of long ones nothing is read;
        the id stays.
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
        """List where versions start, by (valid time, sequence) ascending, or exactly reversed.

        Bounded by ``since ≤ valid_time ≤ as_of.valid_time``, where None means no bound, so that
        entries in the future are listed too. For each valid time only the newest entry known is
        given; with ``corrections`` the ones it replaced are as well. An unknown id has no entries.
        The documents of a page may share what they have in common: they are for reading.
        """
        ...

    async def find(
        self, query: Query, *, as_of: AsOf = LATEST, limit: int = 100, cursor: str | None = None
    ) -> FoundPage:
        """Find the visible versions that the query describes, a page at a time.

        A field that the kind does not declare, a value of another type than declared, or a cursor
        of another query is ``Incorrect``. Pages are consistent when ``as_of`` names a sequence and
        a valid time; otherwise each page sees the store as it is then.
        """
        ...

    async def feed(
        self, *, after: int | None = None, limit: int = PAGE_MAX, documents: bool = True
    ) -> Sequence[Transaction]:
        """Return the transactions after that sequence, oldest first; all of them when None.

        Complete and in order: what has been returned is never preceded by something new. Every
        put and delete of our own transactions is there, with the document as it was put. A page
        may be shorter than ``limit`` where documents are large; only an empty one is the end. Its
        documents may share what they have in common, as those of ``history`` may.
        """
        ...

    async def status(self) -> StoreStatus:
        """Describe the store, and fail if it cannot be used."""
        ...

    async def close(self) -> None:
        """Finish what has been accepted, then let go. Nothing acknowledged is lost."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc: object) -> None: ...
