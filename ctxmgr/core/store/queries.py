"""Queries and cursors, checked and encoded the same way by every store. Pure.

A cursor is opaque to callers. It holds the fingerprint of the request and where the last page
ended. It is neither secret nor trusted: one that was altered is refused.
"""

import base64
import binascii
import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import UnionType
from typing import Any, Final, TypeVar

import orjson

from ctxmgr.core.store.canonical import canonical
from ctxmgr.core.store.contract import BATCH_MAX, PAGE_MAX, FieldType, Kind, Query
from ctxmgr.core.store.documents import check_object_id
from ctxmgr.core.store.transactions import fits
from ctxmgr.errors import Incorrect

_FINGERPRINT_LENGTH: Final = 16
_INTEGER_MAX: Final = 2**63 - 1
_Item = TypeVar("_Item")


def check_query(query: Query, kinds: Mapping[str, Kind]) -> None:
    """Raise ``Incorrect`` unless the kind declares every field that the query names."""
    if not isinstance(query, Query) or not isinstance(query.kind, str):
        raise Incorrect(f"expected a Query with a kind, not {query!r:.80}")
    declared = kinds[query.kind].indexed if query.kind in kinds else {}
    for name, value in query.where.items():
        _check_field(query.kind, name, value, declared)
    if query.between is not None:
        _check_sortable(query.kind, query.between.field, declared)
        for bound in (query.between.low, query.between.high):
            _check_field(query.kind, query.between.field, bound, declared)
    if query.order is not None:
        _check_sortable(query.kind, query.order.field, declared)


def batched(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """Yield the items in lists of ``size``, the last one shorter, for reads and commits in parts.

    As ``itertools.batched`` does from Python 3.12 on.
    """
    source = iter(items)
    while batch := list(islice(source, size)):
        yield batch


def check_batch(object_ids: Iterable[str]) -> list[str]:
    """Return the ids of a batch, each once; ``Incorrect`` for an invalid id or too many."""
    ids = list(dict.fromkeys(object_ids))
    if len(ids) > BATCH_MAX:
        raise Incorrect(f"{len(ids)} ids in one batch, at most {BATCH_MAX} are allowed")
    for object_id in ids:
        check_object_id(object_id)
    return ids


def check_limit(limit: int) -> None:
    """Raise ``Incorrect`` unless a page may have this length."""
    if type(limit) is not int or not 1 <= limit <= PAGE_MAX:
        raise Incorrect(f"limit must be 1 to {PAGE_MAX}, not {limit!r:.80}")


def encode_cursor(request: list[Any], position: list[Any]) -> str:
    """Return a cursor that continues the same request after a position."""
    return base64.urlsafe_b64encode(orjson.dumps([_fingerprint(request), position])).decode()


def decode_cursor(request: list[Any], cursor: str) -> list[Any]:
    """Return the position of a cursor; ``Incorrect`` if it is of another request."""
    try:
        fingerprint, position = orjson.loads(base64.urlsafe_b64decode(cursor))
    except (ValueError, TypeError, binascii.Error) as error:
        raise Incorrect(f"invalid cursor {cursor!r:.80}; start from the first page") from error
    if fingerprint != _fingerprint(request) or not isinstance(position, list):
        raise Incorrect("this cursor belongs to another query; start from the first page")
    return position


def decode_position(request: list[Any], cursor: str, *types: type | UnionType) -> list[Any]:
    """Return the position of a cursor; ``Incorrect`` unless it has a value of each type."""
    position = decode_cursor(request, cursor)
    if len(position) != len(types) or not all(map(_is_position_value, position, types)):
        raise Incorrect("this cursor was altered; start from the first page")
    return position


def page_of(
    request: list[Any],
    entries: Sequence[_Item],
    *,
    key: Callable[[_Item], tuple[Any, ...]],
    limit: int,
    cursor: str | None,
) -> tuple[Sequence[_Item], str | None]:
    """Return one page of entries in the order of their unique keys, and the cursor of the next.

    A cursor holds the key of the last entry: what is added or removed between two pages moves
    nothing else from one page to another.
    """
    check_limit(limit)
    first = 0
    if cursor is not None:
        after = decode_cursor(request, cursor)
        if entries:
            after = decode_position(request, cursor, *map(type, key(entries[0])))
        first = bisect_right(entries, tuple(after), key=key)
    page = entries[first : first + limit]
    more = first + limit < len(entries)
    return page, encode_cursor(request, list(key(page[-1]))) if more else None


def query_value(query: Query) -> list[Any]:
    """Return the query as plain values, for the fingerprint of a cursor."""
    between, order = query.between, query.order
    return [
        query.kind,
        dict(query.where),
        between and [between.field, between.low, between.high],
        order and [order.field, order.descending],
    ]


def _is_position_value(value: object, expected: type | UnionType) -> bool:
    if isinstance(value, int) and (isinstance(value, bool) or abs(value) > _INTEGER_MAX):
        return False
    return isinstance(value, expected)


def _fingerprint(request: list[Any]) -> str:
    return hashlib.sha256(canonical(request)).hexdigest()[:_FINGERPRINT_LENGTH]


def _check_field(kind: str, name: str, value: object, declared: Mapping[str, FieldType]) -> None:
    if name not in declared:
        names = ", ".join(sorted(declared)) or "none"
        raise Incorrect(f"{kind} does not declare the field {name!r} (declared: {names})")
    if value is not None and not fits(value, declared[name]):
        raise Incorrect(f"{kind}.{name} is declared as {declared[name]}, not {value!r:.80}")


def _check_sortable(kind: str, name: str, declared: Mapping[str, FieldType]) -> None:
    if declared.get(name) is FieldType.BOOLEAN:
        raise Incorrect(f"{kind}.{name} is a boolean, which cannot be ordered")
    _check_field(kind, name, None, declared)
