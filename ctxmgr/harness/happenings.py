"""What the loop tells whoever watches it, and what it reports of a turn. Pure.

Opened                                            a run has its session
Began  (Said | Called | Lost)*  Ran*  Finished    one turn; an error ends it anywhere
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ctxmgr.core.model import Called, Charge, Said, Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A run has its session; its orders are stored, and from now on it can be resumed."""

    session: str
    turn: int
    """The turn that comes next; 1: the session is new, or nothing of it was answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Began:
    """A prompt was rendered and is sent now."""

    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The answer broke off, and is asked for again. What was said of it does not count."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A tool call was run and stored."""

    tool: str
    ok: bool
    message: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A turn was stored."""

    turn: int
    text: str = field(repr=False)
    """What the model said in words."""
    tools: tuple[str, ...]
    """The tools it asked for, in order."""
    stop: Stop
    charge: Charge
    sections: Mapping[str, int]
    """Tokens of the prompt that it answered, by section, as we count them; empty ones are left
    out. What the provider counted is in ``charge``: with the tools and its own framing."""
    levels: Mapping[str, int]
    """Objects after it: ``active``, ``metadata`` (one line) and ``indexed``; ``pinned`` besides."""


Happening: TypeAlias = Opened | Began | Said | Called | Lost | Ran | Finished
