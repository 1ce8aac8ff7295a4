"""Tool definitions in each API's form. Pure.

anthropic   {"name", "description", "input_schema"}
openai      {"type": "function", "function": {"name", "description", "parameters"}}
"""

from collections.abc import Iterable
from typing import Any, Protocol


class Described(Protocol):
    """A tool as the core describes it."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def schema(self) -> dict[str, Any]: ...


def for_anthropic(definitions: Iterable[Described]) -> list[dict[str, Any]]:
    """Return ``tools`` of an Anthropic request."""
    return [
        {"name": each.name, "description": each.description, "input_schema": each.schema}
        for each in definitions
    ]


def for_openai(definitions: Iterable[Described]) -> list[dict[str, Any]]:
    """Return ``tools`` of an OpenAI request."""
    return [
        {
            "type": "function",
            "function": {
                "name": each.name,
                "description": each.description,
                "parameters": each.schema,
            },
        }
        for each in definitions
    ]
