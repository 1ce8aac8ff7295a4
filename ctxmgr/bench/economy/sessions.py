"""Reads folders of recorded sessions, in a common format or in that of a harness. Reads files.

    *.jsonl  *.jsonl.gz    the common format, one session per line
    *.jsonl  *.json        one session in a format that ``ctxmgr.recordings`` reads

A session in the common format is:

    {"id", "messages": [{"role": "system" | "user" | "assistant" | "tool", "text"}]}

An answer contains its calls as lines of JSON (``{"tool", "args"}`` or ``{"name", "arguments"}``) or
as a fenced command. Every answer is one model call, whose prompt had all messages before it.
"""

import gzip
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, Final, TextIO, TypeAlias

from ctxmgr.errors import Incorrect
from ctxmgr.recordings.formats import read_recording
from ctxmgr.recordings.recorder import RecordedPart, Recording

_FENCE = re.compile(r"```(?:bash|sh|shell)\n(.*?)\n?```", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedCall:
    tool: str
    args: Mapping[str, Any] = field(repr=False)
    output: str | None = field(default=None, repr=False)
    """None if no result was recorded."""


ReplayedPart: TypeAlias = str | ReplayedCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedTurn:
    user: str = field(repr=False)
    parts: tuple[ReplayedPart, ...] = field(repr=False)
    """Text and tool calls of the answer."""
    raw: str = field(repr=False)
    """The answer as it was recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSession:
    session_id: str
    system_prompt: str = field(repr=False)
    turns: tuple[ReplayedTurn, ...] = field(repr=False)


def read_session(value: Mapping[str, Any]) -> RecordedSession:
    """Read one session in the common format."""
    system: list[str] = []
    turns: list[ReplayedTurn] = []
    user: list[str] = []
    messages = value["messages"]
    for n, message in enumerate(messages):
        role, text = message["role"], message["text"]
        if role == "assistant":
            results = takewhile(lambda result: result["role"] == "tool", messages[n + 1 :])
            outputs = [result["text"] for result in results]
            parts = tuple(_with_outputs(_parse_answer(text, called=bool(outputs)), outputs))
            turns.append(ReplayedTurn(user="\n\n".join(user), parts=parts, raw=text))
            user = []
        elif role == "system":
            system.append(text)
        elif role == "user":
            user.append(text)
    return RecordedSession(
        session_id=str(value["id"]), system_prompt="\n\n".join(system), turns=tuple(turns)
    )


def imported(recording: Recording, *, name: str) -> RecordedSession:
    """Convert a recording in the format of a harness."""
    turns = (_imported_turn(turn.user, turn.parts) for turn in recording.turns)
    return RecordedSession(
        session_id=recording.recorded_id or name,
        system_prompt=recording.system_prompt,
        turns=tuple(turns),
    )


def _imported_turn(user: str, parts: Iterable[RecordedPart]) -> ReplayedTurn:
    replayed: list[ReplayedPart] = []
    raw: list[str] = []
    for part in parts:
        if isinstance(part, str):
            replayed.append(part)
            raw.append(part)
        else:
            args = part.args if isinstance(part.args, Mapping) else {"arguments": part.args}
            replayed.append(ReplayedCall(tool=part.tool, args=args, output=part.output))
            raw.append(json.dumps({"tool": part.tool, "args": args}))
    return ReplayedTurn(user=user, parts=tuple(replayed), raw="\n".join(raw))


def _with_outputs(parts: Iterable[ReplayedPart], outputs: list[str]) -> Iterator[ReplayedPart]:
    """Add the outputs to the calls in order; surplus outputs get a call of an unknown tool."""
    remaining = list(outputs)
    for part in parts:
        if isinstance(part, str):
            yield part
        else:
            yield replace(part, output=remaining.pop(0) if remaining else None)
    for output in remaining:
        yield ReplayedCall(tool="unknown", args={}, output=output)


def _parse_answer(text: str, *, called: bool) -> Iterator[ReplayedPart]:
    prose: list[str] = []
    calls: list[ReplayedPart] = []
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


def _fenced(text: str) -> Iterator[ReplayedPart]:
    fences = list(_FENCE.finditer(text))
    if not fences:
        yield from _prose(text)
        return
    last = fences[-1]
    yield from _prose(text[: last.start()])
    yield from _prose(text[last.end() :])
    yield ReplayedCall(tool="bash", args={"command": last[1]})


def _prose(text: str) -> Iterator[str]:
    if text.strip():
        yield text.strip("\n")


def _call(line: str) -> ReplayedCall | None:
    if not line.startswith("{"):
        return None
    try:
        value = json.loads(line)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    if value.keys() >= {"tool", "args"}:
        return ReplayedCall(tool=str(value["tool"]), args=_args(value["args"]))
    if value.keys() >= {"name", "arguments"}:
        return ReplayedCall(tool=str(value["name"]), args=_args(value["arguments"]))
    return None


def _args(value: Any) -> Mapping[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {"raw": value}
    return value if isinstance(value, dict) else {"raw": json.dumps(value)}


CALLS_MIN: Final = 3
"""Model calls of a session; shorter ones are left out."""


def read_folder(
    folder: Path, *, sessions_max: int | None = None
) -> dict[str, list[RecordedSession]]:
    """Read every file of a folder; return the sessions by file name.

    A harness's file is left out if the same name exists in the common format.
    """
    if not folder.is_dir():
        raise Incorrect(f"{folder} is not a folder; pass a folder of recorded sessions")
    by_name, others = {}, []
    for path in sorted([*folder.glob("*.jsonl.gz"), *folder.glob("*.jsonl")]):
        if not _is_common(path):
            others.append(path)
        elif sessions := list(_sessions(path, sessions_max)):
            by_name[_stem(path)] = sessions
    for path in [*others, *sorted(folder.glob("*.json"))]:
        if _stem(path) not in by_name:
            by_name.update(_imported(path))
    if not by_name:
        raise Incorrect(f"{folder} has no recorded sessions (*.jsonl, *.jsonl.gz or *.json)")
    return by_name


def _stem(path: Path) -> str:
    return path.name.partition(".")[0]


def _is_common(path: Path) -> bool:
    with _opened(path) as lines:
        try:
            return "messages" in json.loads(next(lines, "{}"))
        except ValueError as error:
            raise Incorrect(f"{path.name}, line 1: not a recorded session: {error}") from error


def _imported(path: Path) -> dict[str, list[RecordedSession]]:
    try:
        recording = read_recording(path.read_bytes())
    except Incorrect as error:
        raise Incorrect(f"{path.name}: {error}") from error
    session = imported(recording, name=_stem(path))
    enough = len(session.turns) >= CALLS_MIN
    return {f"{recording.format}: {path.stem}": [session]} if enough else {}


def _sessions(path: Path, sessions_max: int | None) -> Iterator[RecordedSession]:
    with _opened(path) as lines:
        for number, line in enumerate(islice(lines, sessions_max), start=1):
            try:
                session = read_session(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                raise Incorrect(
                    f"{path.name}, line {number}: not a recorded session: {error}"
                ) from error
            if len(session.turns) >= CALLS_MIN:
                yield session


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")
