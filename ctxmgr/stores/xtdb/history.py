"""Read the history of an object and the feed of transactions, page by page. Uses the network.

XTDB lists history from a start (inclusive) to an end (exclusive), both in the direction of the
listing, without a limit: reading stops when the page is full. A deletion has a content hash of
zeros. An entry restored after a write with an end has its original transaction.

XTDB's log lists every committed transaction in order and omits aborted ones. Ours contain a record
of themselves; transactions of other programs are skipped, as are rewrites and what they evicted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from ctxmgr.core.store.contract import (
    INSTANT_MAX,
    LATEST,
    PAGE_MAX,
    AsOf,
    HistoryEntry,
    Instant,
    Transaction,
    Write,
)
from ctxmgr.errors import Corrupt
from ctxmgr.stores.edn.values import Keyword, Tagged
from ctxmgr.stores.xtdb.as_of import ReadPoint, ReadPoints, url_id, url_instant
from ctxmgr.stores.xtdb.commits import is_committed
from ctxmgr.stores.xtdb.layout import Pieces, Stored, stored_from
from ctxmgr.stores.xtdb.queries import existing_query
from ctxmgr.stores.xtdb.reads import STARTS_AT_ONCE, Reads, all_of
from ctxmgr.stores.xtdb.replies import readable
from ctxmgr.stores.xtdb.transactions import EVICTED, Logged, LoggedWrite, logged_from
from ctxmgr.stores.xtdb.transport import XtdbTransport

WINDOW: Final = 8
"""Sequences searched for a committed transaction if the last one was aborted; the window grows
eightfold until one is found."""


async def read_feed(
    http: XtdbTransport,
    points: ReadPoints,
    reads: Reads,
    *,
    after: int | None,
    limit: int,
    documents: bool,
) -> Sequence[Transaction]:
    """Read up to ``limit`` of our transactions after that sequence."""
    params = {"with-ops?": "true", **points.waiting()}
    if after is not None:
        params["after-tx-id"] = str(after)
    logged, _ = await http.listed("tx-log", params, take=logged_from, limit=limit)
    if any(tx.evicted for tx in logged) and not await http.query(
        existing_query([EVICTED]), points.waiting()
    ):
        raise Corrupt("documents of our transactions were evicted by another program")
    pieces: Pieces = {}
    if documents:
        stored = [[write.stored for write in tx.writes if write.stored] for tx in logged]
        sent = {name: piece for tx in logged for name, piece in tx.pieces.items()}
        count, pieces = await reads.fitting(stored, have=sent)
        logged = logged[:count]
    return [_transaction(tx, pieces, documents=documents) for tx in logged]


async def last_transaction(http: XtdbTransport, points: ReadPoints) -> tuple[int, Instant] | None:
    """Return the sequence and time of the last committed transaction."""
    newest = await http.get("latest-completed-tx", points.waiting())
    if newest is None:
        return None
    with readable(http.node):
        end, time = newest[_TX_ID], newest[_TX_TIME].ms
    if await is_committed(http, {"tx-id": str(end), **points.waiting(end)}):
        return end, time
    window = WINDOW
    while True:
        after = end - window
        committed = await _committed_after(http, points, after)
        if committed or after < 0:
            return committed[-1] if committed else None
        window *= WINDOW


async def _committed_after(
    http: XtdbTransport, points: ReadPoints, after: int
) -> list[tuple[int, Instant]]:
    params = points.waiting()
    if after >= 0:
        params["after-tx-id"] = str(after)
    reply = await http.get("tx-log", params)
    with readable(http.node):
        return [(entry[_TX_ID], entry[_TX_TIME].ms) for entry in reply]


def _transaction(logged: Logged, pieces: Pieces, *, documents: bool) -> Transaction:
    return Transaction(
        sequence=logged.sequence,
        system_time=logged.system_time,
        key=logged.key,
        writes=tuple(_write(write, logged, pieces, documents) for write in logged.writes),
    )


def _write(write: LoggedWrite, logged: Logged, pieces: Pieces, documents: bool) -> Write:  # noqa: FBT001
    wanted = documents and write.stored is not None
    return Write(
        object_id=write.object_id,
        deleted=write.deleted,
        document=write.stored.document(pieces) if wanted and write.stored else None,
        valid_from=logged.system_time if write.valid_from is None else write.valid_from,
        valid_to=write.valid_to,
    )


_TX_ID, _TX_TIME, _VALID_TIME, _HASH, _DOC = (
    Keyword(f"xtdb.api/{name}")
    for name in ("tx-id", "tx-time", "valid-time", "content-hash", "doc")
)
_DELETED: Final = "0" * 40


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRequest:
    """Which entries of an object's history are requested."""

    object_id: str
    as_of: AsOf
    since: Instant | None
    newest_first: bool
    corrections: bool
    documents: bool
    without: frozenset[str] = frozenset()
    """Fields to leave out of the documents."""

    def value(self) -> list[Any]:
        """Return the values that a cursor is bound to."""
        return [
            *("history", self.object_id, self.since, self.newest_first, self.corrections),
            *(self.as_of.valid_time, self.as_of.sequence, self.as_of.system_time),
        ]

    def beyond(self, entry: "EntityEntry", after: tuple[Instant, int]) -> bool:
        """Return whether the entry comes after the last page."""
        position = (entry.valid_time, entry.sequence)
        if not self.corrections:
            return position[0] < after[0] if self.newest_first else position[0] > after[0]
        return position < after if self.newest_first else position > after


