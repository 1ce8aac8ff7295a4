"""Stores the events of Claude Code's hooks as a session. Commits.

    SessionStart   starts the session, or resumes it and lists its objects for the model
    PostToolUse    records the tool call, with the files it read, wrote or named
    PreCompact     stores the transcript as a version of its file before it is shortened

Each hook runs in its own process, and several may run at the same time. Only files of the project,
and the transcript, are read: an agent that may not read a file must not get it by naming it.
"""

import json
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ctxmgr import Client, Incorrect, LiveSession, NotFound, Section, Store, connect, mask
from ctxmgr.core.store.documents import storable

EVENTS: Final = frozenset({"SessionStart", "PostToolUse", "PreCompact"})

CONTEXT_CHARACTERS_MAX: Final = 8_000
"""Claude Code accepts 10,000 from a hook; the oldest lines are left out."""

TRANSCRIPT_SUFFIX: Final = ".jsonl"

OPENING: Final = "ctxmgr keeps what this session has seen; `ctxmgr store get ID` shows it whole:\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookResult:
    """The result of one event."""

    event: str
    session: str
    context: str = ""
    """Text for the model."""
    note: str = ""
    """Text for the user."""

    def answer(self) -> dict[str, Any]:
        """Return the hook's output as Claude Code expects it; empty if there is none."""
        output: dict[str, Any] = {"systemMessage": self.note} if self.note else {}
        if self.context:
            specific = {"hookEventName": self.event, "additionalContext": self.context}
            output["hookSpecificOutput"] = specific
        return output


async def handle_event(
    store: Store, event: Mapping[str, Any], *, project: Path, audit: Path | None = None
) -> HookResult:
    """Store one event; ``Incorrect`` if a field is missing. Unknown events change nothing.

    ``project`` is the folder that the person gave to the agent; no other files are read. ``audit``
    is the folder of an audit log.
    """
    name, session_id = _text(event, "hook_event_name"), _text(event, "session_id")
    if name not in EVENTS:
        note = f"ctxmgr does not use the event {name:.80}; nothing was stored"
        return HookResult(event=name, session=session_id, note=note)
    context = ""
    shown = [project]
    if name == "PreCompact":
        shown.append(_transcript(event))
    async with (
        connect(
            store=store,
            mounts=_mounts(shown),
            directory=_text(event, "cwd"),
            filesystem_id=f"claude-code:{session_id}",
            audit=audit,
            tracking=False,
        ) as client,
        _open_session(client, session_id) as session,
    ):
        match name:
            case "SessionStart":
                context = _object_list(session)
            case "PostToolUse":
                args = event.get("tool_input")
                await session.record(
                    str(event.get("tool_use_id") or f"{session_id}:{uuid.uuid4()}"),
                    tool=_text(event, "tool_name"),
                    args=storable(args) if isinstance(args, dict) else {"raw": str(args)},
                    output=storable(_output(event.get("tool_response"))),
                )
            case "PreCompact":
                transcript = await session.read(str(shown[-1]))
                await session.deactivate(transcript.object_id)
    return HookResult(event=name, session=session_id, context=context)


@asynccontextmanager
async def _open_session(client: Client, session_id: str) -> AsyncIterator[LiveSession]:
    try:
        session = await client.resume(session_id, eager=False)
    except NotFound:
        try:
            session = await client.start(session_id, system_prompt="")
        except Incorrect:  # another hook has started it meanwhile
            session = await client.resume(session_id, eager=False)
    yield session
    await client.pause(session_id)


def _transcript(event: Mapping[str, Any]) -> Path:
    path = Path(_text(event, "transcript_path"))
    if path.suffix != TRANSCRIPT_SUFFIX:
        raise Incorrect(f"a transcript is a {TRANSCRIPT_SUFFIX} file, not {str(path)!r:.200}")
    return path


def _mounts(paths: Sequence[Path]) -> list[dict[str, str]]:
    """Mount each path where the agent sees it, by name and without symbolic links."""
    names = {str(name): str(path.resolve()) for path in paths for name in (path, path.resolve())}
    return [{"agentPrefix": name, "canonicalPrefix": real} for name, real in names.items()]


def _object_list(session: LiveSession) -> str:
    """Return the pool lines of the newest objects, as many as fit."""
    lines = [mask(block.text).text for block in session.context().section(Section.POOL)]
    remaining, kept = CONTEXT_CHARACTERS_MAX, []
    for line in reversed(lines):
        remaining -= len(line)
        if remaining < 0:
            break
        kept.append(line)
    return OPENING + "".join(reversed(kept)) if kept else ""


def _output(response: object) -> str:
    """Return the text of a tool's response, or the whole response as JSON."""
    if isinstance(response, dict) and "stdout" in response:
        return "\n".join(str(response[name]) for name in ("stdout", "stderr") if response.get(name))
    return response if isinstance(response, str) else json.dumps(response, ensure_ascii=False)


def _text(event: Mapping[str, Any], name: str) -> str:
    value = event.get(name)
    if not isinstance(value, str) or not value:
        raise Incorrect(f"the field {name!r} of a hook's event is text, not {value!r:.80}")
    return value
