"""A recorded session, as turns of calls with outputs; mostly from the common form. Pure.

    {"id", "messages": [{"role": "system" | "user" | "assistant" | "tool", "text"}]}

An answer holds its calls as lines of JSON (``{"tool", "args"}`` or ``{"name", "arguments"}``) or as
a fenced command. Before every answer one model call was made with all that stands before it.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ctxmgr.messages import recorded
from ctxmgr.messages.recorded import RecordedPart, Recording

_FENCE = re.compile(r"```(?:bash|sh|shell)\n(.*?)\n?```", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    tool: str
    args: Mapping[str, Any] = field(repr=False)
    output: str | None = field(default=None, repr=False)
    """None: it was never answered."""


Said: TypeAlias = str | RecordedCall


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTurn:
    user: str = field(repr=False)
    said: tuple[Said, ...] = field(repr=False)
    raw: str = field(repr=False)
    """The answer as it was recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSession:
    session_id: str
    system_prompt: str = field(repr=False)
    turns: tuple[RecordedTurn, ...] = field(repr=False)


def read_session(value: Mapping[str, Any]) -> RecordedSession:
    """Read one session of the common form."""
    system: list[str] = []
    turns: list[RecordedTurn] = []
    user: list[str] = []
    messages = value["messages"]
    for at, message in enumerate(messages):
        role, text = message["role"], message["text"]
        if role == "assistant":
            outputs = _outputs(messages[at + 1 :])
            said = tuple(_answered(_said(text, called=bool(outputs)), outputs))
            turns.append(RecordedTurn(user="\n\n".join(user), said=said, raw=text))
            user = []
        elif role == "system":
            system.append(text)
        elif role == "user":
            user.append(text)
    return RecordedSession(
        session_id=str(value["id"]), system_prompt="\n\n".join(system), turns=tuple(turns)
    )


def imported(recording: Recording, *, name: str) -> RecordedSession:
    """Take over a session that was read from its harness's own file."""
    turns = (_imported_turn(each.user, each.said) for each in recording.turns)
    return RecordedSession(
        session_id=recording.recorded_id or name,
        system_prompt=recording.system_prompt,
        turns=tuple(turns),
    )


def _imported_turn(user: str, parts: Iterable[RecordedPart]) -> RecordedTurn:
    said = [each if isinstance(each, str) else _imported_call(each) for each in parts]
    raw = (
        each if isinstance(each, str) else json.dumps({"tool": each.tool, "args": each.args})
        for each in said
    )
    return RecordedTurn(user=user, said=tuple(said), raw="\n".join(raw))


def _imported_call(call: recorded.RecordedCall) -> RecordedCall:
    args = call.args if isinstance(call.args, Mapping) else {"arguments": call.args}
    return RecordedCall(tool=call.tool, args=args, output=call.output)


def _outputs(following: Iterable[Mapping[str, Any]]) -> list[str]:
    outputs = []
    for message in following:
        if message["role"] != "tool":
            break
        outputs.append(message["text"])
    return outputs


def _answered(said: Iterable[Said], outputs: list[str]) -> Iterator[Said]:
    """Give each call its output; an output that no call asked for is answered to a nameless one."""
    waiting = list(outputs)
    for each in said:
        if isinstance(each, str):
            yield each
        else:
            output = waiting.pop(0) if waiting else None
            yield RecordedCall(tool=each.tool, args=each.args, output=output)
    for output in waiting:
        yield RecordedCall(tool="unknown", args={}, output=output)


def _said(text: str, *, called: bool) -> Iterator[Said]:
    prose: list[str] = []
    calls: list[Said] = []
    for line in text.split("\n"):
        call = _call(line)
        if call is None:
            prose.append(line)
        else:
            calls.append(call)
    if calls or not called:
        yield from _prose("\n".join(prose))
        yield from calls
    else:
        yield from _fenced(text)


def _fenced(text: str) -> Iterator[Said]:
    fences = list(_FENCE.finditer(text))
    if not fences:
        yield from _prose(text)
        return
    last = fences[-1]
    yield from _prose(text[: last.start()])
    yield from _prose(text[last.end() :])
    yield RecordedCall(tool="bash", args={"command": last[1]})


def _prose(text: str) -> Iterator[str]:
    if text.strip():
        yield text.strip("\n")


def _call(line: str) -> RecordedCall | None:
    if not line.startswith("{"):
        return None
    try:
        value = json.loads(line)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    if value.keys() >= {"tool", "args"}:
        return RecordedCall(tool=str(value["tool"]), args=_args(value["args"]))
    if value.keys() >= {"name", "arguments"}:
        return RecordedCall(tool=str(value["name"]), args=_args(value["arguments"]))
    return None


def _args(value: Any) -> Mapping[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {"raw": value}
    return value if isinstance(value, dict) else {"raw": json.dumps(value)}
