"""A session's tool calls: what each did, how it ended, and how long it took. Reads the store.

Durations follow from three recorded times: when an answer was complete, when the output of each
call was stored, and when the turn was stored. What is not recorded is not guessed: the time before
an answer includes the wait for a user who had something to say.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ctxmgr.core.history.reading import FirstTurns, read_chat
from ctxmgr.core.objects.answers import CONTEXTCALL
from ctxmgr.core.objects.answers import TOOLCALL as CALL_PART
from ctxmgr.core.objects.chat import Chat, Turn
from ctxmgr.core.store.contract import Instant, Store, Version
from ctxmgr.core.store.queries import batched
from ctxmgr.errors import Incorrect

CALLS_MAX: Final = 1_000
"""Calls in one page."""

ARGUMENT_CHARS_MAX: Final = 120
"""Of the argument that names a call in a list."""

_NAMING: Final = (
    *("command", "cmd", "path", "file_path", "filename", "file", "filePath", "target_file"),
    *("pattern", "query", "url", "name", "id", "object_id", "prompt", "description"),
)
"""Arguments that say what a call is about, most telling first."""

_WITHOUT_TEXT: Final = ("content",)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCall:
    """A tool call that an answer asked for."""

    turn: int
    object_id: str
    stored: bool
    """Whether it has an object; the calls of context tools have none."""
    tool: str
    argument: str
    """What it is about, in one line: the path of a read, the command of a shell."""
    args: Mapping[str, Any] = field(repr=False)
    status: str
    """ok or fail."""
    time: Instant | None
    """When its output was stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPage:
    session_id: str
    calls: tuple[TurnCall, ...]
    """Oldest first."""
    earlier: int | None
    """Pass it as ``before`` to get the calls of the turns before these; None: there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSpan:
    """What happened between two recorded times of a turn."""

    what: str
    """model: until the answer was complete; tool: until the output of a call was stored; both: the
    answer and the first call, if the time of the answer is not known; end: until the turn was
    stored."""
    start: Instant
    end: Instant
    object_id: str | None = None
    """Of the call."""


async def list_calls(
    store: Store, session_id: str, *, before: int | None, failed: bool, limit: int
) -> CallPage:
    """Return the last calls of a session, or the last ones before some turn, in whole turns."""
    if not 1 <= limit <= CALLS_MAX:
        raise Incorrect(f"limit must be 1 to {CALLS_MAX}, not {limit}")
    chat = await read_chat(store, session_id)
    end = chat.turn_count if before is None else max(0, min(before - 1, chat.turn_count))
    calls: list[TurnCall] = []
    number = end
    while number and len(calls) < limit:
        first = max(1, number - limit + 1)
        read = await read_calls(store, chat, range(first, number + 1))
        for each in range(number, first - 1, -1):
            wanted = [call for call in read[each] if not failed or call.status != "ok"]
            if calls and len(calls) + len(wanted) > limit:
                return CallPage(session_id=session_id, calls=tuple(calls), earlier=each + 1)
            calls[:0] = wanted
        number = first - 1
    earlier = number + 1 if number else None
    return CallPage(session_id=session_id, calls=tuple(calls), earlier=earlier)


async def read_calls(
    store: Store, chat: Chat, numbers: Iterable[int]
) -> dict[int, tuple[TurnCall, ...]]:
    """Return the calls of some turns, without their outputs."""
    turns = {number: chat.turns[number - 1] for number in numbers}
    ids = [object_id for turn in turns.values() for object_id in turn.toolcall_ids]
    versions: dict[str, Version] = {}
    for batch in batched(dict.fromkeys(ids), CALLS_MAX):
        versions |= await store.get_many(batch, without=_WITHOUT_TEXT)
    return {number: tuple(_calls(number, turn, versions)) for number, turn in turns.items()}


def _calls(number: int, turn: Turn, versions: Mapping[str, Version]) -> Iterable[TurnCall]:
    for object_id in turn.toolcall_ids:
        if object_id in versions:
            document = versions[object_id].document
            yield TurnCall(
                turn=number,
                object_id=object_id,
                stored=True,
                tool=document["tool"],
                argument=main_argument(document["args"]),
                args=document["args"],
                status=document["status"],
                time=versions[object_id].valid_time,
            )
    for part in turn.assistant:
        if part["type"] == CONTEXTCALL:
            yield TurnCall(
                turn=number,
                object_id=part["call_id"],
                stored=False,
                tool=part["tool"],
                argument=main_argument(part["args"]),
                args=part["args"],
                status=part["status"],
                time=None,
            )


def main_argument(args: Mapping[str, Any]) -> str:
    """Return the argument that says what a call is about, in one line; empty if there is none."""
    named = (args[name] for name in _NAMING if name in args)
    values = [*named, *args.values()]
    text = next((text for value in values if (text := _words(value))), "")
    line = " ".join(text[: 4 * ARGUMENT_CHARS_MAX].split())
    return line if len(line) <= ARGUMENT_CHARS_MAX else line[: ARGUMENT_CHARS_MAX - 1] + "…"


def _words(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence) and all(isinstance(item, str) for item in value):
        return " ".join(value)  # a command line as a list of words
    return ""


def called_by(chat: Chat | FirstTurns) -> dict[str, str]:
    """Return the main argument of each tool call of a chat, by the id of its object."""
    return {
        part["toolcall_id"]: main_argument(part["args"])
        for turn in chat.turns
        for part in turn.assistant
        if part["type"] == CALL_PART and isinstance(part.get("args"), Mapping)
    }


def time_spans(
    calls: Sequence[TurnCall], *, start: Instant | None, answered: Instant | None, end: Instant
) -> tuple[TimeSpan, ...]:
    """Return how a turn spent its time. Pure.

    ``start`` is when the turn before was stored; None: there is none. Nothing is returned if the
    times do not follow one another, as in a session that was recorded elsewhere and imported later.
    """
    steps: list[tuple[str, Instant, str | None]] = []
    if answered is not None:
        steps.append(("model", answered, None))
    for call in calls:
        if call.time is not None:
            steps.append(("tool" if steps else "both", call.time, call.object_id))
    steps.append(("end" if steps else "model", end, None))
    spans: list[TimeSpan] = []
    for what, reached, object_id in steps:
        if start is not None and reached < start:
            return ()
        if start is not None:
            spans.append(TimeSpan(what=what, start=start, end=reached, object_id=object_id))
        start = reached
    return tuple(spans)
