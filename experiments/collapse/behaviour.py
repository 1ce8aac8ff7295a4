"""How an agent treated its context: the columns that every evaluation of behaviour reports (PG-05).

Hears what the loop tells, and looks at the session after every turn. Touches nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ctxmgr.core.live_session import LiveSession
from ctxmgr.core.model import Called
from ctxmgr.harness.happenings import Finished, Happening, Lost, Ran


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """One run, in figures."""

    condition: str
    turns: int
    activate: int
    deactivate: int
    folded: int
    """By the window, without being asked."""
    recall_after_prune: int
    """Objects that had left the prompt and were asked back."""
    peak_active: int
    end_active: int
    first_deactivate: int | None
    """The turn of the first ``deactivate``; None: there was none."""
    first_folded: int | None
    solved: int
    tasks: int
    tokens: tuple[int, ...] = field(repr=False)
    """Of each prompt, in the order of the turns."""
    active: tuple[int, ...] = field(repr=False)
    """Objects shown in full after each turn."""
    prompts_proven: bool
    """Every prompt made again is what the model had received."""

    @property
    def tokens_sent(self) -> int:
        return sum(self.tokens)

    @property
    def tokens_peak(self) -> int:
        return max(self.tokens)


class Observer:
    """Counts while an agent works."""

    def __init__(self, session: LiveSession) -> None:
        self._session = session
        self._called: list[Called] = []
        self._ran: list[Ran] = []
        self._left: set[str] = set()
        self._shown: set[str] = set()
        self.activated: list[int] = []
        """The turn of each ``activate`` that was done; likewise below."""
        self.deactivated: list[int] = []
        self.recalled: list[int] = []
        self.folded: list[int] = []
        self.active: list[int] = []
        self.tokens: list[int] = []

    def hear(self, happening: Happening) -> None:
        """Take what the loop tells."""
        match happening:
            case Called():
                self._called.append(happening)
            case Ran():
                self._ran.append(happening)
            case Lost():
                self._called.clear()
            case Finished(turn=turn, sections=sections):
                self.tokens.append(sum(sections.values()))
                self._finish(turn)

    def _finish(self, turn: int) -> None:
        by_agent = set()
        for call, ran in zip(self._called, self._ran, strict=True):
            if ran.ok and isinstance(call.args, Mapping) and "id" in call.args:
                self._changed(call.tool, call.args["id"], turn)
                by_agent.add(call.args["id"])
        active = set(self._session.sets.active_set)
        left = self._shown - active
        self.folded += [turn] * len(left - by_agent)
        self._left |= left
        self._shown = active
        self.active.append(len(active))
        self._called, self._ran = [], []

    def _changed(self, tool: str, object_id: str, turn: int) -> None:
        if tool == "deactivate":
            self.deactivated.append(turn)
        elif tool == "activate":
            self.activated.append(turn)
            if object_id in self._left:
                self.recalled.append(turn)
