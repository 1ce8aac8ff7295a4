"""Reads versions at points in time through one connection. Touches the database.

A reader belongs to one thread at a time. ``snapshot`` makes several statements see one state.
Pieces and lists never change once they are written, so reading them needs no snapshot.
"""

import re
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypeVar

import apsw
import orjson

from ctxmgr.core.store.contract import LATEST, AsOf, Instant, Kind, Version
from ctxmgr.core.store.documents import Document
from ctxmgr.errors import Unavailable
from ctxmgr.stores.sqlite.body_format import FORMAT, PLAIN
from ctxmgr.stores.sqlite.body_reader import BodyReader
from ctxmgr.stores.sqlite.connection import statements
from ctxmgr.stores.sqlite.fields import Fields, load
from ctxmgr.stores.sqlite.timeline import WRITE_BITS, sequence_of, wid_of

WID_MAX: Final = 2**63 - 1
PAGE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of documents after which a page ends early: thousands of versions of a long chat would not
fit into memory."""

LOOKUP_MAX: Final = 500
"""Texts per query; SQLite binds at most 32,766 values."""

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]

_HEX_LENGTH: Final = 64
_HEX = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class StoreContext:
    """What all parts of one open store share."""

    url: str
    store_name: str
    clock: Callable[[], Instant]
    kinds: Mapping[str, Kind]
    """The kinds that this handle declares, with their rules."""


@dataclass(frozen=True, slots=True)
class TablePoint:
    """A point on both time axes, in terms of the tables."""

    valid: Instant
    bound: int
    """Only writes with a lower wid count."""


def text_key(text: str) -> str | bytes:
    """Return the form in which a text is stored: of a SHA-256 in hex, its 32 bytes."""
    if len(text) == _HEX_LENGTH and _HEX.fullmatch(text):
        return bytes.fromhex(text)
    return text


def key_text(key: str | bytes) -> str:
    """Return the text of a ``text_key``."""
    return key if isinstance(key, str) else key.hex()


class Reader:
    """Reads through one connection."""

    def __init__(self, connection: apsw.Connection, context: StoreContext) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._clock = context.clock
        self._url = context.url
        self._store_name = context.store_name
        self._sql = statements()
        self._latest_sql = self._sql["current"]
        self._execute_latest = connection.cursor().execute
        """Reuses one cursor: its row is always fetched before the next call."""
        self._last_now: Instant = 0
        """The last reading of the clock."""
        self._fields = Fields()
        self.bodies = BodyReader(connection.execute, url=context.url)

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """See one state of the store until the end of the block."""
        self._execute("BEGIN")
        try:
            yield
        finally:
            self._execute("COMMIT")

    def last_transaction(self) -> tuple[int, Instant] | None:
        """Return the sequence and the instant of the newest transaction."""
        row: tuple[int, Instant] | None = self._execute(self._sql["last_tx"]).get
        return row

    def point(self, as_of: AsOf) -> TablePoint:
        """Return the point; ``Unavailable`` if the store has not reached its sequence."""
        sequence, instant = self.last_transaction() or (-1, 0)
        if as_of.sequence is not None and as_of.sequence > sequence:
            raise Unavailable(f"{self._url}: has not reached sequence {as_of.sequence}")
        valid = as_of.valid_time
        if valid is None:
            valid = max(self._clock(), instant)
        if as_of.sequence is not None:
            bound = wid_of(as_of.sequence + 1)
        elif as_of.system_time is None:
            bound = WID_MAX
        else:
            bound = wid_of(self._sequence_at(as_of.system_time, sequence) + 1)
        return TablePoint(valid, bound)

    def latest(self, object_id: str) -> Version | Literal[False] | None:
        """Return what is visible now with a single statement; False: that is not enough.

        It is not if the version begins or ends in the future, or if the document has parts that
        are stored separately.
        """
        row = self._execute_latest(self._latest_sql, (text_key(object_id),)).get
        if row is None:
            return None
        since, until, wid, fmt, body = row
        if until is not None:
            return False
        if since > self._last_now:  # reading the clock costs more than this comparison
            self._last_now = self._clock()
            if since > self._last_now:
                return False
        if wid is None:
            return None
        if fmt != FORMAT or body[0] != PLAIN:  # has separate parts, or a newer format
            return False
        try:
            document = orjson.loads(body)
        except ValueError:
            return False
        return Version(
            object_id=object_id,
            document=document,
            valid_time=since,
            token=f"{self._store_name}-{wid >> WRITE_BITS}",
        )

    def get(self, object_id: str, as_of: AsOf) -> Version | None:
        """Return the version visible at that point."""
        with self.snapshot():
            return self._get_at(object_id, self.point(as_of), frozenset())

    def version(
        self, object_id: str, vt: Instant, wid: int, *, without: frozenset[str] = frozenset()
    ) -> Version:
        """Return the version of a put that starts at that valid time."""
        return Version(
            object_id=object_id,
            document=self.document(wid, object_id, without=without),
            valid_time=vt,
            token=f"{self._store_name}-{sequence_of(wid)}",
        )

    def rows(self, sql: str, bindings: Sequence[Any] | dict[str, Any]) -> Iterator[Row]:
        """Yield the rows of a statement, reading them one by one."""
        cursor = self._execute(sql, bindings)
        try:
            yield from cursor
        finally:
            cursor.close()

    def fields(self) -> Fields:
        """Return the fields that the file declares; another process may have added some."""
        if self._execute(self._sql["fields_count"]).get != self._fields.newest():
            self._fields = load(self._connection)
        return self._fields

    def has_stale_head(self, now: Instant) -> bool:
        """Whether a version has begun that no head shows yet."""
        return bool(self._execute(self._sql["has_stale_head"], (now,)).get)

    def visible(self, nid: int, point: TablePoint) -> tuple[Instant, int] | None:
        """Return the start and the write of the version visible at that point."""
        row = self._execute(self._sql["visible"], (nid, point.valid, point.bound)).get
        if row is None or row[2]:
            return None
        return row[0], row[1]

    def find_nid(self, text: str) -> int | None:
        nid: int | None = self._execute(self._sql["find_name"], (text_key(text),)).get
        return nid

    def text_of(self, nid: int) -> str:
        return key_text(self._execute(self._sql["text_of"], (nid,)).get)

    def document(
        self, wid: int, object_id: str, *, without: frozenset[str] = frozenset()
    ) -> Document:
        """Return the document of a put, without some of its fields."""
        fmt, body = self.bodies.stored(wid, object_id)
        return self.bodies.document(fmt, body, object_id, without=without)

    def values(self, wid: int, names: Collection[str]) -> Document:
        """Return at least these fields of the document of a put."""
        where = f"write {wid}"
        return self.bodies.values(*self.bodies.stored(wid, where), where, names)

    def page(self, results: Generator[T, None, None], limit: int) -> tuple[list[T], bool]:
        """Return a page and whether there is more. Large documents make it shorter."""
        page: list[T] = []
        with self.bodies.page(), closing(results):
            for result in results:
                if len(page) == limit or (page and self.bodies.bytes_read > PAGE_BYTES_MAX):
                    return page, True
                page.append(result)
        return page, False

    def get_many(
        self, object_ids: Sequence[str], as_of: AsOf, without: frozenset[str]
    ) -> dict[str, Version]:
        """Return the visible versions, all as of one point."""
        with self.snapshot():
            point = self.point(as_of)
            get_many = self._get_many_now if as_of == LATEST else self._get_many_at
            return dict(get_many(object_ids, point, without))

    def _get_many_now(
        self, object_ids: Sequence[str], point: TablePoint, without: frozenset[str]
    ) -> Iterator[tuple[str, Version]]:
        """Yield what is visible now, from the heads: one statement for many objects."""
        for start in range(0, len(object_ids), LOOKUP_MAX):
            ids = object_ids[start : start + LOOKUP_MAX]
            keys = [text_key(object_id) for object_id in ids]
            query = self._sql["current_of"].format(places=", ".join("?" * len(keys)))
            rows: dict[str | bytes, Row] = {row[0]: row[1:] for row in self.rows(query, keys)}
            for object_id, key in zip(ids, keys, strict=True):
                row = rows.pop(key, None)
                version = row and self._version_of_head(object_id, row, point, without)
                if version:
                    yield object_id, version

    def _version_of_head(
        self, object_id: str, row: Row, point: TablePoint, without: frozenset[str]
    ) -> Version | None:
        since, until, wid, fmt, body = row
        if until is not None or since > point.valid:
            return self._get_at(object_id, point, without)
        if wid is None:
            return None
        return Version(
            object_id=object_id,
            document=self.bodies.document(fmt, body, object_id, without=without),
            valid_time=since,
            token=f"{self._store_name}-{sequence_of(wid)}",
        )

    def _get_many_at(
        self, object_ids: Sequence[str], point: TablePoint, without: frozenset[str]
    ) -> Iterator[tuple[str, Version]]:
        for object_id in object_ids:
            version = self._get_at(object_id, point, without)
            if version is not None:
                yield object_id, version

    def _get_at(self, object_id: str, point: TablePoint, without: frozenset[str]) -> Version | None:
        nid = self.find_nid(object_id)
        row = None if nid is None else self.visible(nid, point)
        return None if row is None else self.version(object_id, *row, without=without)

    def _sequence_at(self, instant: Instant, last: int) -> int:
        """Return the newest transaction at or before an instant, by binary search."""
        low, high = 0, last
        while low < high:
            middle = (low + high + 1) // 2
            if self._execute(self._sql["tx_by_seq"], (middle,)).get[1] <= instant:
                low = middle
            else:
                high = middle - 1
        return low
