"""What a turn cost and whether a call failed, from the client's own transcript. Reads that file.

Hooks carry no token counts, and those of Codex no exit codes, but they name the transcript. The
path is the client's word, so it counts only if it lies where that client keeps the transcripts of
this session:

    Claude Code   FOLDER/projects/PROJECT/SESSION.jsonl
                  FOLDER/projects/PROJECT/SESSION/subagents/agent-AGENT.jsonl
    Codex         FOLDER/sessions/YEAR/MONTH/DAY/rollout-TIME-SESSION.jsonl
    Gemini CLI    ~/.gemini/tmp/PROJECT/chats/session-TIME-SESSION.jsonl

FOLDER comes from the environment of the hook; Gemini CLI shortens SESSION. No link below it is
followed, a bounded part of the file is read, and nothing is taken from it but counts, times, exit
codes and the name of the model.
"""

import asyncio
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any, Final

from ctxmgr import Usage
from ctxmgr.core.model import anthropic_usage, openai_usage
from ctxmgr.core.store.documents import storable
from ctxmgr.integrations.agents.events import AgentEvent

TURN_BYTES_MAX: Final = 64 * 1024 * 1024
"""Read of a transcript for one turn; a turn that wrote more has no known cost."""

CALL_BYTES_MAX: Final = 8 * 1024 * 1024
"""Read from the end of a transcript to find how one call has ended."""

MODEL_LENGTH_MAX: Final = 200

TOKENS_MAX: Final = 1_000_000_000
"""Of one call. More is an error in the file."""

WAITS: Final = 10
WAIT_SECONDS: Final = 0.1
"""How often, and for how long, the last answer is waited for: clients write it after the hook."""

SETTLED_SECONDS: Final = 5
"""Of an event this old, the client has written all it will write, so that nothing is waited for."""

_WORDS: Final = (b'"usage"', b'"tokens"', b'"turn_context"')
"""One of them is in every line that says what a call cost, or which model is used."""

_CLAUDE_PARTS: Final = 2
_SUBAGENT_PARTS: Final = 4
_CODEX_PARTS: Final = 4
_GEMINI_PARTS: Final = 3
_GEMINI_NAMED: Final = 8
"""Characters of a session's id in the name of a file of Gemini CLI."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnUsage:
    """Tokens of a turn's model calls, and the model of the last one."""

    usage: Usage | None = None
    model: str | None = None
    read_to: int = 0
    """Where the transcript continues."""


@dataclass(slots=True)
class _Calls:
    """What the lines of a transcript say."""

    usages: dict[str, Usage] = field(default_factory=dict)
    """By answer: one is written in several lines, each with all counts of it so far."""
    model: str | None = None
    is_complete: bool = False

    def take(self, row: Mapping[str, Any]) -> None:
        message, payload = row.get("message"), row.get("payload")
        if row.get("type") == "assistant" and isinstance(message, Mapping):
            usage = message.get("usage")
            self._keep(message.get("id"), anthropic_usage(_mapping(usage)), message.get("model"))
            self.is_complete = message.get("stop_reason") not in {None, "tool_use"}
        elif row.get("type") == "token_usage_record" and isinstance(payload, Mapping):
            self._keep(
                payload.get("response_id"), openai_usage(_mapping(payload.get("usage"))), None
            )
            self.is_complete = True
        elif row.get("type") == "gemini":
            tokens = _mapping(row.get("tokens"))
            self._keep(
                row.get("id"), None if tokens is None else _gemini_usage(tokens), row.get("model")
            )
            self.is_complete = bool(row.get("content"))
        elif row.get("type") == "turn_context" and isinstance(payload, Mapping):
            self._keep(None, None, payload.get("model"))

    def _keep(self, name: object, usage: Usage | None, model: object) -> None:
        if isinstance(model, str) and model and not model.startswith("<"):
            self.model = storable(model[:MODEL_LENGTH_MAX])
        if usage is not None and usage.prompt_tokens + usage.output_tokens <= TOKENS_MAX:
            self.usages[str(name)] = usage


async def turn_usage(event: AgentEvent, *, since: int, read_to: int) -> TurnUsage:
    """Return what the calls between two times cost; the second is that of the event.

    ``read_to`` is where an earlier turn's reading has ended.
    """
    reported = event.fields.get("usage")
    if isinstance(reported, Mapping):  # of our own plugin
        return TurnUsage(usage=anthropic_usage(reported), model=event.model)
    place = _place(event)
    if place is None:
        return TurnUsage(read_to=read_to)
    waits = _waits(event)
    for attempt in range(waits + 1):
        calls, end = await asyncio.to_thread(_read, *place, (since, event.at), read_to)
        if calls.is_complete or attempt == waits:
            break
        await asyncio.sleep(WAIT_SECONDS)
    total = sum(calls.usages.values(), start=Usage()) if calls.usages else None
    return TurnUsage(usage=total, model=calls.model, read_to=end)


