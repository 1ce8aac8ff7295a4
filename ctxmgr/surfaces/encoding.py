"""Results as JSON, and the short forms of ids and times that people read. No I/O."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, get_args

import orjson

from ctxmgr.core.objects.hashes import is_hash
from ctxmgr.core.store.contract import Instant

BELOW: Final = frozenset({"content", "diff"})
"""Fields printed below the table of the other fields, unchanged."""

SHORT_ID_LENGTH: Final = 12
"""Characters of a file's id in a session's list: enough to identify it there."""


def json_bytes(result: Any) -> bytes:
    """Encode a result as JSON. Integers may have any size."""
    value = plain(result)
    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2)
    except TypeError:  # an integer beyond 64 bits
        return json.dumps(value, indent=2, ensure_ascii=False).encode()


def json_line(result: Any) -> bytes:
    """Encode a result as JSON in one line."""
    return json.dumps(plain(result), ensure_ascii=False).encode()


def plain(value: Any) -> Any:
    """Convert a value to plain JSON types; the instants of results to ISO 8601."""
    if is_dataclass(value):
        kind: Any = type(value)
        instants = instant_fields(kind)
        return {
            name: iso(item) if name in instants and item is not None else plain(item)
            for name, item in fields_of(value).items()
        }
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


@cache
def instant_fields(kind: type[Any]) -> frozenset[str]:
    """Return the fields of a dataclass that are instants: UTC milliseconds, in JSON ISO 8601."""
    assert is_dataclass(kind)
    return frozenset(item.name for item in fields(kind) if is_instant(item.type))


def is_instant(annotation: Any) -> bool:
    """Return whether a type is that of an instant, or of an optional one."""
    return annotation == Instant or Instant in get_args(annotation)


def short_id(object_id: str) -> str:
    """Return as much of an id as identifies the object in a session."""
    return object_id[:SHORT_ID_LENGTH] if is_hash(object_id) else object_id


def iso(instant: int) -> str:
    """Format UTC milliseconds as ISO 8601."""
    moment = datetime.fromtimestamp(instant // 1000, UTC).replace(microsecond=instant % 1000 * 1000)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def fields_of(value: Any) -> dict[str, Any]:
    return {item.name: getattr(value, item.name) for item in fields(value)}
