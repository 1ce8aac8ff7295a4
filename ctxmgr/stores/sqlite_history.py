"""History of one object in a SQLite store: where its versions start. Touches the database."""

from typing import Any

from ctxmgr.core.paging import encode_cursor, position_of
from ctxmgr.core.store import AsOf, HistoryEntry, HistoryPage, Instant
from ctxmgr.stores.sqlite_reader import WID_MAX, Reader, Row
from ctxmgr.stores.sqlite_statements import statements
from ctxmgr.stores.sqlite_timeline import sequence_of


def history(
    reader: Reader,
    object_id: str,
    *,
    as_of: AsOf,
    low: Instant,
    newest_first: bool,
    corrections: bool,
    documents: bool,
    limit: int,
    cursor: str | None,
    asked: list[Any],
) -> HistoryPage:
    """One page of where versions start."""
    start = (WID_MAX, WID_MAX) if newest_first else (-1, -1)
    vt, wid = start if cursor is None else position_of(asked, cursor, int, int)
    with reader.snapshot():
        point = reader.point(as_of)
        nid = reader.number(object_id)
        if nid is None:
            return HistoryPage(entries=(), cursor=None)
        bindings = {
            "nid": nid,
            "low": low,
            "high": WID_MAX if as_of.valid_time is None else as_of.valid_time,
            "bound": point.bound,
            "vt": vt,
            "wid": wid,
            "corrections": corrections,
            "limit": limit + 1,
        }
        statement = statements()["history_down" if newest_first else "history_up"]
        rows = list(reader.rows(statement, bindings))
        found = (_entry(reader, object_id, row, documents=documents) for row in rows)
        entries, more = reader.page(found, limit)
    last = list(rows[len(entries) - 1][:2]) if more else []
    return HistoryPage(entries=entries, cursor=encode_cursor(asked, last) if more else None)


def _entry(reader: Reader, object_id: str, row: Row, *, documents: bool) -> HistoryEntry:
    vt, wid, gone, instant = row
    return HistoryEntry(
        object_id=object_id,
        valid_time=vt,
        sequence=sequence_of(wid),
        system_time=instant,
        deleted=bool(gone),
        document=reader.document(wid, object_id) if documents and not gone else None,
    )
