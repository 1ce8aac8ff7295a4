"""Arguments of an operation in JSON or a URL query: JSON Schema, validation, decoding. No I/O.

    JSON     an object that matches ``body_schema``; null means not given; some parameters are
             members of an object in it, such as ``signals``
    query    the same as text; a parameter that takes many values is repeated

Invalid arguments raise ``Incorrect``, which names the parameter.
"""

import re
from collections.abc import Container, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.operation import Operation, Parameter

JSON_INTEGER_MAX: Final = 2**53 - 1
"""The largest integer that every JSON parser reads exactly; far above any sequence or instant."""

MANY_MAX: Final = 1_000
"""Values of one parameter that takes many values."""

_INTEGER: Final = re.compile(r"-?[0-9]{1,16}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,16}(\.[0-9]{1,16})?")
_BOOLEANS: Final[Mapping[str, bool]] = {"true": True, "false": False}


def schema(parameter: Parameter) -> dict[str, Any]:
    """Describe the values of a parameter as JSON Schema."""
    value = _value_schema(parameter)
    if parameter.many:
        value = {"type": "array", "items": value, "maxItems": MANY_MAX}
    return {**value, "description": parameter.param.help}


def body_schema(operation: Operation) -> dict[str, Any]:
    """Describe the JSON object of all parameters."""
    required = [
        parameter.public_name for parameter in operation.remote_parameters if parameter.required
    ]
    properties: dict[str, Any] = {}
    for parameter in operation.remote_parameters:
        if parameter.param.part_of is None:
            properties[parameter.public_name] = schema(parameter)
            continue
        outer, inner = parameter.param.part_of
        members = properties.setdefault(
            outer, {"type": "object", "properties": {}, "additionalProperties": False}
        )
        members["properties"][inner] = schema(parameter)
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        **({"required": required} if required else {}),
    }


def from_json(operation: Operation, body: object) -> dict[str, Any]:
    """Read the arguments of ``run`` from a JSON value."""
    if not isinstance(body, dict):
        raise Incorrect(f"{operation.name} expects a JSON object, not {body!r:.40}")
    body = _flat(operation, body)
    present = {name: value for name, value in body.items() if value is not None}
    parameters = _check_names(operation, body, present=present)
    return {
        parameters[name].name: _decode_json(parameters[name], value)
        for name, value in present.items()
    }


def _flat(operation: Operation, body: dict[str, Any]) -> dict[str, Any]:
    """Return a body with the members of objects in it by the names of their parameters."""
    members: dict[str, dict[str, str]] = {}
    for parameter in operation.remote_parameters:
        if parameter.param.part_of is not None:
            outer, inner = parameter.param.part_of
            members.setdefault(outer, {})[inner] = parameter.public_name
    flat: dict[str, Any] = {}
    grouped = {name for names in members.values() for name in names.values()}
    for name, value in body.items():
        if name in members:
            flat |= _members(operation, name, value, members[name])
        elif name in grouped:
            raise Incorrect(f"{operation.name}: {name} belongs in {', '.join(members)}")
        else:
            flat[name] = value
    return flat


def _members(
    operation: Operation, outer: str, value: object, names: Mapping[str, str]
) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Incorrect(f"{operation.name}: {outer} must be an object, not {value!r:.40}")
    unknown = next((name for name in value if name not in names), None)
    if unknown is not None:
        known = ", ".join(names)
        raise Incorrect(f"{operation.name}: unknown {outer}.{unknown!s:.80} (one of: {known})")
    return {names[inner]: item for inner, item in value.items()}


