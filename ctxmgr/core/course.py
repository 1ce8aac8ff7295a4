"""The course of a session: its turns so far, and the calls of the one under way. Pure.

    transcript       the turns as prompts show them
    pending          tool calls that were made and belong to no turn yet
    turn of a call   the turn that made it, or is making it
    activations      what was chosen on purpose, and when: automatic collapse leaves it a while
    context calls    outcomes of the context tools, which have no object to hold them

It is built from a stored chat and follows it turn by turn; the chat itself is its owner's.
"""

from collections.abc import Collection, Iterable, Mapping

from ctxmgr.core.assembly import ShownTurn, Transcript
from ctxmgr.core.collapse import Activations, Window, collapsed
from ctxmgr.core.documents import Document
from ctxmgr.core.infrastructure import Chat, Turn
from ctxmgr.core.parts import TOOLCALL, CallRef, Status, contextcall_part
from ctxmgr.core.sessions import Session


class Course:
    """What is known of one session's turns."""

    def __init__(self, activations: Activations | None = None) -> None:
        self.transcript = Transcript()
        self.activations = activations or Activations()
        self._pending: list[str] = []
        self._turn_of: dict[str, int] = {}
        self._context_calls: dict[str, tuple[Status, str]] = {}

    @property
    def pending(self) -> tuple[str, ...]:
        return tuple(self._pending)

    def follow(self, chat: Chat, *, calls: Mapping[str, CallRef], made: Iterable[str]) -> None:
        """Take a stored chat for what happened; of the calls ``made``, the rest is pending."""
        self.transcript = Transcript(ShownTurn.of(turn, calls=calls) for turn in chat.turns)
        self._turn_of = {
            each: n for n, turn in enumerate(chat.turns, start=1) for each in turn.toolcall_ids
        }
        self._pending = [each for each in made if each not in self._turn_of]
        self._turn_of.update(dict.fromkeys(self._pending, chat.turn_count + 1))

    def near(self, window: Window, *, now_turn: int) -> list[str]:
        """Name the calls of the turns that the window reaches over."""
        return [each for each, n in self._turn_of.items() if window.reaches(n, now_turn=now_turn)]

    def made(self, tool_call_id: str, *, turn: int) -> None:
        """Count a call to the turn under way, unless it is known already."""
        if tool_call_id not in self._turn_of:
            self._pending.append(tool_call_id)
            self._turn_of[tool_call_id] = turn

    def note_context_call(self, tool_call_id: str, *, status: Status, output: str) -> None:
        """Keep the outcome of a context tool until the turn ends."""
        self._context_calls[tool_call_id] = (status, output)

    def told(self, part: Document) -> Document:
        """Write the outcome of a context tool into the answer."""
        outcome = self._context_calls.get(part.get("toolcall_id", ""))
        if outcome is None or part["type"] != TOOLCALL:
            return part
        status, output = outcome
        return contextcall_part(
            part["call_id"], tool=part["tool"], args=part["args"], status=status, output=output
        )

    def activated(self, object_id: str, *, turn: int) -> None:
        self.activations = self.activations.activated(object_id, turn=turn)

    def deactivated(self, object_id: str) -> None:
        self.activations = self.activations.deactivated(object_id)

    def adopt(self, session: Session, *, expected: Collection[str], turn: int) -> None:
        """Take what others activated for a choice of this turn."""
        self.activations = self.activations.adopt(
            session, expected=frozenset(expected), made_in=self._turn_of, turn=turn
        )

    def collapse(self, session: Session, turn: Turn, *, chat: Chat, window: Window) -> Session:
        """Fold what the window leaves behind when this turn ends; ``chat`` does not hold it yet."""
        n = chat.turn_count + 1
        near = set(range(max(1, n - window.turns_back), n))
        near.update(self._turn_of[each] for each in session.active_set if each in self._turn_of)
        calls = {each: chat.turns[each - 1].toolcall_ids for each in near if each < n}
        return collapsed(
            session,
            calls={**calls, n: turn.toolcall_ids},
            now_turn=n,
            activations=self.activations,
            window=window,
        )

    def end(self, turn: Turn, *, calls: Mapping[str, CallRef], session: Session) -> None:
        """Go on to the next turn: this one is stored."""
        self.transcript = self.transcript.append(ShownTurn.of(turn, calls=calls))
        self.activations = self.activations.still_active(session)
        self._pending = [each for each in self._pending if each not in turn.toolcall_ids]
        self._context_calls.clear()
