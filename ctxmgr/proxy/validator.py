"""Check that a shaped message is the client's message with other texts, and nothing else. Pure.

Ids, types, order, thinking, images and unknown fields must be the same, so that every call keeps
its result. Only strings may differ, where a replacement was meant, and the mark that a result
failed; a cache mark may be added.
"""

import json
from collections.abc import Collection
from typing import Any, Final

from ctxmgr.errors import Incorrect
from ctxmgr.proxy.wire.json_spans import Path
from ctxmgr.proxy.wire.message import StringPlace

MARK: Final = "cache_control"


def check_message(before: bytes, after: bytes, *, places: Collection[StringPlace]) -> None:
    """Raise ``Incorrect`` unless only the values at these places differ."""
    outer = {place.path for place in places if place.inner is None}
    nested: dict[Path, set[Path]] = {}
    for place in places:
        if place.inner is not None:
            nested.setdefault(place.path, set()).add(place.inner)
    try:
        pair = json.loads(before), json.loads(after)
    except ValueError as error:
        raise Incorrect(f"a shaped message is not valid JSON: {error}") from error
    _compare(*pair, (), outer, nested)


def _compare(
    before: Any, after: Any, path: Path, places: Collection[Path], nested: dict[Path, set[Path]]
) -> None:
    if path in places:
        if type(before) is not type(after):
            raise Incorrect(f"shaping changed the type of {_named(path)}")
    elif path in nested:
        _compare(json.loads(before), json.loads(after), (), nested[path], {})
    elif isinstance(before, dict) and isinstance(after, dict):
        added = after.keys() - before.keys()
        if before.keys() - after.keys() or added - {MARK}:
            raise Incorrect(f"shaping changed the fields of {_named(path)}")
        for name, value in before.items():
            _compare(value, after[name], (*path, name), places, nested)
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            raise Incorrect(f"shaping changed the length of {_named(path)}")
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            _compare(one, other, (*path, index), places, nested)
    elif type(before) is not type(after) or before != after:
        raise Incorrect(f"shaping changed {_named(path)}")


def _named(path: Path) -> str:
    return "/".join(map(str, path)) or "a message"