def from_query(operation: Operation, pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Read the arguments of ``run`` from the pairs of a query, all of which are text."""
    values_by_name: dict[str, list[str]] = {}
    for name, value in pairs:
        values_by_name.setdefault(name, []).append(value)
    parameters = _check_names(operation, values_by_name, present=values_by_name)
    return {
        parameters[name].name: _decode_query(parameters[name], values)
        for name, values in values_by_name.items()
    }


def read_instant(text: str) -> int:
    """Read UTC milliseconds or ISO 8601; without an offset it is UTC."""
    try:
        if _INTEGER.fullmatch(text):
            return int(text)
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise Incorrect(f"{text!r:.80} is neither UTC milliseconds nor ISO 8601") from error


def _value_schema(parameter: Parameter) -> dict[str, Any]:
    if isinstance(parameter.type, tuple):
        return {"type": "string", "enum": list(parameter.type)}
    if parameter.param.instant:
        return {"anyOf": [_INTEGER_SCHEMA, {"type": "string", "format": "date-time"}]}
    if parameter.type is int:
        return dict(_INTEGER_SCHEMA)
    if parameter.type is float:
        return {"type": "number"}
    return {"type": "boolean" if parameter.type is bool else "string"}


_INTEGER_SCHEMA: Final = {
    "type": "integer",
    "minimum": -JSON_INTEGER_MAX,
    "maximum": JSON_INTEGER_MAX,
}


def _check_names(
    operation: Operation, names: Iterable[str], *, present: Container[str]
) -> dict[str, Parameter]:
    """Return the parameters by name; ``Incorrect`` if one is unknown or missing."""
    parameters = {parameter.public_name: parameter for parameter in operation.remote_parameters}
    former = {
        parameter.param.former: parameter
        for parameter in operation.remote_parameters
        if parameter.param.former
    }
    for name in names:
        if name in former:
            continue
        if name not in parameters:
            known = ", ".join(parameters) or "none"
            raise Incorrect(f"{operation.name}: unknown parameter {name!r:.80} (one of: {known})")
    missing = [
        name
        for name, parameter in parameters.items()
        if parameter.required and name not in present and parameter.param.former not in present
    ]
    if missing:
        raise Incorrect(f"{operation.name}: missing {', '.join(missing)}")
    return {**former, **parameters}


def _decode_json(parameter: Parameter, value: Any) -> Any:
    if not parameter.many:
        return _single(parameter, value)
    if not isinstance(value, list) or len(value) > MANY_MAX:
        raise Incorrect(f"{parameter.public_name} must be a list of at most {MANY_MAX} values")
    return tuple(_single(parameter, item) for item in value)


def _decode_query(parameter: Parameter, values: list[str]) -> Any:
    if parameter.many:
        return _decode_json(parameter, values)
    if len(values) > 1:
        raise Incorrect(f"{parameter.public_name} appears {len(values)} times; give it once")
    (text,) = values
    if parameter.type is bool:
        return _single(parameter, _BOOLEANS.get(text, text))
    if parameter.type is int and not parameter.param.instant:
        return _single(parameter, int(text) if _INTEGER.fullmatch(text) else text)
    if parameter.type is float:
        return _single(parameter, float(text) if _NUMBER.fullmatch(text) else text)
    return _single(parameter, text)


def _single(parameter: Parameter, value: Any) -> Any:
    if parameter.param.instant and isinstance(value, str):
        value = read_instant(value)
    if parameter.type is float and type(value) is int:
        value = float(value)
    wanted = parameter.type if parameter.type in (int, float, bool) else str
    if type(value) is not wanted:
        raise Incorrect(f"{parameter.public_name} must be {_WORDS[wanted]}, not {value!r:.80}")
    if isinstance(value, int) and abs(value) > JSON_INTEGER_MAX:
        raise Incorrect(f"{parameter.public_name} must be within ±{JSON_INTEGER_MAX}")
    if isinstance(value, str):
        if isinstance(parameter.type, tuple) and value not in parameter.type:
            words = ", ".join(parameter.type)
            raise Incorrect(f"unknown {parameter.public_name} {value!r:.80} (one of: {words})")
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise Incorrect(f"{parameter.public_name} contains a lone surrogate") from error
    return value


_WORDS: Final[Mapping[Any, str]] = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
}
