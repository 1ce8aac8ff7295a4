"""What extractors read: one request of the user and everything until the next. Pure.

A turn is one model call. An exchange is the turn with the user's message and the turns in which the
model continued after tool calls. Texts have their secrets masked before they get here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun:
    """One tool call with its output."""

    object_id: str
    object_hash: str | None
    turn: int
    tool: str
    args: Mapping[str, Any] = field(repr=False)
    ok: bool
    """As the harness recorded it."""
    output: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPassage:
    """What the model said in one turn."""

    turn: int
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request, and what was done about it."""

    session_id: str
    first_turn: int
    last_turn: int
    user: str = field(repr=False)
    """Empty if the session was continued without a message."""
    answers: tuple[AnswerPassage, ...] = ()
    runs: tuple[ToolRun, ...] = ()
    follows_answer: bool = False
    """Whether the agent had answered before, so that the user may be correcting it."""

    @property
    def last_answer(self) -> str:
        return self.answers[-1].text if self.answers else ""
