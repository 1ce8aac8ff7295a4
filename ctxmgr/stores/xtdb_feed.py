"""The transactions of the log, as they were given. Touches the network.

XTDB's log has every committed transaction in order and leaves aborted ones out. Ours are those
that put a record of themselves; what other programs wrote is passed over.
"""

from collections.abc import Sequence
from typing import Any, Final

from ctxmgr.core.store import Instant, Transaction, Write
from ctxmgr.stores.edn import Keyword
from ctxmgr.stores.xtdb_commits import is_committed
from ctxmgr.stores.xtdb_http import Transport
from ctxmgr.stores.xtdb_layout import Pieces
from ctxmgr.stores.xtdb_points import Points
from ctxmgr.stores.xtdb_reads import Reads
from ctxmgr.stores.xtdb_replies import readable
from ctxmgr.stores.xtdb_transactions import Logged, LoggedWrite, logged_from

WINDOW: Final = 8
"""Sequences before an aborted last one that are searched for one that was not; eight times as many
each time there is none."""

_TX_ID, _TX_TIME = Keyword("xtdb.api/tx-id"), Keyword("xtdb.api/tx-time")


async def read_feed(
    http: Transport,
    points: Points,
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
    pieces: Pieces = {}
    if documents:
        stored = [[write.stored for write in each.writes if write.stored] for each in logged]
        sent = {name: piece for each in logged for name, piece in each.pieces.items()}
        count, pieces = await reads.fitting(stored, have=sent)
        logged = logged[:count]
    return [_transaction(each, pieces, documents=documents) for each in logged]


async def last_transaction(http: Transport, points: Points) -> tuple[int, Instant] | None:
    """Find the last transaction that was not aborted."""
    newest = await http.get("latest-completed-tx", points.waiting())
    if newest is None:
        return None
    with readable(http.node):
        end, time = newest[_TX_ID], newest[_TX_TIME].ms
    if await is_committed(http, {"tx-id": str(end), **points.waiting(end)}):
        return end, time
    reach = WINDOW
    while True:
        after = end - reach
        found = await _committed_after(http, points, after)
        if found or after < 0:
            return found[-1] if found else None
        reach *= WINDOW


async def _committed_after(
    http: Transport, points: Points, after: int
) -> list[tuple[int, Instant]]:
    def take(entry: Any) -> tuple[int, Instant]:
        return entry[_TX_ID], entry[_TX_TIME].ms

    params = points.waiting()
    if after >= 0:
        params["after-tx-id"] = str(after)
    reply = await http.get("tx-log", params)
    with readable(http.node):
        return [take(each) for each in reply]


def _transaction(logged: Logged, pieces: Pieces, *, documents: bool) -> Transaction:
    return Transaction(
        sequence=logged.sequence,
        system_time=logged.system_time,
        key=logged.key,
        writes=tuple(_write(each, logged, pieces, documents) for each in logged.writes),
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