async def exit_code(event: AgentEvent, call_id: str) -> int | None:
    """Return how a command of Codex ended; None if its transcript does not say."""
    place = _place(event)
    if place is None or place[0].name != "sessions":
        return None
    waits = _waits(event)
    for attempt in range(waits + 1):
        code = await asyncio.to_thread(_read_exit_code, *place, call_id)
        if code is not None or attempt == waits:
            return code
        await asyncio.sleep(WAIT_SECONDS)
    return None


def _waits(event: AgentEvent) -> int:
    return WAITS if time.time() - event.at / 1000 < SETTLED_SECONDS else 0


def _place(event: AgentEvent) -> tuple[Path, PurePosixPath] | None:
    """Return the client's folder, and the transcript's path in it; None if it is elsewhere."""
    agent = event.fields.get("agent_id")
    named = event.fields.get("agent_transcript_path" if agent else "transcript_path")
    if not isinstance(named, str) or "\0" in named or ".." in PurePosixPath(named).parts:
        return None
    session = event.client_session
    folders = {
        "projects": event.client_folder,
        "sessions": event.codex_folder,
        "tmp": str(Path.home() / ".gemini"),
    }
    for kind, folder in folders.items():
        if not folder:
            continue
        for root in (Path(folder), Path(folder).resolve()):
            try:
                path = PurePosixPath(named).relative_to(root / kind)
            except ValueError:
                continue
            if _is_of_session(kind, path.parts, session, agent):
                return root / kind, path
    return None


def _is_of_session(kind: str, parts: tuple[str, ...], session: str, agent: object) -> bool:
    if kind == "sessions":
        return len(parts) == _CODEX_PARTS and parts[-1].endswith(f"-{session}.jsonl")
    if kind == "tmp":
        ending = f"-{session[:_GEMINI_NAMED]}.jsonl"
        return len(parts) == _GEMINI_PARTS and parts[1] == "chats" and parts[2].endswith(ending)
    if agent:
        own = (session, "subagents", f"agent-{agent}.jsonl")
        return len(parts) == _SUBAGENT_PARTS and parts[1:] == own
    return len(parts) == _CLAUDE_PARTS and parts[1] == f"{session}.jsonl"


def _read(
    root: Path, path: PurePosixPath, times: tuple[int, int], start: int
) -> tuple[_Calls, int]:
    """Return the calls between two times, and where the lines after them begin."""
    calls = _Calls()
    try:
        with os.fdopen(_open(root, path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = start if start <= size else 0
            if size - start > TURN_BYTES_MAX:
                return calls, size
            file.seek(start)
            data = file.read(TURN_BYTES_MAX)
    except OSError:  # a turn does not wait for its costs
        return calls, start
    whole = data.rfind(b"\n") + 1
    later: int | None = None  # of the next turn, if this one is stored late
    for position, row in _rows(data[:whole]):
        at = _time(row.get("timestamp"))
        if at is not None and times[0] <= at <= times[1]:
            calls.take(row)
        elif at is not None and at > times[1] and later is None:
            later = position
    return calls, start + (whole if later is None else later)


def _read_exit_code(root: Path, path: PurePosixPath, call_id: str) -> int | None:
    try:
        with os.fdopen(_open(root, path), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - CALL_BYTES_MAX))
            data = file.read(CALL_BYTES_MAX)
    except OSError:
        return None
    name = json.dumps(call_id).encode()
    for line in data.splitlines():
        if name not in line or b'"exit_code"' not in line:
            continue
        item = _mapping((_mapping(_parsed(line).get("payload")) or {}).get("item")) or {}
        code = item.get("exit_code")
        if item.get("id") == call_id and isinstance(code, int):
            return code
    return None


def _open(root: Path, path: PurePosixPath) -> int:
    """Open a regular file; ``OSError`` if a part of the path is a link, or it is something else."""
    flags = os.O_RDONLY | os.O_CLOEXEC
    folder = os.open(root, flags | os.O_DIRECTORY)
    for name in path.parts[:-1]:
        above, folder = folder, -1
        try:
            folder = os.open(name, flags | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
        finally:
            os.close(above)
    try:
        handle = os.open(path.name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(f"{path} is not a regular file")
    return handle


def _rows(data: bytes) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the lines that matter, each with its position."""
    position = 0
    for line in data.splitlines(keepends=True):
        if any(word in line for word in _WORDS):
            yield position, _parsed(line)
        position += len(line)


def _parsed(line: bytes) -> Mapping[str, Any]:
    """Return a line of a transcript; empty if it is damaged."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


def _gemini_usage(tokens: Mapping[str, Any]) -> Usage:
    return (
        openai_usage(
            {
                "input_tokens": tokens.get("input"),
                "cached_input_tokens": tokens.get("cached"),
                "output_tokens": sum(
                    count
                    for count in (tokens.get("output"), tokens.get("thoughts"))
                    if isinstance(count, int)
                ),
            }
        )
        or Usage()
    )


def _time(value: object) -> int | None:
    """Return a time of a transcript in UTC milliseconds."""
    if not isinstance(value, str):
        return None
    try:
        return int(datetime.fromisoformat(value).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def _mapping(value: object) -> Mapping[str, Any] | None:
    return value if isinstance(value, Mapping) else None
