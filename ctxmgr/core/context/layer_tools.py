"""Tools that layers offer to the agents of a client, such as a search of notes. Pure.

A call is recorded like that of any other tool. A mistake of the agent's is raised as ``Incorrect``,
``NotFound`` or ``Denied``, whose message the agent reads.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

RunTool: TypeAlias = Callable[[str, Any], Awaitable[str]]
"""Runs a call, given the id of the session and the checked arguments; returns the output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTool:
    """A tool of a layer. It decides itself what it reaches; arguments only name things in there."""

    name: str
    description: str
    arguments: type[Any]
    """A pydantic model that forbids further fields."""
    run: RunTool
