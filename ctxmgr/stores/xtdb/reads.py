"""Read complete versions at a point. Uses the network.

The first query returns the versions, the second their pieces, which never change and are visible at
every point. For objects that were ever written with an end, further requests return where the
visible version starts, because XTDB's query returns only where its content first began.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from ctxmgr.core.store.contract import Instant, Version
from ctxmgr.stores.edn.values import Keyword
from ctxmgr.stores.xtdb.as_of import ReadPoint, ReadPoints, url_id
from ctxmgr.stores.xtdb.layout import Pieces, Stored, stored_from
from ctxmgr.stores.xtdb.pieces import PARTS, KnownPieces, missing, reached, weight
from ctxmgr.stores.xtdb.queries import existing_query, get_query, pieces_query
from ctxmgr.stores.xtdb.replies import readable
from ctxmgr.stores.xtdb.transactions import BOUNDED, anchor_of, marker_id, tx_id
from ctxmgr.stores.xtdb.transport import PAGE_BYTES_MAX, XtdbTransport

IDS_PER_QUERY: Final = 1_000
"""Ids in one query of a long batch; a reply is decoded while the server runs the next query."""

QUERIES_AT_ONCE: Final = 3
"""Concurrent queries of one batch: one is decoded, one runs on the server, and one waits."""

PIECES_PER_QUERY: Final = 500
"""A piece may contain 256 others, of 8 KiB or more each."""

ANCHORS_PER_READ: Final = 64
"""Records read along with pieces; callers that read more documents at once change few of them."""

FIRST_STEP: Final = 8
"""Entries of a page whose pieces are fetched first; every further step is twice as large."""

STARTS_AT_ONCE: Final = 64
"""Concurrent requests for starts or histories: more than there are connections, few enough to end
soon."""

_ID: Final = Keyword("xt/id")
_PARTS: Final = Keyword(PARTS)
_VALID_TIME: Final = Keyword("xtdb.api/valid-time")

T = TypeVar("T")
RowQuery = Callable[[ReadPoint], Awaitable[list["VersionRow"]]]


class VersionRow(NamedTuple):
    """One version as a query returns it."""

    stored: Stored
    start: Instant
    marked: bool
    """Something in the store was ever written with an end."""
    rest: Sequence[Any]


class Reads:
    """Reads rows and assembles versions from them."""

    def __init__(self, http: XtdbTransport, points: ReadPoints) -> None:
        self._http = http
        self._points = points
        self._marked = False
        self.known = KnownPieces()

    async def get(
        self, object_ids: Sequence[str], point: ReadPoint, *, without: frozenset[str] = frozenset()
    ) -> dict[str, Version]:
        """Return the visible versions of these objects, all at one point."""
        if len(object_ids) > IDS_PER_QUERY:
            point = await self._points.fixed(point)
        slots = asyncio.Semaphore(QUERIES_AT_ONCE)

        async def read(ids: Sequence[str]) -> list[Version]:
            async with slots:
                query = get_query(ids)
                return await self.versions(partial(self.rows, query, without=without), point)

        starts = range(0, len(object_ids), IDS_PER_QUERY)
        batches = await all_of(read(object_ids[start : start + IDS_PER_QUERY]) for start in starts)
        return {version.object_id: version for versions in batches for version in versions}

    async def rows(
        self, query: bytes, point: ReadPoint, *, without: frozenset[str] = frozenset()
    ) -> list[VersionRow]:
        """Run a query for versions, without duplicate rows."""
        reply = await self._http.query(query, self._points.params(point))
        with readable(self._http.node):
            rows = (_row(columns, without) for columns in reply if columns[0] is not None)
            return list({row.stored.object_id: row for row in rows}.values())

    async def versions(self, query: RowQuery, point: ReadPoint) -> list[Version]:
        """Return the versions of the rows that ``query`` reads, in their order."""
        rows = await self._rows_and_mark(query, point)
        starts: dict[str, Instant] = {}
        if rows and self._marked:
            point = await self._points.fixed(point)
            rows = await query(point)
            starts = await self._starts([row.stored.object_id for row in rows], point)
        pieces = await self._pieces_with_anchors([row.stored for row in rows])
        return [
            Version(
                object_id=row.stored.object_id,
                document=row.stored.document(pieces),
                valid_time=starts.get(row.stored.object_id, row.start),
                token=row.stored.token,
            )
            for row in rows
        ]

    async def pieces(self, entities: Iterable[Stored], *, have: Pieces | None = None) -> Pieces:
        """Fetch the pieces that these entities need and that are not in ``have``."""
        roots = dict.fromkeys(root for entity in entities for root in entity.roots())
        return await self._fetch(roots, have or {})

    async def fitting(
        self, entries: Sequence[Sequence[Stored]], *, have: Pieces | None = None
    ) -> tuple[int, Pieces]:
        """Fetch the pieces of as many entries as fit into a page; return their number, too."""
        pieces, weights = have or {}, dict[str, int]()
        count, size, step = 0, 0, FIRST_STEP
        while count < len(entries) and size <= PAGE_BYTES_MAX:
            batch = entries[count : count + step]
            stored = (entity for entry in batch for entity in entry)
            pieces = await self.pieces(stored, have=pieces)
            for entry in batch:
                size += sum(weight(entity.roots(), pieces, weights) for entity in entry)
                if count and size > PAGE_BYTES_MAX:
                    break
                count += 1
            step *= 2
        return count, pieces

    async def _pieces_with_anchors(self, entities: Sequence[Stored]) -> Pieces:
        """Fetch pieces, and the records that prove them stored for later writes.

        A transaction is acknowledged with all its pieces, so its record proves them.
        """
        roots_by_record: dict[str, list[str]] = {}
        entities = [entity for entity in entities if entity.is_cut]
        if not entities:
            return {}
        for entity in entities:
            roots = list(entity.roots())
            if roots and entity.token:
                roots_by_record.setdefault(tx_id(entity.token), []).extend(roots)
        records = list(roots_by_record)[:ANCHORS_PER_READ]
        all_roots = (root for entity in entities for root in entity.roots())
        pieces = await self._fetch(dict.fromkeys((*records, *all_roots)), {})
        for record in records:
            if record in pieces:
                fields = {Keyword(name): value for name, value in pieces[record].items()}
                stored = reached(roots_by_record[record], pieces)
                self.known.learn(stored, anchor=anchor_of(fields))
        return pieces

    async def _fetch(self, ids: Iterable[str], have: Pieces) -> Pieces:
        pieces: dict[str, Any] = dict(have)
        roots = list(dict.fromkeys(missing(ids, pieces)))
        for start in range(0, len(roots), PIECES_PER_QUERY):
            query = pieces_query(roots[start : start + PIECES_PER_QUERY])
            reply = await self._http.query(query, self._points.waiting())
            with readable(self._http.node):
                for (tree,) in reply:
                    _collect(tree, pieces)
        return pieces

    async def _rows_and_mark(self, query: RowQuery, point: ReadPoint) -> list[VersionRow]:
        """Run a query, and learn whether any write ever had an end.

        A row shows the mark as of its point. A write after that point restores versions from before
        it, so a read at a sequence also needs the mark of the present: both are read at once.
        """
        if self._marked or point.sequence is None:
            rows = await query(point)
        else:
            rows, _ = await asyncio.gather(query(point), self._read_mark())
        self._marked = self._marked or bool(rows and rows[0].marked)
        return rows

    async def _read_mark(self) -> None:
        reply = await self._http.query(existing_query([BOUNDED]), self._points.waiting())
        self._marked = self._marked or bool(reply)

    async def _starts(self, object_ids: Sequence[str], point: ReadPoint) -> dict[str, Instant]:
        """Return where the visible version starts, for objects that were written with an end."""
        marks = {marker_id(object_id): object_id for object_id in object_ids}
        reply = await self._http.query(existing_query(marks), self._points.waiting())
        with readable(self._http.node):
            bounded = [marks[mark] for (mark,) in reply]
        starts: dict[str, Instant] = {}
        for first in range(0, len(bounded), STARTS_AT_ONCE):
            batch = bounded[first : first + STARTS_AT_ONCE]
            instants = await all_of(self._start(object_id, point) for object_id in batch)
            starts.update(zip(batch, instants, strict=True))
        return starts

    async def _start(self, object_id: str, point: ReadPoint) -> Instant:
        params = {"eid-edn": url_id(object_id), **self._points.params(point)}
        entry = await self._http.get("entity-tx", params)
        with readable(self._http.node):
            start: Instant = entry[_VALID_TIME].ms
            return start


async def all_of(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all concurrently; if one fails, cancel the others and raise its error."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in coroutines]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from failed
    return [task.result() for task in tasks]


def _row(columns: Sequence[Any], without: frozenset[str]) -> VersionRow:
    entity, start, mark, *rest = columns
    stored = stored_from(entity)
    if without:
        stored = stored.without(without)
    return VersionRow(stored, start.ms, mark is not None, rest)


def _collect(tree: dict[Any, Any], into: dict[str, Any]) -> None:
    """Flatten a piece and the pieces inside it."""
    parts = tree.get(_PARTS)
    if parts is None:
        into[tree[_ID]] = stored_from(tree).fields
        return
    for part in parts:
        if part is not None:
            _collect(part, into)
    into[tree[_ID]] = {PARTS: [part and part[_ID] for part in parts]}
