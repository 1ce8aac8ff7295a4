"""The feed, an object's history, and finding by declared fields. Touches the database.

``find`` reads candidates in the order of one driving field (that of the order; else an equality;
else the range; else the kind) and keeps those that meet the other conditions:

    now          candidates are in ``present``; other equalities are joined
    as of        candidates are in ``ever``; the version visible at that point must have the value

A version that has begun since the last write is not in ``present`` until its head is refreshed.
While there is such a stale head, now is answered like any other point in time.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import orjson

from ctxmgr.core.store.contract import (
    LATEST,
    AsOf,
    FieldType,
    FoundPage,
    HistoryEntry,
    HistoryPage,
    Instant,
    Query,
    Transaction,
    Version,
    Write,
)
from ctxmgr.core.store.queries import decode_position, encode_cursor, query_value
from ctxmgr.stores.sqlite.connection import statements
from ctxmgr.stores.sqlite.fields import (
    INTEGER_LOW,
    KIND_FIELD,
    NULL_KEY,
    TEXT_HIGH,
    TEXT_LOW,
    Fields,
    Key,
    sort_key,
    text_order,
)
from ctxmgr.stores.sqlite.reader import WID_MAX, Reader, Row, TablePoint, key_text
from ctxmgr.stores.sqlite.submission import MARK_EVERY, generated_key
from ctxmgr.stores.sqlite.timeline import sequence_of, wid_of


def feed(reader: Reader, *, after: int | None, limit: int, documents: bool) -> list[Transaction]:
    """Return the transactions after that sequence."""
    with reader.snapshot():
        start = 0 if after is None else max(after, 0)
        rows = list(reader.rows(statements()["feed"], (start, limit)))
        transactions = (_transaction(reader, row, documents=documents) for row in rows)
        return reader.page(transactions, limit)[0]


def _transaction(reader: Reader, row: Row, *, documents: bool) -> Transaction:
    seq, instant, key = row
    if not key:
        marks = list(reader.rows(statements()["mark_of"], (seq, MARK_EVERY)))
        key = generated_key(marks[0][0] if marks else None, seq)
    return Transaction(
        sequence=seq,
        system_time=instant,
        key=key,
        writes=tuple(_writes(reader, seq, instant, documents=documents)),
    )


def _writes(reader: Reader, seq: int, instant: Instant, *, documents: bool) -> Iterator[Write]:
    rows = list(reader.rows(statements()["writes_of"], (wid_of(seq), wid_of(seq + 1))))
    for key, valid_from, valid_to, fmt, body in rows:
        object_id = key_text(key)
        wanted = documents and body is not None
        yield Write(
            object_id=object_id,
            deleted=body is None,
            document=reader.bodies.document(fmt, body, object_id) if wanted else None,
            valid_from=instant if valid_from is None else valid_from,
            valid_to=valid_to,
        )


_AFTER: Final = {
    "by_place": ("after_place", 0),
    "by_value": ("after_up", 1),
    "by_value_down": ("after_down", 2),
}
"""By order: the condition of the next page, and how often it binds the value."""


_Found: TypeAlias = tuple[int, tuple[Instant, int]]
"""An object, and the start and the write of its version."""


@dataclass(frozen=True, slots=True)
class _FindPlan:
    """Which field drives the search, and which conditions a result must meet, by fid."""

    fid: int
    low: Key
    high: Key | None
    """None: the driving field equals ``low``."""
    order: str
    """The name of the ORDER BY clause: by_place, by_value or by_value_down."""
    equal: dict[int, Key]
    within: tuple[int, Key, Key] | None


def find(
    reader: Reader,
    query: Query,
    *,
    as_of: AsOf,
    without: frozenset[str],
    limit: int,
    cursor: str | None,
) -> FoundPage:
    """Return one page. The query and the limit have been checked."""
    request = ["find", query_value(query), as_of.valid_time, as_of.sequence, as_of.system_time]
    position = None if cursor is None else decode_position(request, cursor, str | int | None, str)
    with reader.snapshot():
        point = reader.point(as_of)
        fields = reader.fields()
        if (query.kind, KIND_FIELD) not in fields.numbers:
            return FoundPage(versions=(), cursor=None)
        plan = _plan(query, fields)
        now = as_of == LATEST and not reader.has_stale_head(point.valid)
        found = (_found_now if now else _found_at)(reader, plan, position, point)
        results = _versions(reader, found, without)
        versions, more = reader.page(results, limit)
    if not more:
        return FoundPage(versions=versions, cursor=None)
    last = versions[-1]
    value = None if query.order is None else last.document[query.order.field]
    return FoundPage(versions=versions, cursor=encode_cursor(request, [value, last.object_id]))


def _plan(query: Query, fields: Fields) -> _FindPlan:
    def fid_of(name: str) -> int:
        return fields.numbers[query.kind, name]

    types = fields.declared.get(query.kind, {})
    equal = {fid_of(name): sort_key(value) for name, value in query.where.items()}
    within = None
    if query.between is not None:
        between = query.between
        low, high = _all_of(types[between.field])
        low = low if between.low is None else sort_key(between.low)
        high = high if between.high is None else sort_key(between.high)
        within = (fid_of(between.field), low, high)
    if query.order is not None:
        fid = fid_of(query.order.field)
        low, high = within[1:] if within and within[0] == fid else _all_of(types[query.order.field])
        order = "by_value_down" if query.order.descending else "by_value"
        return _FindPlan(fid, low, high, order, equal, within)
    if within is not None and not equal:
        return _FindPlan(*within, "by_place", equal, within)
    fid = fid_of(next(iter(query.where), KIND_FIELD))
    return _FindPlan(fid, equal.get(fid, NULL_KEY), None, "by_place", equal, within)


def _all_of(declared: FieldType) -> tuple[Key, Key]:
    """Return the range of all values of that type except null."""
    return (TEXT_LOW, TEXT_HIGH) if declared is FieldType.TEXT else (INTEGER_LOW, NULL_KEY)


def _versions(
    reader: Reader, found: Generator[_Found, None, None], without: frozenset[str]
) -> Generator[Version, None, None]:
    with closing(found):
        for nid, visible in found:
            yield reader.version(reader.text_of(nid), *visible, without=without)


def _found_now(
    reader: Reader, plan: _FindPlan, position: list[Any] | None, point: TablePoint
) -> Generator[_Found, None, None]:
    sql, bindings = _candidates(plan, position, now=True)
    for nid, _, fields in reader.rows(sql, bindings):
        keys = {fid: sort_key(value) for fid, value in orjson.loads(fields)}
        if _meets(plan, keys) and (visible := reader.visible(nid, point)):
            yield nid, visible


def _found_at(
    reader: Reader, plan: _FindPlan, position: list[Any] | None, point: TablePoint
) -> Generator[_Found, None, None]:
    fields = reader.fields()
    sql, bindings = _candidates(plan, position, now=False)
    for nid, driving_key, _ in reader.rows(sql, bindings):
        visible = reader.visible(nid, point)
        if visible is None:
            continue
        values = fields.values(reader.values(visible[1], fields.searched))
        keys = {fid: sort_key(value) for fid, value in values}
        # An object is in ``ever`` once per value it has had: only the visible one counts.
        if keys.get(plan.fid) == driving_key and _meets(plan, keys):
            yield nid, visible


def _meets(plan: _FindPlan, keys: dict[int, Key]) -> bool:
    if any(keys.get(fid) != key for fid, key in plan.equal.items()):
        return False
    if plan.within is None:
        return True
    fid, low, high = plan.within
    key = keys.get(fid)
    return key is not None and _at_least(key, low) and not _at_least(key, high)


def _at_least(key: Key, low: Key) -> bool:
    """Compare as SQLite does, with integers before bytes."""
    if isinstance(key, int) and isinstance(low, int):
        return key >= low
    if isinstance(key, bytes) and isinstance(low, bytes):
        return key >= low
    return isinstance(key, bytes)


def _candidates(plan: _FindPlan, position: list[Any] | None, *, now: bool) -> tuple[str, list[Key]]:
    """Return the statement that yields (nid, key, fields) of candidates, and its bindings."""
    sql = statements()
    parts = [sql["find_now" if now else "find_then"]]
    bindings: list[Key] = []
    if now:
        joined = {
            fid: key for fid, key in plan.equal.items() if plan.high is not None or fid != plan.fid
        }
        for number, (fid, key) in enumerate(joined.items()):
            parts.append(sql["find_equal"].format(n=number))
            bindings += [fid, key]
    if plan.high is None:
        parts.append(sql["find_one"])
        bindings += [plan.fid, plan.low]
    else:
        parts.append(sql["find_range"])
        bindings += [plan.fid, plan.low, plan.high]
    if position is not None:
        value, place = sort_key(position[0]), text_order(position[1])
        condition, times = _AFTER[plan.order]
        parts.append(sql[condition])
        bindings += [value] * times
        bindings.append(place)
    return " ".join([*parts, sql[plan.order]]), bindings


def history(
    reader: Reader,
    object_id: str,
    *,
    as_of: AsOf,
    since: Instant | None,
    newest_first: bool,
    corrections: bool,
    documents: bool,
    limit: int,
    cursor: str | None,
) -> HistoryPage:
    """Return one page of where versions start."""
    point_values = [as_of.valid_time, as_of.sequence, as_of.system_time]
    request: list[Any] = ["history", object_id, *point_values, since, newest_first, corrections]
    start = (WID_MAX, WID_MAX) if newest_first else (-1, -1)
    vt, wid = start if cursor is None else decode_position(request, cursor, int, int)
    with reader.snapshot():
        point = reader.point(as_of)
        nid = reader.find_nid(object_id)
        if nid is None:
            return HistoryPage(entries=(), cursor=None)
        bindings = {
            "nid": nid,
            "low": -1 if since is None else since,
            "high": WID_MAX if as_of.valid_time is None else as_of.valid_time,
            "bound": point.bound,
            "vt": vt,
            "wid": wid,
            "corrections": corrections,
            "limit": limit + 1,
        }
        statement = statements()["history_down" if newest_first else "history_up"]
        rows = list(reader.rows(statement, bindings))
        results = (_entry(reader, object_id, row, documents=documents) for row in rows)
        entries, more = reader.page(results, limit)
    last = list(rows[len(entries) - 1][:2]) if more else []
    return HistoryPage(entries=entries, cursor=encode_cursor(request, last) if more else None)


def history_many(
    reader: Reader,
    object_ids: Iterable[str],
    *,
    as_of: AsOf,
    without: frozenset[str],
    limit: int,
) -> dict[str, Sequence[HistoryEntry]]:
    """Return the last entries of many objects, all as of one point."""
    found: dict[str, Sequence[HistoryEntry]] = {}
    statement = statements()["history_down"]
    with reader.snapshot():
        point = reader.point(as_of)
        for object_id in object_ids:
            bindings = {
                "nid": reader.find_nid(object_id),
                "low": -1,
                "high": point.valid,
                "bound": point.bound,
                "vt": WID_MAX,
                "wid": WID_MAX,
                "corrections": False,
                "limit": limit,
            }
            rows = list(reader.rows(statement, bindings))
            if rows:
                found[object_id] = [
                    _entry(reader, object_id, row, documents=True, without=without) for row in rows
                ]
    return found


def _entry(
    reader: Reader,
    object_id: str,
    row: Row,
    *,
    documents: bool,
    without: frozenset[str] = frozenset(),
) -> HistoryEntry:
    vt, wid, gone, instant = row
    return HistoryEntry(
        object_id=object_id,
        valid_time=vt,
        sequence=sequence_of(wid),
        system_time=instant,
        deleted=bool(gone),
        document=(
            reader.document(wid, object_id, without=without) if documents and not gone else None
        ),
    )
