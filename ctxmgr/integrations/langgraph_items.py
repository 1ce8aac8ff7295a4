"""Items of LangGraph's stores: their names, and what searches ask of them. Touches nothing.

namespace   ("users", "anna")   ↔   users/anna/      each part quoted, so that a prefix of
                                                     namespaces is a prefix of texts
filter      {"field": value}, or {"field": {"$gte": 3}} with one of the six comparisons
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias
from urllib.parse import quote, unquote

from ctxmgr import Incorrect, Version
from ctxmgr.integrations.kinds import LANGGRAPH_ITEM

Namespace: TypeAlias = tuple[str, ...]

ANY: Final = "*"

_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def path_of(namespace: Sequence[str]) -> str:
    return "".join(quote(each, safe="") + "/" for each in namespace)


def namespace_of(path: str) -> Namespace:
    return tuple(unquote(each) for each in path.split("/")[:-1])


def item_id(namespace: Namespace, key: str) -> str:
    return f"{LANGGRAPH_ITEM}:{path_of(namespace)}{quote(key, safe='')}"


def item_fields(version: Version) -> dict[str, Any]:
    """Return what an ``Item`` is made of."""
    document = version.document
    first, last = document["since"] or version.valid_time, version.valid_time
    return {
        "namespace": namespace_of(document["namespace"]),
        "key": document["key"],
        "value": document["value"],
        "created_at": datetime.fromtimestamp(first / 1000, UTC),
        "updated_at": datetime.fromtimestamp(last / 1000, UTC),
    }


def holds(value: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Tell whether a value has all that a filter asks for."""
    return all(_agrees(value.get(name), wanted) for name, wanted in asked.items())


def fits(namespace: Namespace, *, how: str, path: Sequence[str]) -> bool:
    """Tell whether a namespace begins (``prefix``) or ends (``suffix``) as the path says."""
    if len(path) > len(namespace):
        return False
    part = namespace[: len(path)] if how == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in (ANY, own) for own, wanted in zip(part, path, strict=True))


def _agrees(own: Any, wanted: Any) -> bool:
    if not isinstance(wanted, Mapping):
        return bool(own == wanted)
    if not any(str(name).startswith("$") for name in wanted):
        return isinstance(own, Mapping) and holds(own, wanted)
    return all(_compares(own, name, limit) for name, limit in wanted.items())


def _compares(own: Any, name: str, limit: Any) -> bool:
    if name not in _COMPARISONS:
        raise Incorrect(f"{name!r:.80} is no comparison; known: {', '.join(_COMPARISONS)}")
    try:
        return bool(_COMPARISONS[name](own, limit))
    except TypeError:  # a text and a number have no order
        return False
