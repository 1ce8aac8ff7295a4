"""How an agent managed its context: the columns that every behaviour evaluation reports (PG-05).

Receives the events of the loop and reads the session after every turn. Changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.model import ToolUse
from ctxmgr.harness.loop_events import AnswerRestarted, LoopEvent, ToolRan, TurnEnded


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """The figures of one run."""

    condition: str
    turns: int
    activate: int
    deactivate: int
    folded: int
    """Objects folded by the window, not by the agent."""
    recall_after_prune: int
    """Objects that the agent activated again after they had been folded."""
    peak_active: int
    end_active: int
    first_deactivate: int | None
    """The turn of the first ``deactivate``, or None."""
    first_folded: int | None
    solved: int
    tasks: int
    tokens: tuple[int, ...] = field(repr=False)
    """Token count of each prompt, in turn order."""
    active: tuple[int, ...] = field(repr=False)
    """Number of active objects after each turn."""
    prompts_proven: bool
    """Whether every rebuilt prompt equals what the model received."""

    @property
    def tokens_sent(self) -> int:
        return sum(self.tokens)

    @property
    def tokens_peak(self) -> int:
        return max(self.tokens)


class Observer:
    """Collects the figures while an agent works."""

    def __init__(self, session: LiveSession) -> None:
        self._session = session
        self._called: list[ToolUse] = []
        self._ran: list[ToolRan] = []
        self._left: set[str] = set()
        self._active: set[str] = set()
        self.activated: list[int] = []
        """The turn of each successful ``activate``; the lists below likewise."""
        self.deactivated: list[int] = []
        self.recalled: list[int] = []
        self.folded: list[int] = []
        self.active: list[int] = []
        self.tokens: list[int] = []

    def on_event(self, event: LoopEvent) -> None:
        """Handle one event of the loop."""
        match event:
            case ToolUse():
                self._called.append(event)
            case ToolRan():
                self._ran.append(event)
            case AnswerRestarted():
                self._called.clear()
            case TurnEnded(turn=turn, sections=sections):
                self.tokens.append(sum(sections.values()))
                self._finish(turn)

    def _finish(self, turn: int) -> None:
        by_agent = set()
        for call, ran in zip(self._called, self._ran, strict=True):
            if ran.ok and isinstance(call.args, Mapping) and "id" in call.args:
                self._changed(call.tool, call.args["id"], turn)
                by_agent.add(call.args["id"])
        active = set(self._session.sets.active_set)
        left = self._active - active
        self.folded += [turn] * len(left - by_agent)
        self._left |= left
        self._active = active
        self.active.append(len(active))
        self._called, self._ran = [], []

    def _changed(self, tool: str, object_id: str, turn: int) -> None:
        if tool == "deactivate":
            self.deactivated.append(turn)
        elif tool == "activate":
            self.activated.append(turn)
            if object_id in self._left:
                self.recalled.append(turn)
