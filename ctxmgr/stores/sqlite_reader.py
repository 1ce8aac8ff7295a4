"""Reading one connection: points in time and versions. Touches the database.

A reader belongs to one thread at a time. ``snapshot`` makes several statements see one state.
Pieces and lists are never changed once written, so following them needs no snapshot.
"""

import re
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypeVar

import apsw
import orjson

from ctxmgr.core.documents import Document
from ctxmgr.core.store import LATEST, AsOf, Instant, Version
from ctxmgr.errors import Unavailable
from ctxmgr.stores.sqlite_bodies import Bodies
from ctxmgr.stores.sqlite_fields import Fields, load
from ctxmgr.stores.sqlite_layout import FORMAT, PLAIN
from ctxmgr.stores.sqlite_statements import statements
from ctxmgr.stores.sqlite_timeline import WRITE_BITS, sequence_of, wid_of

WID_MAX: Final = 2**63 - 1
PAGE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Stored bytes of documents after which a page ends early: thousands of versions of a long chat
would not fit into memory."""

LOOKED_UP_MAX: Final = 500
"""Texts that one query asks for; SQLite binds 32,766 values at most."""

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]

_HEX_LENGTH: Final = 64
_HEX = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Context:
    """What all parts of one open store share."""

    url: str
    store_name: str
    clock: Callable[[], Instant]


@dataclass(frozen=True, slots=True)
class Point:
    """A point on both axes as the tables know it."""

    valid: Instant
    bound: int
    """Writes below it are known."""


def text_key(text: str) -> str | bytes:
    """How the text is kept: a SHA-256 in hex as its 32 bytes."""
    if len(text) == _HEX_LENGTH and _HEX.fullmatch(text):
        return bytes.fromhex(text)
    return text


def key_text(key: str | bytes) -> str:
    """The text that was kept so."""
    return key if isinstance(key, str) else key.hex()


class Reader:
    """Answers from one connection."""

    def __init__(self, connection: apsw.Connection, context: Context) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._clock = context.clock
        self._url = context.url
        self._store_name = context.store_name
        self._sql = statements()
        self._current = self._sql["current"]
        self._execute_current = connection.cursor().execute
        """On a cursor that is kept: its row is always taken before it is used again."""
        self._past: Instant = 0
        self._fields = Fields()
        self.bodies = Bodies(connection.execute, url=context.url)

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

    def last(self) -> tuple[int, Instant] | None:
        """Sequence and instant of the newest transaction."""
        row: tuple[int, Instant] | None = self._execute(self._sql["last_tx"]).get
        return row

    def point(self, as_of: AsOf) -> Point:
        """Find the point; ``Unavailable`` when its sequence has not been reached."""
        last = self.last()
        sequence, instant = last or (-1, 0)
        if as_of.sequence is not None and as_of.sequence > sequence:
            raise Unavailable(f"{self._url}: has not reached sequence {as_of.sequence}")
        valid = as_of.valid_time
        if valid is None:
            valid = max(self._clock(), instant)
        return Point(valid, self._bound(as_of, sequence))

    def current(self, object_id: str) -> Version | Literal[False] | None:
        """Return what is visible now by a single statement; False: that takes longer.

        It does when the version ends or begins by the clock, or when the document has parts to be
        joined.
        """
        row = self._execute_current(self._current, (text_key(object_id),)).get
        if row is None:
            return None
        since, until, wid, form, body = row
        if until is not None or not self._has_begun(since):
            return False
        if wid is None:
            return None
        if form != FORMAT or body[0] != PLAIN:
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

    def _has_begun(self, since: Instant) -> bool:
        if since > self._past:  # the clock is read only for what is newer than its last reading
            self._past = self._clock()
        return since <= self._past

    def get(self, object_id: str, as_of: AsOf) -> Version | None:
        """Return the version visible at that point."""
        with self.snapshot():
            return self.get_at(object_id, self.point(as_of))

    def get_at(self, object_id: str, point: Point) -> Version | None:
        """Return the version visible at that point."""
        nid = self.number(object_id)
        return None if nid is None else self.version_at(nid, object_id, point)

    def version_at(self, nid: int, object_id: str, point: Point) -> Version | None:
        row = self.visible(nid, point)
        if row is None:
            return None
        return self.version(object_id, *row)

    def version(
        self, object_id: str, vt: Instant, wid: int, *, without: frozenset[str] = frozenset()
    ) -> Version:
        """The version that a write made, starting there."""
        return Version(
            object_id=object_id,
            document=self.document(wid, object_id, without=without),
            valid_time=vt,
            token=f"{self._store_name}-{sequence_of(wid)}",
        )

    def rows(self, sql: str, bindings: Sequence[Any] | dict[str, Any]) -> Iterator[Row]:
        """The rows of a statement, read as they are asked for."""
        cursor = self._execute(sql, bindings)
        try:
            yield from cursor
        finally:
            cursor.close()

    def fields(self) -> Fields:
        """What the file declares now; a process beside us may have added to it."""
        if self._execute(self._sql["fields_count"]).get != self._fields.newest():
            self._fields = load(self._connection)
        return self._fields

    def has_stale_head(self, now: Instant) -> bool:
        """Tell whether a version has begun that no head shows yet."""
        return bool(self._execute(self._sql["has_stale_head"], (now,)).get)

    def visible(self, nid: int, point: Point) -> tuple[Instant, int] | None:
        """Start and write of the version visible at that point."""
        row = self._execute(self._sql["visible"], (nid, point.valid, point.bound)).get
        if row is None or row[2]:
            return None
        return row[0], row[1]

    def number(self, text: str) -> int | None:
        nid: int | None = self._execute(self._sql["find_name"], (text_key(text),)).get
        return nid

    def text(self, nid: int) -> str:
        return key_text(self._execute(self._sql["text_of"], (nid,)).get)

    def document(
        self, wid: int, object_id: str, *, without: frozenset[str] = frozenset()
    ) -> Document:
        """What that write put, but for some fields."""
        form, body = self.bodies.stored(wid, object_id)
        return self.bodies.document(form, body, object_id, without=without)

    def values(self, wid: int, names: Collection[str]) -> Document:
        """Those fields of what that write put."""
        where = f"write {wid}"
        return self.bodies.values(*self.bodies.stored(wid, where), where, names)

    def page(self, found: Generator[T, None, None], limit: int) -> tuple[list[T], bool]:
        """Take a page; tell whether there is more. Long documents make it shorter."""
        taken: list[T] = []
        with self.bodies.page(), closing(found):
            for each in found:
                if len(taken) == limit or (taken and self.bodies.bytes_read > PAGE_BYTES_MAX):
                    return taken, True
                taken.append(each)
        return taken, False

    def get_many(
        self, object_ids: Sequence[str], as_of: AsOf, without: frozenset[str]
    ) -> dict[str, Version]:
        """The visible versions as of one point."""
        with self.snapshot():
            point = self.point(as_of)
            found = self._found_now if as_of == LATEST else self._found_then
            return dict(found(object_ids, point, without))

    def _found_now(
        self, object_ids: Sequence[str], point: Point, without: frozenset[str]
    ) -> Iterator[tuple[str, Version]]:
        """What is visible at a point that knows all; mostly one statement tells of many."""
        for start in range(0, len(object_ids), LOOKED_UP_MAX):
            some = object_ids[start : start + LOOKED_UP_MAX]
            keys = [text_key(each) for each in some]
            query = self._sql["current_of"].format(places=", ".join("?" * len(keys)))
            rows: dict[str | bytes, Row] = {row[0]: row[1:] for row in self.rows(query, keys)}
            for object_id, key in zip(some, keys, strict=True):
                row = rows.pop(key, None)
                version = row and self._version_now(object_id, row, point, without)
                if version:
                    yield object_id, version

    def _version_now(
        self, object_id: str, row: Row, point: Point, without: frozenset[str]
    ) -> Version | None:
        since, until, wid, form, body = row
        if until is not None or since > point.valid:
            return self._get_then(object_id, point, without)
        if wid is None:
            return None
        return Version(
            object_id=object_id,
            document=self.bodies.document(form, body, object_id, without=without),
            valid_time=since,
            token=f"{self._store_name}-{sequence_of(wid)}",
        )

    def _found_then(
        self, object_ids: Sequence[str], point: Point, without: frozenset[str]
    ) -> Iterator[tuple[str, Version]]:
        for object_id in object_ids:
            version = self._get_then(object_id, point, without)
            if version is not None:
                yield object_id, version

    def _get_then(self, object_id: str, point: Point, without: frozenset[str]) -> Version | None:
        nid = self.number(object_id)
        row = None if nid is None else self.visible(nid, point)
        return None if row is None else self.version(object_id, *row, without=without)

    def _bound(self, as_of: AsOf, last: int) -> int:
        if as_of.sequence is not None:
            return wid_of(as_of.sequence + 1)
        if as_of.system_time is None:
            return WID_MAX
        return wid_of(self._sequence_at(as_of.system_time, last) + 1)

    def _sequence_at(self, instant: Instant, last: int) -> int:
        """The newest transaction at or before an instant: instants never decrease."""
        low, high = 0, last
        while low < high:
            middle = (low + high + 1) // 2
            if self._execute(self._sql["tx_by_seq"], (middle,)).get[1] <= instant:
                low = middle
            else:
                high = middle - 1
        return low
