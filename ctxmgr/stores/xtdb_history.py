"""The history of one object, a page at a time. Touches the network.

XTDB lists history from a start (included) to an end (excluded), both taken in the direction of the
listing, with no limit: what is not wanted is not waited for. Deleted is a content hash of zeros. An
entry restored after a bounded write stands there with the transaction it first came from.
"""

from dataclasses import dataclass
from typing import Any, Final

from ctxmgr.core.store import INSTANT_MAX, AsOf, HistoryEntry, Instant
from ctxmgr.stores.edn import Keyword, Tagged
from ctxmgr.stores.xtdb_http import Transport
from ctxmgr.stores.xtdb_layout import Stored, stored_from
from ctxmgr.stores.xtdb_points import Point, Points, url_id, url_instant
from ctxmgr.stores.xtdb_reads import Reads

_TX_ID, _TX_TIME, _VALID_TIME, _HASH, _DOC = (
    Keyword(f"xtdb.api/{name}")
    for name in ("tx-id", "tx-time", "valid-time", "content-hash", "doc")
)
_DELETED: Final = "0" * 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is listed, and where the last page ended."""

    object_id: str
    as_of: AsOf
    since: Instant | None
    newest_first: bool
    corrections: bool
    documents: bool

    def value(self) -> list[Any]:
        """What a cursor belongs to."""
        return [
            *("history", self.object_id, self.since, self.newest_first, self.corrections),
            *(self.as_of.valid_time, self.as_of.sequence, self.as_of.system_time),
        ]

    def beyond(self, entry: "Entry", after: tuple[Instant, int]) -> bool:
        """Tell whether the entry comes after the end of the last page."""
        place = (entry.valid_time, entry.sequence)
        if not self.corrections:
            return place[0] < after[0] if self.newest_first else place[0] > after[0]
        return place < after if self.newest_first else place > after


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the listing; the entity is not yet joined with its pieces."""

    valid_time: Instant
    sequence: int
    system_time: Instant
    deleted: bool
    stored: Stored | None


async def read_history(
    http: Transport,
    points: Points,
    reads: Reads,
    *,
    asked: Asked,
    after: tuple[Instant, int] | None,
    limit: int,
) -> tuple[list[HistoryEntry], bool]:
    """List up to ``limit`` entries beyond ``after``, and tell whether there may be more."""
    point = await points.resolve(asked.as_of)
    if point is None:
        return [], False

    def take(found: Any) -> Entry | None:
        entry = _entry(found)
        return entry if after is None or asked.beyond(entry, after) else None

    params = {**_params(asked, after), **points.params(_bounded(point))}
    entries, full = await http.listed("entity", params, take=take, limit=limit + 1)
    count, pieces = await reads.fitting([[each.stored] if each.stored else [] for each in entries])
    page = entries[: min(count, limit)]
    found = [
        HistoryEntry(
            object_id=asked.object_id,
            valid_time=each.valid_time,
            sequence=each.sequence,
            system_time=each.system_time,
            deleted=each.deleted,
            document=each.stored.document(pieces) if each.stored else None,
        )
        for each in page
    ]
    return found, full or len(page) < len(entries)


def _bounded(point: Point) -> Point:
    """Without a bound the future is listed too, which XTDB leaves out unless asked."""
    last = INSTANT_MAX if point.valid_time is None else point.valid_time
    return Point(last, point.sequence)


def _params(asked: Asked, after: tuple[Instant, int] | None) -> dict[str, str]:
    params = {
        "eid-edn": url_id(asked.object_id),
        "history": "true",
        "sort-order": "desc" if asked.newest_first else "asc",
        "with-corrections": str(asked.corrections).lower(),
        "with-docs": str(asked.documents).lower(),
    }
    if asked.newest_first:
        if after is not None:
            params["start-valid-time"] = url_instant(after[0])
        if asked.since is not None:
            params["end-valid-time"] = url_instant(asked.since - 1)
    elif after is not None or asked.since is not None:
        start = max(after[0] if after else 0, asked.since or 0)
        params["start-valid-time"] = url_instant(start)
    return params


def _entry(found: Any) -> Entry:
    content_hash = found[_HASH]
    document = found.get(_DOC)
    return Entry(
        valid_time=found[_VALID_TIME].ms,
        sequence=found[_TX_ID],
        system_time=found[_TX_TIME].ms,
        deleted=isinstance(content_hash, Tagged) and content_hash.value == _DELETED,
        stored=None if document is None else stored_from(document),
    )
