"""JSON Schemas of results, derived from the types that operations return. Reads our source files.

    dataclass            an object; it is a component of the description, with its name
    X | None             anyOf
    tuple[X, ...]        an array, and so is any sequence
    Mapping[str, X]      an object with any names
    Instant              a string: ISO 8601, as ``encoding`` writes it

Types that a module imports for type checkers alone are imported here, so that operations stay
cheap to list and are still described by their annotations.
"""

import ast
import inspect
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

from ctxmgr.core.store.contract import Instant
from ctxmgr.surfaces.operation import Operation

_SCALARS: Final[Mapping[Any, Mapping[str, Any]]] = types.MappingProxyType(
    {
        Any: {},
        object: {},
        types.NoneType: {"type": "null"},
        bool: {"type": "boolean"},
        int: {"type": "integer"},
        float: {"type": "number"},
        str: {"type": "string"},
        Path: {"type": "string"},
        Instant: {"type": "string", "format": "date-time"},
    }
)


def result_schema(operation: Operation, components: dict[str, Any]) -> dict[str, Any]:
    """Describe what an operation returns, and add the types it consists of to ``components``."""
    return _schema(_hints(operation.run)["return"], components)


def _schema(kind: Any, components: dict[str, Any]) -> dict[str, Any]:
    if kind in _SCALARS:
        return dict(_SCALARS[kind])
    if is_dataclass(kind) and isinstance(kind, type):
        return _component(kind, components)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"type": "string", "enum": [member.value for member in kind]}
    origin, members = get_origin(kind), get_args(kind)
    if origin is Literal:
        return {"type": "string", "enum": list(members)}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_schema(member, components) for member in members]}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema(members[1], components)}
    assert isinstance(origin, type), kind
    assert issubclass(origin, Sequence), kind
    return {"type": "array", "items": _schema(members[0], components)}


def _component(kind: type, components: dict[str, Any]) -> dict[str, Any]:
    """Describe a dataclass once, and return the reference to it."""
    if kind.__name__ not in components:
        components[kind.__name__] = {}  # so that a type may contain itself
        hints = _hints(kind)
        assert is_dataclass(kind)
        components[kind.__name__] = {
            "type": "object",
            "properties": {
                item.name: _schema(hints[item.name], components) for item in fields(kind)
            },
            "required": [item.name for item in fields(kind)],
        }
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _hints(described: Any) -> dict[str, Any]:
    names = _names_for_type_checkers(described.__module__)
    return typing.get_type_hints(described, dict(names), include_extras=True)


@cache
def _names_for_type_checkers(name: str) -> dict[str, Any]:
    """Return the names of a module, including those it imports for type checkers alone."""
    module = import_module(name)
    names = dict(vars(module))
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for imported in node.body:
                if isinstance(imported, ast.ImportFrom):
                    assert imported.module is not None
                    source = import_module(imported.module)
                    names |= {alias.name: getattr(source, alias.name) for alias in imported.names}
    return names
