"""What the next prompt gets from memory. Reads the store.

The text stays the same while the model continues after tool calls, unless the file or the errors
at hand change; then it is predicted anew which memories and files will be needed. What the prompt
shows anyway is left out: what this very session taught, until its turns are summarised, and what
files taught that are in view.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from ctxmgr.core.context.assembly import Section
from ctxmgr.core.context.tokens import TokenCounter
from ctxmgr.core.objects.envelope import session_object_id
from ctxmgr.core.store.contract import Store
from ctxmgr.memory.learning.learner import CONTRIBUTOR, Learner
from ctxmgr.memory.learning.session_record import LearningRecord
from ctxmgr.memory.living import LivingMemory
from ctxmgr.memory.records.memory import Memory
from ctxmgr.memory.tiers.assembly import AssembledContext, Signals

NextFiles: TypeAlias = tuple[tuple[str, str], ...]
"""Files that will be needed, each with the reason."""

SESSIONS_MAX: Final = 1_024
"""Sessions whose last text is remembered."""
ERRORS_MAX: Final = 5

DEBUGGING: Final = "debugging"

INTRODUCTION: Final = (
    "# Memory\n"
    "What earlier sessions taught. The user's word and the files come first. If you rely on an"
    " entry, name its id.\n\n"
)

_DEBUGGING_WORDS: Final = re.compile(
    r"\b(?:bug|crash(?:e[sd]|ing)?|debug|error|exception|fail(?:s|ed|ing|ure)?|fix|broken|traceback"
    r"|stack ?trace|regression|does(?:n't| not) work|why (?:is|does|did))\b",
    re.IGNORECASE,
)
_NAMED_FILE: Final = re.compile(r"(?<![\w/])(?:[\w.-]+/)*[\w-]+\.[A-Za-z]{1,5}\b")


@dataclass(slots=True, eq=False)
class _SessionPrompt:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    message: str = ""
    """The last one that was not empty."""
    asked: tuple[str, Signals] | None = None
    assembled: AssembledContext | None = None


class PromptMemory:
    """The contributor of living memory: four tiers, last in the prompt."""

    name = CONTRIBUTOR
    slot = Section.VOLATILE

    def __init__(
        self,
        store: Store,
        living: LivingMemory,
        learner: Learner,
        *,
        files: Mapping[str, str],
        budget_tokens: int,
        shown: Callable[[str], str] = lambda text: text,
        next_files: Callable[[str], NextFiles] = lambda _: (),
        branch: Callable[[], str | None] = lambda: None,
    ) -> None:
        """``files`` has the file that each session used last; ``shown`` removes secrets.

        ``next_files`` predicts which files a session needs; ``branch`` is what is checked out.
        """
        self._store = store
        self._living = living
        self._learner = learner
        self._files = files
        self._shown = shown
        self._next_files = next_files
        self._branch = branch
        self._counter = TokenCounter()
        self._sessions: dict[str, _SessionPrompt] = {}
        self.budget_tokens = budget_tokens

    async def contribute(self, session_id: str, *, turn: int, budget_tokens: int) -> str:
        return await self.contribute_to(
            session_id, message="", turn=turn, budget_tokens=budget_tokens
        )

    async def contribute_to(
        self, session_id: str, *, message: str, turn: int, budget_tokens: int
    ) -> str:
        del turn
        await self._learner.bind(session_id)
        state = self._state(session_id)
        async with state.lock:
            state.message = message or state.message
            record = await self._learner.record(session_id)
            signals = self._signals(session_id, state.message, record)
            asked = (message or state.message, signals)
            if state.assembled is None or state.asked != asked or message:
                state.assembled = await self._assemble(session_id, signals, record, budget_tokens)
                state.asked = asked
                self._learner.note_ids(item.id for item in state.assembled.shown)
            if not state.assembled.context:
                return ""
            return INTRODUCTION + self._shown(state.assembled.context)

    async def _assemble(
        self,
        session_id: str,
        signals: Signals,
        record: LearningRecord | None,
        budget_tokens: int,
    ) -> AssembledContext:
        room = budget_tokens - self._counter.count(INTRODUCTION)
        in_view = await self._objects_in_view(session_id)
        summarised = 0 if record is None else record.compacted_turn

        def is_shown(memory: Memory) -> bool:
            origin = memory.origin
            said_here = origin.session_id == session_id and (origin.turn or 0) > summarised
            return said_here or origin.object_id in in_view

        foreseen = replace(
            signals,
            next_files=self._next_files(session_id),
            branch=await asyncio.to_thread(self._branch),
        )
        return await self._living.assemble_context(
            max(1, room), signals=foreseen, is_shown=is_shown, marked=True
        )

    async def _objects_in_view(self, session_id: str) -> frozenset[str]:
        """Return the files and outputs that the prompt shows in full."""
        found = await self._store.get_many(
            [session_object_id(session_id)], without=("session_index", "metadata_pool")
        )
        version = found.get(session_object_id(session_id))
        active = None if version is None else version.document.get("active_set")
        return frozenset(map(str, active)) if isinstance(active, list) else frozenset()

    def _signals(self, session_id: str, message: str, record: LearningRecord | None) -> Signals:
        failures = () if record is None else record.failures
        errors = tuple(failure.error for failure in failures[-ERRORS_MAX:])
        named = _NAMED_FILE.search(message)
        debugging = bool(errors) or _DEBUGGING_WORDS.search(message) is not None
        return Signals(
            current_file=named[0] if named else self._files.get(session_id),
            recent_errors=errors,
            activity=DEBUGGING if debugging else None,
            message=message or None,
        )

    def _state(self, session_id: str) -> _SessionPrompt:
        state = self._sessions.pop(session_id, None) or _SessionPrompt()
        self._sessions[session_id] = state
        if len(self._sessions) > SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]
        return state
