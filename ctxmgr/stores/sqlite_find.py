"""Finding documents by declared fields, now or as of any point. Touches the database.

    now          ``present`` gives candidates in order; other equalities are joined by their key
    as of        ``ever`` gives candidates in order; each is kept if the version visible then has
                 that value and meets the other conditions

One field drives: that of the order; else an equality; else the range; else the kind itself.
A head whose time is over (a version from the future has begun since the last write) would be
missed by ``present``; while there is one, now is answered as a point.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final

import orjson

from ctxmgr.core.paging import encode_cursor, position_of, query_value
from ctxmgr.core.store import LATEST, AsOf, FieldType, FoundPage, Query, Version
from ctxmgr.stores.sqlite_fields import (
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
from ctxmgr.stores.sqlite_reader import Point, Reader
from ctxmgr.stores.sqlite_statements import statements

_AFTER: Final = {
    "by_place": ("after_place", 0),
    "by_value": ("after_up", 1),
    "by_value_down": ("after_down", 2),
}
"""By order: the statement that goes on after a page, and how often it names the value."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """Which field drives the search, and what every find must meet. Keys are by fid."""

    fid: int
    low: Key
    high: Key | None
    """None: the driving field equals ``low``."""
    order: str
    """The statement that orders: by_place, by_value or by_value_down."""
    equal: dict[int, Key]
    within: tuple[int, Key, Key] | None


def find(reader: Reader, query: Query, *, as_of: AsOf, limit: int, cursor: str | None) -> FoundPage:
    """One page. The query and the limit have been checked."""
    asked = ["find", query_value(query), as_of.valid_time, as_of.sequence, as_of.system_time]
    position = None if cursor is None else position_of(asked, cursor, str | int | None, str)
    with reader.snapshot():
        point = reader.point(as_of)
        fields = reader.fields()
        if (query.kind, KIND_FIELD) not in fields.numbers:
            return FoundPage(versions=(), cursor=None)
        plan = _plan(query, fields)
        now = as_of == LATEST and not reader.has_stale_head(point.valid)
        found = (_versions_now if now else _versions_then)(reader, plan, position, point)
        versions, more = reader.page(found, limit)
    cursor = encode_cursor(asked, _position(query, versions[-1])) if more else None
    return FoundPage(versions=versions, cursor=cursor)


def _plan(query: Query, fields: Fields) -> _Plan:
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
        return _Plan(fid, low, high, order, equal, within)
    if within is not None and not equal:
        return _Plan(*within, "by_place", equal, within)
    fid = fid_of(next(iter(query.where), KIND_FIELD))
    return _Plan(fid, equal.get(fid, NULL_KEY), None, "by_place", equal, within)


def _all_of(declared: FieldType) -> tuple[Key, Key]:
    """Every value of that type but null."""
    return (TEXT_LOW, TEXT_HIGH) if declared is FieldType.TEXT else (INTEGER_LOW, NULL_KEY)


def _position(query: Query, version: Version) -> list[Any]:
    value = None if query.order is None else version.document[query.order.field]
    return [value, version.object_id]


def _versions_now(
    reader: Reader, plan: _Plan, position: list[Any] | None, point: Point
) -> Generator[Version, None, None]:
    sql, bindings = _candidates(plan, position, now=True)
    for nid, _, stored in reader.rows(sql, bindings):
        keys = {fid: sort_key(each) for fid, each in orjson.loads(stored)}
        if _meets(plan, keys) and (seen := reader.visible(nid, point)):
            yield reader.version(reader.text(nid), *seen)


def _versions_then(
    reader: Reader, plan: _Plan, position: list[Any] | None, point: Point
) -> Generator[Version, None, None]:
    fields = reader.fields()
    sql, bindings = _candidates(plan, position, now=False)
    for nid, value, _ in reader.rows(sql, bindings):
        seen = reader.visible(nid, point)
        if seen is None:
            continue
        shown = fields.values(reader.values(seen[1], fields.searched))
        keys = {fid: sort_key(each) for fid, each in shown}
        if keys.get(plan.fid) == value and _meets(plan, keys):
            yield reader.version(reader.text(nid), *seen)


def _meets(plan: _Plan, keys: dict[int, Key]) -> bool:
    if any(keys.get(fid) != key for fid, key in plan.equal.items()):
        return False
    if plan.within is None:
        return True
    fid, low, high = plan.within
    key = keys.get(fid)
    return key is not None and _at_least(key, low) and not _at_least(key, high)


def _at_least(key: Key, low: Key) -> bool:
    """Compare as SQLite does: integers stand before bytes."""
    if isinstance(key, int) and isinstance(low, int):
        return key >= low
    if isinstance(key, bytes) and isinstance(low, bytes):
        return key >= low
    return isinstance(key, bytes)


def _candidates(plan: _Plan, position: list[Any] | None, *, now: bool) -> tuple[str, list[Key]]:
    sql = statements()
    parts = [sql["find_now" if now else "find_then"]]
    bindings: list[Key] = []
    if now:
        others = [
            each for each in plan.equal.items() if plan.high is not None or each[0] != plan.fid
        ]
        for number, (fid, key) in enumerate(others):
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
        after, bound = _AFTER[plan.order]
        parts.append(sql[after])
        bindings += [value] * bound
        bindings.append(place)
    return " ".join([*parts, sql[plan.order]]), bindings
