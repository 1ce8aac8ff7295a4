"""Queries and cursors, checked and encoded the same for every store. Pure.

A cursor is opaque to callers: the query's fingerprint and where the last page ended. It is not
a secret, and one that was altered is refused, not trusted.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from types import UnionType
from typing import Any, Final

import orjson

from ctxmgr.core.canonical import canonical
from ctxmgr.core.store import PAGE_MAX, FieldType, Kind, Query
from ctxmgr.core.transactions import fits
from ctxmgr.errors import Incorrect

_FINGERPRINT_LENGTH: Final = 16
_INTEGER_MAX: Final = 2**63 - 1


def check_query(query: Query, kinds: Mapping[str, Kind]) -> None:
    """Raise ``Incorrect`` unless the kind declares every field that the query names."""
    if not isinstance(query, Query) or not isinstance(query.kind, str):
        raise Incorrect(f"{query!r:.80} is no query for a kind")
    declared = kinds[query.kind].indexed if query.kind in kinds else {}
    for name, value in query.where.items():
        _check_field(query.kind, name, value, declared)
    if query.between is not None:
        _check_sortable(query.kind, query.between.field, declared)
        for bound in (query.between.low, query.between.high):
            _check_field(query.kind, query.between.field, bound, declared)
    if query.order is not None:
        _check_sortable(query.kind, query.order.field, declared)


def check_limit(limit: int) -> None:
    """Raise ``Incorrect`` unless a page may have this length."""
    if type(limit) is not int or not 1 <= limit <= PAGE_MAX:
        raise Incorrect(f"limit is 1 to {PAGE_MAX}, not {limit!r:.80}")


def encode_cursor(asked: list[Any], position: list[Any]) -> str:
    """Say where a page ended, for the same question."""
    return base64.urlsafe_b64encode(orjson.dumps([_fingerprint(asked), position])).decode()


def decode_cursor(asked: list[Any], cursor: str) -> list[Any]:
    """Return where the last page ended; ``Incorrect`` if it was another question's."""
    try:
        fingerprint, position = orjson.loads(base64.urlsafe_b64decode(cursor))
    except (ValueError, TypeError, binascii.Error) as error:
        raise Incorrect(f"{cursor!r:.80} is no cursor") from error
    if fingerprint != _fingerprint(asked) or not isinstance(position, list):
        raise Incorrect("this cursor belongs to another query; start from the first page")
    return position


def position_of(asked: list[Any], cursor: str, *types: type | UnionType) -> list[Any]:
    """Where the cursor's page ended; ``Incorrect`` unless it has a value of each type."""
    position = decode_cursor(asked, cursor)
    whole = len(position) == len(types) and all(map(_is_place, position, types))
    if not whole:
        raise Incorrect("this cursor was altered; start from the first page")
    return position


def query_value(query: Query) -> list[Any]:
    """The query as plain values, for a cursor's fingerprint."""
    between, order = query.between, query.order
    return [
        query.kind,
        dict(query.where),
        between and [between.field, between.low, between.high],
        order and [order.field, order.descending],
    ]


def _is_place(value: object, wanted: type | UnionType) -> bool:
    if isinstance(value, int) and (isinstance(value, bool) or abs(value) > _INTEGER_MAX):
        return False
    return isinstance(value, wanted)


def _fingerprint(asked: list[Any]) -> str:
    return hashlib.sha256(canonical(asked)).hexdigest()[:_FINGERPRINT_LENGTH]


def _check_field(kind: str, name: str, value: object, declared: Mapping[str, FieldType]) -> None:
    if name not in declared:
        known = ", ".join(sorted(declared)) or "none"
        raise Incorrect(f"{kind} does not declare the field {name!r}; declared: {known}")
    if value is not None and not fits(value, declared[name]):
        raise Incorrect(f"{kind}.{name} is declared as {declared[name]}, not {value!r:.80}")


def _check_sortable(kind: str, name: str, declared: Mapping[str, FieldType]) -> None:
    if declared.get(name) is FieldType.BOOLEAN:
        raise Incorrect(f"{kind}.{name} is a boolean, which has no order")
    _check_field(kind, name, None, declared)
