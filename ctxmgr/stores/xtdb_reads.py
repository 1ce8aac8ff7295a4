"""Versions as they were visible at a point, whole. Touches the network.

A version comes in one query; its pieces, which never change and are there at every point, in a
second; and where anything was ever written between two instants, where it starts on the timeline is
asked of each object that was, because XTDB's query knows only where its content first began.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from ctxmgr.core.store import Instant, Version
from ctxmgr.stores.edn import Keyword
from ctxmgr.stores.xtdb_http import PAGE_BYTES_MAX, Transport
from ctxmgr.stores.xtdb_known import KnownPieces
from ctxmgr.stores.xtdb_layout import Pieces, Stored, stored_from
from ctxmgr.stores.xtdb_pieces import PARTS, missing, reached, weight
from ctxmgr.stores.xtdb_points import Point, Points, url_id
from ctxmgr.stores.xtdb_queries import existing_query, get_query, pieces_query
from ctxmgr.stores.xtdb_replies import readable
from ctxmgr.stores.xtdb_transactions import BOUNDED, anchor_of, marker_id, tx_id

IDS_PER_QUERY: Final = 1_000
"""Of a long batch: while the server answers the next query, the last answer is decoded."""

QUERIES_AT_ONCE: Final = 3
"""Of one batch get: one that is decoded, one that is answered, and one that waits for neither."""

PIECES_PER_QUERY: Final = 500
"""Each may hold sixteen times sixteen others, of 8 KiB and more."""

ANCHORS_PER_READ: Final = 64
"""Records asked for along with pieces: those who read more documents at once change few of them."""

FIRST_STEP: Final = 8
"""Entries whose pieces are fetched first for a page; each step takes twice as many."""

STARTS_AT_ONCE: Final = 64
"""Requests for starts under way: more than there are connections, few enough to end soon."""

_ID: Final = Keyword("xt/id")
_PARTS: Final = Keyword(PARTS)
_VALID_TIME: Final = Keyword("xtdb.api/valid-time")

T = TypeVar("T")
Ask = Callable[[Point], Awaitable[list["Row"]]]


class Row(NamedTuple):
    """One version as a query gives it."""

    stored: Stored
    start: Instant
    marked: bool
    """Something in the store was written between two instants."""
    rest: Sequence[Any]


class Reads:
    """Reads rows and makes versions of them."""

    def __init__(self, http: Transport, points: Points) -> None:
        self._http = http
        self._points = points
        self._marked = False
        self.known = KnownPieces()

    async def get(
        self, object_ids: Sequence[str], point: Point, *, without: frozenset[str] = frozenset()
    ) -> dict[str, Version]:
        """Return what is visible of these objects, all at one point."""
        if len(object_ids) > IDS_PER_QUERY:
            point = await self._points.fixed(point)
        turns = asyncio.Semaphore(QUERIES_AT_ONCE)

        async def ask(ids: Sequence[str]) -> list[Version]:
            async with turns:
                query = get_query(ids)
                return await self.versions(partial(self.rows, query, without=without), point)

        starts = range(0, len(object_ids), IDS_PER_QUERY)
        answers = await _all(ask(object_ids[start : start + IDS_PER_QUERY]) for start in starts)
        return {each.object_id: each for versions in answers for each in versions}

    async def rows(
        self, query: bytes, point: Point, *, without: frozenset[str] = frozenset()
    ) -> list[Row]:
        """Ask for versions; rows that come twice are kept once."""
        reply = await self._http.query(query, self._points.params(point))
        with readable(self._http.node):
            rows = (_row(each, without) for each in reply if each[0] is not None)
            return list({each.stored.object_id: each for each in rows}.values())

    async def versions(self, ask: Ask, point: Point) -> list[Version]:
        """Make versions of the rows that ``ask`` gives, in their order."""
        rows = await ask(point)
        starts: dict[str, Instant] = {}
        if rows and await self._may_start_again(rows, point):
            point = await self._points.fixed(point)
            rows = await ask(point)
            starts = await self._starts([each.stored.object_id for each in rows], point)
        pieces = await self._learnt([each.stored for each in rows])
        return [
            Version(
                object_id=each.stored.object_id,
                document=each.stored.document(pieces),
                valid_time=starts.get(each.stored.object_id, each.start),
                token=each.stored.token,
            )
            for each in rows
        ]

    async def pieces(self, entities: Iterable[Stored], *, have: Pieces | None = None) -> Pieces:
        """Fetch the pieces that these entities need and that are not in ``have``."""
        named = dict.fromkeys(root for each in entities for root in each.roots())
        return await self._fetched(named, have or {})

    async def fitting(
        self, entries: Sequence[Sequence[Stored]], *, have: Pieces | None = None
    ) -> tuple[int, Pieces]:
        """Fetch the pieces of as many entries as fit into a page, and say how many did."""
        found, weights = have or {}, dict[str, int]()
        count, size, step = 0, 0, FIRST_STEP
        while count < len(entries) and size <= PAGE_BYTES_MAX:
            some = entries[count : count + step]
            found = await self.pieces((each for entry in some for each in entry), have=found)
            for entry in some:
                size += sum(weight(each.roots(), found, weights) for each in entry)
                if count and size > PAGE_BYTES_MAX:
                    break
                count += 1
            step *= 2
        return count, found

    async def _learnt(self, entities: Sequence[Stored]) -> Pieces:
        """Fetch pieces, and with them what proves that they are there: whoever reads may write.

        A transaction is acknowledged with all its pieces, so its record proves them.
        """
        cut: dict[str, list[str]] = {}
        entities = [each for each in entities if each.is_cut]
        if not entities:
            return {}
        for each in entities:
            roots = list(each.roots())
            if roots and each.token:
                cut.setdefault(tx_id(each.token), []).extend(roots)
        records = list(cut)[:ANCHORS_PER_READ]
        named = dict.fromkeys((*records, *(root for each in entities for root in each.roots())))
        found = await self._fetched(named, {})
        for record in records:
            if record in found:
                anchor = anchor_of({Keyword(name): held for name, held in found[record].items()})
                self.known.learn(reached(cut[record], found), anchor=anchor)
        return found

    async def _fetched(self, named: Iterable[str], have: Pieces) -> Pieces:
        found: dict[str, Any] = dict(have)
        roots = list(dict.fromkeys(missing(named, found)))
        for start in range(0, len(roots), PIECES_PER_QUERY):
            query = pieces_query(roots[start : start + PIECES_PER_QUERY])
            reply = await self._http.query(query, self._points.waiting())
            with readable(self._http.node):
                for (tree,) in reply:
                    _collect(tree, found)
        return found

    async def _may_start_again(self, rows: list[Row], point: Point) -> bool:
        """Tell whether any write ever had an end; an old point does not show a newer mark."""
        if not self._marked:
            self._marked = rows[0].marked
        if not self._marked and point.sequence is not None:
            reply = await self._http.query(existing_query([BOUNDED]), self._points.waiting())
            self._marked = bool(reply)
        return self._marked

    async def _starts(self, object_ids: Sequence[str], point: Point) -> dict[str, Instant]:
        """Where the visible entry begins, for the objects that were written between instants."""
        marks = {marker_id(each): each for each in object_ids}
        reply = await self._http.query(existing_query(marks), self._points.waiting())
        bounded = [marks[mark] for (mark,) in reply]
        starts: dict[str, Instant] = {}
        for first in range(0, len(bounded), STARTS_AT_ONCE):
            some = bounded[first : first + STARTS_AT_ONCE]
            found = await _all(self._start(each, point) for each in some)
            starts.update(zip(some, found, strict=True))
        return starts

    async def _start(self, object_id: str, point: Point) -> Instant:
        params = {"eid-edn": url_id(object_id), **self._points.params(point)}
        entry = await self._http.get("entity-tx", params)
        with readable(self._http.node):
            start: Instant = entry[_VALID_TIME].ms
            return start


async def _all(asked: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Await all at once; when one fails the others are stopped, and its error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in asked]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from failed
    return [each.result() for each in tasks]


def _row(columns: Sequence[Any], without: frozenset[str]) -> Row:
    entity, start, mark, *rest = columns
    stored = stored_from(entity)
    if without:
        stored = stored.without(without)
    return Row(stored, start.ms, mark is not None, rest)


def _collect(tree: dict[Any, Any], into: dict[str, Any]) -> None:
    """Lay a piece and those inside it side by side."""
    parts = tree.get(_PARTS)
    if parts is None:
        into[tree[_ID]] = stored_from(tree).fields
        return
    for part in parts:
        if part is not None:
            _collect(part, into)
    into[tree[_ID]] = {PARTS: [part and part[_ID] for part in parts]}
