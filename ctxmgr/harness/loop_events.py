"""The events of the agent loop, as ``on_event`` receives them. Pure.

RunOpened
TurnStarted  (TextDelta | ToolUse | AnswerRestarted)*  ToolRan*  TurnEnded
BudgetReached

An error may end the sequence anywhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ctxmgr.core.model import Charge, Stop, TextDelta, ToolUse


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOpened:
    """A run has opened its session and stored its task; from now on it can be resumed."""

    session: str
    turn: int
    """The next turn; 1 if the session is new or has no answer yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted:
    """A prompt was rendered and is being sent."""

    turn: int
    user: str = field(default="", repr=False, compare=False)
    """What the user says in this turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRestarted:
    """The answer broke off and is requested again; its text so far is discarded."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRan:
    """A tool call was run and stored."""

    tool: str
    ok: bool
    message: str = field(repr=False)
    toolcall_id: str = ""
    """The id of the stored call."""
    call_id: str = ""
    """The id that the model gave it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded:
    """A turn was stored."""

    turn: int
    text: str = field(repr=False)
    """The text of the answer."""
    tools: tuple[str, ...]
    """The tools that it called, in order."""
    stop: Stop
    charge: Charge
    sections: Mapping[str, int]
    """Tokens of the prompt by section, by our own count, without empty sections. The provider's
    count, which includes tools and framing, is in ``charge``."""
    levels: Mapping[str, int]
    """Objects after the turn: ``active``, ``metadata`` (one line), ``indexed``; also ``pinned``."""
    stop_reason: str | None = None
    """Why the answer ended, in the provider's word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetReached:
    """The next call would exceed the budget, and is not made."""

    max_usd: float
    spent_usd: float
    next_usd: float
    """What the call was estimated to cost."""


LoopEvent: TypeAlias = (
    RunOpened
    | TurnStarted
    | TextDelta
    | ToolUse
    | AnswerRestarted
    | ToolRan
    | TurnEnded
    | BudgetReached
)
