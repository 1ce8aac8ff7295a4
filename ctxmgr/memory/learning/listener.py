"""Learn from a store's events, behind the turns. Commits through the learner.

    turn_finished    a turn of an exchange; one without tool calls ends it, so does a new message;
                     what its prompt showed of memory is judged at once, and which files come next
                     is predicted from it
    session_paused   ends the exchange
    file_…           conventions and patterns, if it lies in the folder of the project
    compacted        what was learnt from these turns may be shown again

Only sessions of the listener's user and project are learnt from. The stored position stays before
the oldest exchange that is still open: after a crash it is read again, and nothing twice.
"""

from dataclasses import dataclass, field
from typing import Final

from ctxmgr.core.events.events import (
    Compacted,
    Event,
    EventId,
    FileDiscovered,
    FileEvent,
    SessionPaused,
    TurnFinished,
)
from ctxmgr.core.store.contract import Instant, Store
from ctxmgr.memory.extraction.patterns import is_source
from ctxmgr.memory.extraction.project_files import READERS
from ctxmgr.memory.learning.foresight import FileForesight
from ctxmgr.memory.learning.learner import Learner
from ctxmgr.memory.learning.read_exchange import StoredTurn, calls_tools, last_path

TURNS_MAX: Final = 200
"""Turns of an exchange; an agent that works for hours without a word is learnt from in parts."""
REPLAY_MAX: Final = 10_000
"""Transactions that are read again after a crash; an exchange that is open for longer is ended."""
FILES_MAX: Final = 1_024
"""Sessions whose last file is remembered."""

_LAST_POSITION: Final = 2**31 - 1


@dataclass(slots=True)
class _OpenExchange:
    before: EventId | None
    """The last event before its first turn."""
    turns: dict[int, StoredTurn] = field(default_factory=dict)
    at: Instant = 0


class MemoryListener:
    """A listener that learns from the sessions of one user in one project."""

    name = "memory"

    def __init__(
        self,
        learner: Learner,
        *,
        root: str | None = None,
        foresight: FileForesight | None = None,
    ) -> None:
        """``root`` is the folder of the project on the host; ``foresight`` follows its files."""
        self._learner = learner
        self._foresight = foresight
        self._root = root
        self._open: dict[str, _OpenExchange] = {}
        self._seen: EventId | None = None
        self.files: dict[str, str] = {}
        """The file that each session used last."""

    async def begin(self, store: Store) -> None:
        """Find where to begin: after the last event, if this user is new to the store."""
        self._seen = await self._learner.position()
        if self._seen is None:
            sequence = (await store.status()).sequence
            self._seen = EventId(-1 if sequence is None else sequence, _LAST_POSITION)
            await self._learner.begin(self._seen)

    async def last_handled(self) -> EventId | None:
        last = self._seen
        return None if last is None or last.sequence < 0 else last

    async def handle(self, event: Event) -> None:
        match event:
            case TurnFinished() if await self._learner.is_ours(event.session_id):
                await self._turn(event)
            case SessionPaused():
                if event.session_id in self._open:
                    await self._finish(event.session_id, event.id)
                if self._foresight is not None:
                    self._foresight.end(event.session_id)
            case FileEvent() if (path := self._project_file(event)) is not None:
                await self._learner.learn_file(event, path)
            case Compacted() if await self._learner.is_ours(event.session_id):
                await self._learner.compacted(event.session_id, through=event.range_end)
            case _:
                pass
        self._seen = event.id
        await self._finish_abandoned(event.id)

    async def _turn(self, event: TurnFinished) -> None:
        session_id, turn = event.session_id, event.turn
        if turn is None:
            return
        exchange = self._open.get(session_id)
        if exchange is not None and turn.get("user") and max(exchange.turns) < event.n:
            await self._finish(session_id, self._seen)
            exchange = None
        if exchange is None:
            exchange = self._open[session_id] = _OpenExchange(before=self._seen)
        exchange.turns[event.n] = turn
        exchange.at = event.system_time
        self._note_file(session_id, turn)
        if self._foresight is not None:
            await self._foresight.note_turn(session_id, turn)
        said = str(exchange.turns[min(exchange.turns)].get("user") or "")
        await self._learner.judge(session_id, turn, number=event.n, said=said)
        if not calls_tools(turn) or len(exchange.turns) >= TURNS_MAX:
            await self._finish(session_id, event.id)

    async def _finish(self, session_id: str, handled: EventId | None) -> None:
        """Learn from an exchange; ``handled`` is the last event that needs no replay for it."""
        exchange = self._open[session_id]
        others = [each.before for name, each in self._open.items() if name != session_id]
        bounds = [each for each in (*others, handled) if each is not None]
        position = None if None in others else min(bounds, default=None)
        await self._learner.learn(session_id, exchange.turns, at=exchange.at, position=position)
        del self._open[session_id]

    async def _finish_abandoned(self, now: EventId) -> None:
        """End exchanges whose harness died, so that the replay after a crash stays short."""
        for session_id, exchange in list(self._open.items()):
            began = -1 if exchange.before is None else exchange.before.sequence
            if now.sequence - began > REPLAY_MAX:
                await self._finish(session_id, now)

    def _project_file(self, event: FileEvent) -> str | None:
        """Return the path, in the project, of a file that teaches; None for every other file."""
        path = event.source.get("path", "")
        if self._root is None or isinstance(event, FileDiscovered):
            return None
        inside = path.removeprefix(f"{self._root}/")
        return inside if inside != path and (inside in READERS or is_source(inside)) else None

    def _note_file(self, session_id: str, turn: StoredTurn) -> None:
        path = last_path(turn)
        if path is not None:
            self.files.pop(session_id, None)
            self.files[session_id] = path
            if len(self.files) > FILES_MAX:
                del self.files[next(iter(self.files))]