@dataclass(frozen=True, slots=True)
class EntityEntry:
    """An entry of the history, without the pieces of its document."""

    valid_time: Instant
    sequence: int
    system_time: Instant
    deleted: bool
    stored: Stored | None


async def read_history(
    http: XtdbTransport,
    points: ReadPoints,
    reads: Reads,
    *,
    request: HistoryRequest,
    after: tuple[Instant, int] | None,
    limit: int,
) -> tuple[list[HistoryEntry], bool]:
    """Return up to ``limit`` entries after ``after``, and whether there may be more."""
    point = await points.resolve(request.as_of)
    if point is None:
        return [], False

    # XTDB omits future entries unless an end is given.
    last = INSTANT_MAX if point.valid_time is None else point.valid_time
    params = {**_params(request, after), **points.params(ReadPoint(last, point.sequence))}
    entries, full = await http.listed(
        "entity", params, take=partial(_entry_after, request, after), limit=limit + 1
    )
    stored = [[entry.stored] if entry.stored else [] for entry in entries]
    count, pieces = await reads.fitting(stored)
    page = entries[: min(count, limit)]
    history = [
        HistoryEntry(
            object_id=request.object_id,
            valid_time=entry.valid_time,
            sequence=entry.sequence,
            system_time=entry.system_time,
            deleted=entry.deleted,
            document=entry.stored.document(pieces) if entry.stored else None,
        )
        for entry in page
    ]
    return history, full or len(page) < len(entries)


async def stored_history(
    http: XtdbTransport, points: ReadPoints, object_id: str
) -> list[EntityEntry]:
    """Return every entry of an object, corrections included, without the pieces of documents."""
    request = HistoryRequest(
        object_id=object_id,
        as_of=LATEST,
        since=None,
        newest_first=False,
        corrections=True,
        documents=True,
    )
    entries: list[EntityEntry] = []
    while True:
        after = (entries[-1].valid_time, entries[-1].sequence) if entries else None
        page, full = await http.listed(
            "entity",
            {**_params(request, after), **points.params(ReadPoint(INSTANT_MAX, None))},
            take=partial(_entry_after, request, after),
            limit=PAGE_MAX,
        )
        entries += page
        if not full:
            return entries


def _entry_after(
    request: HistoryRequest, after: tuple[Instant, int] | None, item: Any
) -> EntityEntry | None:
    entry = _entry(item, request.without)
    return entry if after is None or request.beyond(entry, after) else None


async def read_histories(
    http: XtdbTransport,
    points: ReadPoints,
    reads: Reads,
    *,
    object_ids: Sequence[str],
    as_of: AsOf,
    without: frozenset[str],
    limit: int,
) -> dict[str, list[HistoryEntry]]:
    """Return the last entries of many objects. XTDB has no query for that, so each is asked for."""
    resolved = await points.resolve(as_of)
    if resolved is None or not object_ids:
        return {}
    point = await points.fixed(resolved)
    fixed = AsOf(valid_time=point.valid_time, sequence=point.sequence)

    async def read(object_id: str) -> list[HistoryEntry]:
        request = HistoryRequest(
            object_id=object_id,
            as_of=fixed,
            since=None,
            newest_first=True,
            corrections=False,
            documents=True,
            without=without,
        )
        entries, _ = await read_history(
            http, points, reads, request=request, after=None, limit=limit
        )
        return entries

    found: dict[str, list[HistoryEntry]] = {}
    for first in range(0, len(object_ids), STARTS_AT_ONCE):
        batch = object_ids[first : first + STARTS_AT_ONCE]
        histories = await all_of(read(object_id) for object_id in batch)
        found.update(zip(batch, histories, strict=True))
    return {object_id: entries for object_id, entries in found.items() if entries}


def _params(request: HistoryRequest, after: tuple[Instant, int] | None) -> dict[str, str]:
    params = {
        "eid-edn": url_id(request.object_id),
        "history": "true",
        "sort-order": "desc" if request.newest_first else "asc",
        "with-corrections": str(request.corrections).lower(),
        "with-docs": str(request.documents).lower(),
    }
    if request.newest_first:
        if after is not None:
            params["start-valid-time"] = url_instant(after[0])
        if request.since is not None:
            params["end-valid-time"] = url_instant(request.since - 1)
    elif after is not None or request.since is not None:
        start = max(after[0] if after else 0, request.since or 0)
        params["start-valid-time"] = url_instant(start)
    return params


def _entry(item: Any, without: frozenset[str]) -> EntityEntry:
    content_hash = item[_HASH]
    document = item.get(_DOC)
    return EntityEntry(
        valid_time=item[_VALID_TIME].ms,
        sequence=item[_TX_ID],
        system_time=item[_TX_TIME].ms,
        deleted=isinstance(content_hash, Tagged) and content_hash.value == _DELETED,
        stored=None if document is None else stored_from(document).without(without),
    )
