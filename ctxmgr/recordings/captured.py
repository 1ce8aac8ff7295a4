"""Adds what a recording knows to a session that hooks have captured. Commits.

Hooks report prompts, tool calls and final answers: a captured turn is one *exchange*, which the
client recorded as several answers of the model. The recording adds

    the system prompt    if the session has none
    tokens and model     of captured turns, in ``recorded:{session}`` (``core.history``)
    turns                of exchanges after the last captured one

A captured turn is found in the recording by the ids of its calls if they are unique, or else by its
prompt. Exchanges between captured ones that the hooks have missed are counted and left out, because
turns are stored in the order in which they happened. So is a last exchange whose answer is not
complete: a hook may be about to store it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from ctxmgr.core.model import Usage, to_value
from ctxmgr.core.objects.chat import Turn
from ctxmgr.core.store.documents import storable
from ctxmgr.errors import Incorrect
from ctxmgr.recordings.recorder import RecordedTurn, Recording

HOOK: Final = "hook"
"""The API of turns that hooks have captured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedExchange:
    """A user's message and the answers to it, as they were recorded."""

    user: str
    turns: tuple[RecordedTurn, ...]

    @property
    def call_ids(self) -> frozenset[str]:
        return frozenset(call.call_id for turn in self.turns for call in turn.calls)

    @property
    def ended(self) -> int | None:
        """When it ended, as far as is known."""
        known = [turn.timestamp for turn in self.turns if turn.timestamp is not None]
        return max(known, default=None)

    @property
    def is_complete(self) -> bool:
        """Whether the model has asked for nothing more."""
        return not self.turns[-1].calls

    def added(self) -> dict[str, Any]:
        """Return what hooks do not report of it."""
        usages = [turn.usage for turn in self.turns if turn.usage is not None]
        models = [turn.model for turn in self.turns if turn.model is not None]
        added: dict[str, Any] = {"answers": len(self.turns)}
        if usages:
            added["usage"] = to_value(sum(usages, start=Usage()))
        if models:
            added["model"] = storable(models[-1])
        return added


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedCompletion:
    """What a recording adds to a captured session."""

    captured: Mapping[str, Mapping[str, Any]]
    """The number of a captured turn, as text → what is known of it."""
    new: tuple[RecordedTurn, ...]
    """Turns to append."""
    left_out: int
    """Exchanges that cannot be added."""


def captured_name(recording: Recording) -> str | None:
    """Return the session under which hooks store this subagent; None if it is not a subagent."""
    name, parent = recording.recorded_id, recording.parent
    prefix = f"{parent}.agent-"
    if parent is None or name is None or not name.startswith(prefix):
        return None
    return f"{parent}/{name.removeprefix(prefix)}"


def completion(
    turns: Sequence[Turn], recording: Recording, *, session_id: str
) -> CapturedCompletion:
    """Compare captured turns with a recording; ``Incorrect`` if they have nothing in common.

    Turns that an earlier import has appended are recognised as well.
    """
    exchanges = _exchanges(recording.turns)
    found = _matched(turns, exchanges, session_id=session_id)
    if turns and not found:
        raise Incorrect(
            f"session {session_id} was captured by hooks, and none of its turns is in the "
            "recording; import it under another name with --session"
        )
    last = max(found.values(), default=-1)
    rest = exchanges[last].turns[_appended(turns) :] if found and _appended(turns) else ()
    last += _captured_otherwise(turns[max(found, default=0) :], exchanges[last + 1 :])
    after = exchanges[last + 1 :]
    if after and not after[-1].is_complete:
        after = after[:-1]
    captured = {
        str(number): exchanges[at].added()
        for number, at in found.items()
        if _lacks_something(turns[number - 1])
    }
    missed = last + 1 - len(set(found.values()))
    return CapturedCompletion(
        captured=captured,
        new=(*rest, *(turn for exchange in after for turn in exchange.turns)),
        left_out=missed + (last + 1 + len(after) < len(exchanges)),
    )


def _captured_otherwise(turns: Sequence[Turn], exchanges: Sequence[RecordedExchange]) -> int:
    """Count the exchanges that ended before the last of some turns that were not found did.

    They are probably these turns: a client may record a prompt, such as one of its commands, in
    another form than it reports it.
    """
    times = [turn.assistant_meta.timestamp for turn in turns if turn.assistant_meta.api == HOOK]
    until = max(filter(None, times), default=None)
    if until is None:
        return 0
    return sum(1 for _ in takewhile(lambda each: (each.ended or until) < until, exchanges))


def _lacks_something(turn: Turn) -> bool:
    """Whether hooks have captured a turn without its tokens or its model."""
    meta = turn.assistant_meta
    return meta.api == HOOK and not (meta.usage and meta.model)


def _appended(turns: Sequence[Turn]) -> int:
    """Count the turns of the last exchange that an import has appended; it may be interrupted."""
    count = 0
    for turn in reversed(turns):
        if turn.assistant_meta.api == HOOK:
            break
        count += 1
        if turn.user:
            break
    return count


def _exchanges(turns: Sequence[RecordedTurn]) -> list[RecordedExchange]:
    found: list[list[RecordedTurn]] = []
    for turn in turns:
        if turn.user or not found:
            found.append([])
        found[-1].append(turn)
    return [
        RecordedExchange(user=storable(answers[0].user), turns=tuple(answers)) for answers in found
    ]


def _matched(
    turns: Sequence[Turn], exchanges: Sequence[RecordedExchange], *, session_id: str
) -> dict[int, int]:
    """Return the exchange of each turn, by their numbers and positions; each is used once."""
    owner = _owners(exchanges)
    found: dict[int, int] = {}
    for number, turn in enumerate(turns, start=1):
        known: list[int] = []
        for toolcall_id in turn.toolcall_ids:
            _, _, own = toolcall_id.removeprefix(f"{session_id}:").partition(":")
            names = (toolcall_id, toolcall_id.removeprefix(f"{session_id}:"), own)
            known += [owner[name] for name in names if name in owner][:1]
        if known:
            found[number] = max(known)  # hooks that missed an end have added its calls to the next
    free = set(range(len(exchanges))) - set(found.values())
    for number, turn in enumerate(turns, start=1):
        if number in found or not turn.user:
            continue
        low = max((at for n, at in found.items() if n < number), default=-1)
        high = min((at for n, at in found.items() if n > number), default=len(exchanges))
        said = [at for at in free if low < at < high and turn.user in exchanges[at].user]
        if said:
            nearest = min(said, key=lambda at: (_distance(turn, exchanges[at]), at))
            found[number] = nearest
            free.discard(nearest)
    return _each_once(found)


def _owners(exchanges: Sequence[RecordedExchange]) -> dict[str, int]:
    """Return the exchange of each call; some models use the same ids in every answer."""
    found: dict[str, int] = {}
    repeated: set[str] = set()
    for at, exchange in enumerate(exchanges):
        repeated.update(call for call in exchange.call_ids if call in found)
        found |= dict.fromkeys(exchange.call_ids, at)
    return {call: at for call, at in found.items() if call not in repeated}


def _each_once(found: Mapping[int, int]) -> dict[int, int]:
    """Leave an exchange to the last of its turns: a client may report its end several times."""
    return {number: at for at, number in {at: n for n, at in sorted(found.items())}.items()}


def _distance(turn: Turn, exchange: RecordedExchange) -> int:
    at, ended = turn.assistant_meta.timestamp, exchange.ended
    return 0 if at is None or ended is None else abs(at - ended)
