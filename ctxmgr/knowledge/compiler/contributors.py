"""Contribute compiled notes to the prompts of sessions. Waits for the compilation.

    stable     identity
    epoch      core memory, journal, projects: as they were when the epoch began
    volatile   topics with their subscriptions, scored knowledge

One compilation serves the three slots of a prompt. What is pushed here is recorded with the turn,
verbatim, and never becomes part of a session's active set.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Final

from ctxmgr.core.context.assembly import Section
from ctxmgr.knowledge.compiler.compiled import Compiled, PromptSlot

SESSIONS_MAX: Final = 1_024
"""Sessions whose last compilation is remembered; the oldest is compiled again."""

SLOTS: Final = {
    Section.STABLE: (PromptSlot.IDENTITY,),
    Section.EPOCH: (PromptSlot.MEMORY, PromptSlot.JOURNAL, PromptSlot.PROJECTS),
    Section.VOLATILE: (PromptSlot.TOPIC, PromptSlot.SUBSCRIPTION, PromptSlot.KNOWLEDGE),
}
"""What of a compiled context goes where in a prompt."""


@dataclass(slots=True, eq=False)
class _SessionNotes:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    message: str = ""
    """The last one that was not empty: the model may continue after tool calls."""
    asked: tuple[int, str] | None = None
    compiled: Compiled | None = None
    epoch: str | None = None
    epoch_day: date | None = None


class PromptNotes:
    """The compiled notes of each session's next prompt."""

    def __init__(
        self, compile_for: Callable[[str, str, bool], Awaitable[Compiled]], *, budget_tokens: int
    ) -> None:
        """``compile_for`` takes the id of a session, its last message, and whether that is new."""
        self._compile_for = compile_for
        self._sessions: dict[str, _SessionNotes] = {}
        self.contributors = tuple(
            NotesContributor(self, slot, budget_tokens=budget_tokens) for slot in SLOTS
        )

    async def text(self, slot: Section, session_id: str, *, message: str, turn: int) -> str:
        """Return what a slot shows; all slots of one prompt come from one compilation."""
        state = self._state(session_id)
        async with state.lock:
            if message:
                state.message = message
            if state.compiled is None or state.asked != (turn, message):
                state.compiled = await self._compile_for(session_id, state.message, bool(message))
                state.asked = (turn, message)
            if slot is not Section.EPOCH:
                return state.compiled.text_of(*SLOTS[slot])
            today = datetime.now(UTC).date()
            if state.epoch is None or state.epoch_day != today:
                state.epoch, state.epoch_day = state.compiled.text_of(*SLOTS[slot]), today
            return state.epoch

    def begin_epoch(self, session_id: str) -> None:
        """Show memory, journal and projects as they are, from the next prompt on."""
        if session_id in self._sessions:
            self._sessions[session_id].epoch = None

    def _state(self, session_id: str) -> _SessionNotes:
        state = self._sessions.pop(session_id, None) or _SessionNotes()
        self._sessions[session_id] = state
        if len(self._sessions) > SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]
        return state


class NotesContributor:
    """One slot of the prompts."""

    def __init__(self, notes: PromptNotes, slot: Section, *, budget_tokens: int) -> None:
        self.name = f"knowledge.{slot}"
        self.slot = slot
        self.budget_tokens = budget_tokens
        self._notes = notes

    async def contribute(self, session_id: str, *, turn: int, budget_tokens: int) -> str:
        return await self.contribute_to(
            session_id, message="", turn=turn, budget_tokens=budget_tokens
        )

    async def contribute_to(
        self, session_id: str, *, message: str, turn: int, budget_tokens: int
    ) -> str:
        del budget_tokens  # one compilation keeps to the budget of all three slots
        return await self._notes.text(self.slot, session_id, message=message, turn=turn)
