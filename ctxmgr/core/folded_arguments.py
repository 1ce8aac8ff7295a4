"""The long strings in a call's arguments, found and replaced. Pure.

A folded argument stands where it stood, as a string in a legal value: APIs take no other.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

CHARS_MIN: Final = 60
"""Shorter strings are left alone: a handle would be as long."""


def strings(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Give every string with its path, a JSON pointer: ``/edits/0/newText``."""
    match value:
        case str():
            yield path, value
        case Mapping():
            for name, each in value.items():
                yield from strings(each, f"{path}/{_escaped(name)}")
        case list() | tuple():
            for at, each in enumerate(value):
                yield from strings(each, f"{path}/{at}")


def replaced(value: Any, others: Mapping[str, str], path: str = "") -> Any:
    """Return the value with other strings at some paths."""
    match value:
        case str():
            return others.get(path, value)
        case Mapping():
            return {
                name: replaced(each, others, f"{path}/{_escaped(name)}")
                for name, each in value.items()
            }
        case list() | tuple():
            return [replaced(each, others, f"{path}/{at}") for at, each in enumerate(value)]
        case _:
            return value


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
