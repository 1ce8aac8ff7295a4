"""What a program gives for an operation's parameters: described, checked, read. Touches nothing.

    JSON     an object of the schema that ``schema`` gives; null stands for what was not given
    query    the same as text; a parameter that takes many is repeated

Whatever is wrong is ``Incorrect`` and names the parameter.
"""

import re
from collections.abc import Container, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.catalogue import Operation, Parameter

INTEGER_MAX: Final = 2**53 - 1
"""What every reader of JSON takes exactly; far above any sequence, instant or limit."""

MANY_MAX: Final = 1_000
"""Values of one parameter that takes many."""

_INTEGER: Final = re.compile(r"-?[0-9]{1,16}")
_BOOLEANS: Final[Mapping[str, bool]] = {"true": True, "false": False}


def schema(parameter: Parameter) -> dict[str, Any]:
    """Describe the values of a parameter as JSON Schema."""
    found = _value_schema(parameter)
    if parameter.many:
        found = {"type": "array", "items": found, "maxItems": MANY_MAX}
    return {**found, "description": parameter.param.help}


def body_schema(operation: Operation) -> dict[str, Any]:
    """Describe the object that holds all parameters."""
    required = [each.shown_name for each in operation.parameters if each.required]
    return {
        "type": "object",
        "properties": {each.shown_name: schema(each) for each in operation.parameters},
        "additionalProperties": False,
        **({"required": required} if required else {}),
    }


def from_json(operation: Operation, given: object) -> dict[str, Any]:
    """Read what ``run`` takes from a JSON value."""
    if not isinstance(given, dict):
        raise Incorrect(f"{operation.name} takes a JSON object, not {given!r:.40}")
    known = _known(operation, given)
    present = {name: value for name, value in given.items() if value is not None}
    _check_required(operation, present)
    return {known[name].name: _of_json(known[name], value) for name, value in present.items()}


def from_query(operation: Operation, pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Read what ``run`` takes from the pairs of a query, all of which are text."""
    given: dict[str, list[str]] = {}
    for name, value in pairs:
        given.setdefault(name, []).append(value)
    known = _known(operation, given)
    _check_required(operation, given)
    return {known[name].name: _of_query(known[name], values) for name, values in given.items()}


def read_instant(text: str) -> int:
    """Read UTC milliseconds, or a date of ISO 8601; without an offset it is UTC."""
    try:
        if _INTEGER.fullmatch(text):
            return int(text)
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise Incorrect(f"{text!r:.80} is neither milliseconds nor ISO 8601") from error


def _value_schema(parameter: Parameter) -> dict[str, Any]:
    if isinstance(parameter.type, tuple):
        return {"type": "string", "enum": list(parameter.type)}
    if parameter.param.instant:
        return {"anyOf": [_INTEGER_SCHEMA, {"type": "string", "format": "date-time"}]}
    if parameter.type is int:
        return dict(_INTEGER_SCHEMA)
    return {"type": "boolean" if parameter.type is bool else "string"}


_INTEGER_SCHEMA: Final = {"type": "integer", "minimum": -INTEGER_MAX, "maximum": INTEGER_MAX}


def _known(operation: Operation, given: Iterable[str]) -> dict[str, Parameter]:
    """Return the parameters by name, if nothing unknown is given."""
    known = {each.shown_name: each for each in operation.parameters}
    unknown = [name for name in given if name not in known]
    if unknown:
        names = ", ".join(known) or "none"
        raise Incorrect(f"{operation.name} has no parameter {unknown[0]!r:.80}; it has {names}")
    return known


def _check_required(operation: Operation, given: Container[str]) -> None:
    required = [each.shown_name for each in operation.parameters if each.required]
    missing = [name for name in required if name not in given]
    if missing:
        raise Incorrect(f"{operation.name} needs {', '.join(missing)}")


def _of_json(parameter: Parameter, value: Any) -> Any:
    if not parameter.many:
        return _single(parameter, value)
    if not isinstance(value, list) or len(value) > MANY_MAX:
        raise Incorrect(f"{parameter.shown_name} takes a list of at most {MANY_MAX} values")
    return tuple(_single(parameter, each) for each in value)


def _of_query(parameter: Parameter, values: list[str]) -> Any:
    if parameter.many:
        return _of_json(parameter, values)
    if len(values) > 1:
        raise Incorrect(f"{parameter.shown_name} is given {len(values)} times; it takes one value")
    (text,) = values
    if parameter.type is bool:
        return _single(parameter, _BOOLEANS.get(text, text))
    if parameter.type is int and not parameter.param.instant:
        return _single(parameter, int(text) if _INTEGER.fullmatch(text) else text)
    return _single(parameter, text)


def _single(parameter: Parameter, value: Any) -> Any:
    if parameter.param.instant and isinstance(value, str):
        value = read_instant(value)
    wanted = int if parameter.type is int else bool if parameter.type is bool else str
    if type(value) is not wanted:
        raise Incorrect(f"{parameter.shown_name} is {_WORDS[wanted]}, not {value!r:.80}")
    if isinstance(value, int) and abs(value) > INTEGER_MAX:
        raise Incorrect(f"{parameter.shown_name} is beyond ±{INTEGER_MAX}")
    if isinstance(value, str):
        _check_text(parameter, value)
    return value


def _check_text(parameter: Parameter, text: str) -> None:
    if isinstance(parameter.type, tuple) and text not in parameter.type:
        words = ", ".join(parameter.type)
        raise Incorrect(f"{parameter.shown_name} is one of {words}, not {text!r:.80}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Incorrect(f"{parameter.shown_name} holds half a surrogate pair") from error


_WORDS: Final = {str: "a text", int: "an integer", bool: "true or false"}
