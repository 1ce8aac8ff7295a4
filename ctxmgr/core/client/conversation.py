"""The turns of a session so far, and the tool calls of the current one. Pure.

    transcript      the turns as prompts show them
    pending         tool calls that belong to no stored turn yet
    turn_of         tool call → the turn that it belongs to
    context_calls   outcomes of the context tools, which have no object

It is built from a stored chat, and continued turn by turn.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ctxmgr.core.context.assembly import ShownTurn, Transcript
from ctxmgr.core.objects.answers import EXPLAINED, TOOLCALL, CallRef, Status, contextcall_part
from ctxmgr.core.objects.chat import Chat, Turn
from ctxmgr.core.sessions.collapse import Activations, Window, collapsed
from ctxmgr.core.sessions.sets import Session
from ctxmgr.core.store.documents import Document


class Conversation:
    """The turns of one session, as far as rendering and collapse need them."""

    def __init__(self) -> None:
        self._transcript: Transcript | None = Transcript()
        self._unshown: tuple[Chat, Mapping[str, CallRef]] | None = None
        """What the transcript is built from when it is first needed: a policy shows its own."""
        self.pending: list[str] = []
        self.turn_of: dict[str, int] = {}
        self.context_calls: dict[str, tuple[Status, str]] = {}

    def load(self, chat: Chat, *, calls: Mapping[str, CallRef], recorded: Iterable[str]) -> None:
        """Start again from a stored chat; calls of ``recorded`` that it lacks are pending."""
        self._transcript, self._unshown = None, (chat, calls)
        self.turn_of = {
            toolcall_id: number
            for number, turn in enumerate(chat.turns, start=1)
            for toolcall_id in turn.toolcall_ids
        }
        self.pending = [call_id for call_id in recorded if call_id not in self.turn_of]
        self.turn_of.update(dict.fromkeys(self.pending, chat.turn_count + 1))

    @property
    def transcript(self) -> Transcript:
        if self._transcript is None:
            assert self._unshown is not None
            chat, calls = self._unshown
            self._transcript = Transcript(ShownTurn.of(turn, calls=calls) for turn in chat.turns)
            self._unshown = None
        return self._transcript

    def add_call(self, toolcall_id: str, *, turn: int) -> None:
        """Assign a call to the current turn, unless it belongs to one already."""
        if toolcall_id not in self.turn_of:
            self.pending.append(toolcall_id)
            self.turn_of[toolcall_id] = turn

    def with_outcome(self, part: Document) -> Document:
        """Add the outcome of a context tool to its part of the answer.

        A call without an object is marked, so that prompts give the reason if it failed.
        """
        if part.get("type") != TOOLCALL or part.get("toolcall_id") in self.pending:
            return part
        outcome = self.context_calls.get(part.get("toolcall_id", ""))
        if outcome is None:
            return {**part, **EXPLAINED}
        status, output = outcome
        called = contextcall_part(
            part["call_id"], tool=part["tool"], args=part["args"], status=status, output=output
        )
        return {**called, **EXPLAINED} if status == "fail" else called

    def collapse(
        self,
        session: Session,
        turn: Turn,
        *,
        chat: Chat,
        activations: Activations,
        window: Window,
    ) -> Session:
        """Collapse what leaves the window when ``turn`` ends; ``chat`` does not hold it yet."""
        current = chat.turn_count + 1
        turns = set(range(max(1, current - window.turns_back), current))
        active = session.active_set
        turns.update(self.turn_of[call_id] for call_id in active if call_id in self.turn_of)
        calls = {
            number: chat.turns[number - 1].toolcall_ids for number in turns if number < current
        }
        return collapsed(
            session,
            calls={**calls, current: turn.toolcall_ids},
            now_turn=current,
            activations=activations,
            window=window,
        )

    def end_turn(self, turn: Turn, *, calls: Mapping[str, CallRef]) -> None:
        """Append a turn that was stored."""
        self._transcript = self.transcript.append(ShownTurn.of(turn, calls=calls))
        self.pending = [call_id for call_id in self.pending if call_id not in turn.toolcall_ids]
        self.context_calls.clear()


def new_turns(stored: Sequence[Turn], given: Sequence[Turn]) -> tuple[Turn, ...]:
    """Return the turns of a harness's own array that the chat does not have yet, in their order.

    The array may have been shortened, had its beginning replaced by a summary, or been started
    again. Counting would then lose or repeat turns, so they are recognised by their content:

        stored   … c d e          the end of the chat
        given    S d e f g        contains the chat's end "d e": what follows it is new
        given    x y              contains none of it: all turns that the chat lacks are new
    """
    chat = [turn.canonical for turn in stored]
    array = [turn.canonical for turn in given]
    end = _end_of_stored(chat, array)
    if end is not None:
        return tuple(given[end:])
    left = Counter(chat)
    new = []
    for turn in given:
        if left[turn.canonical]:
            left[turn.canonical] -= 1
        else:
            new.append(turn)
    return tuple(new)


def _end_of_stored(chat: Sequence[bytes], array: Sequence[bytes]) -> int | None:
    """Return where in the array the chat's longest end ends; None if no part of it is there."""
    longest, best = 0, None
    for end in range(len(array), 0, -1):
        length = 0
        while length < min(len(chat), end) and chat[-1 - length] == array[end - 1 - length]:
            length += 1
        if length > longest:
            longest, best = length, end
        if best is not None and longest >= end - 1:
            break
    return best
