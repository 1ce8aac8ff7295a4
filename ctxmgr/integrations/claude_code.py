"""What hooks of Claude Code tell, stored as a session. Commits.

    SessionStart   the session is started, or gone on with: then its objects are named to the model
    PostToolUse    the tool call is recorded, with the files it read, wrote or named
    PreCompact     the transcript is kept as a version of its file, as it was before it is shortened

Each hook is a process of its own, and several may run at once.
"""

import json
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from ctxmgr import Incorrect, NotFound, Store, connect
from ctxmgr.core.assembly import Section
from ctxmgr.core.client import Client
from ctxmgr.core.live_session import LiveSession
from ctxmgr.messages.conversation import storable

EVENTS: Final = frozenset({"SessionStart", "PostToolUse", "PreCompact"})

CONTEXT_CHARACTERS_MAX: Final = 8_000
"""Claude Code takes 10,000 from a hook; the newest lines are the ones that are kept."""

OPENING: Final = "ctxmgr keeps what this session has seen; `ctxmgr get ID` shows it in full:\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What came of one event."""

    event: str
    session: str
    context: str = ""
    """For the model."""
    note: str = ""
    """For the person."""

    def answer(self) -> dict[str, Any]:
        """Return it as Claude Code reads it; empty: there is nothing to say."""
        told: dict[str, Any] = {"systemMessage": self.note} if self.note else {}
        if self.context:
            specific = {"hookEventName": self.event, "additionalContext": self.context}
            told["hookSpecificOutput"] = specific
        return told


async def hear(store: Store, told: Mapping[str, Any]) -> Heard:
    """Take one event; ``Incorrect`` if it is none. Events that are not known change nothing."""
    event, session_id = _text(told, "hook_event_name"), _text(told, "session_id")
    if event not in EVENTS:
        note = f"ctxmgr does not use the event {event:.80}; nothing was stored"
        return Heard(event=event, session=session_id, note=note)
    context = ""
    async with (
        connect(store=store, directory=_text(told, "cwd"), tracking=False) as client,
        _opened(client, session_id) as session,
    ):
        match event:
            case "SessionStart":
                context = _known(session)
            case "PostToolUse":
                await _record(session, told)
            case "PreCompact":
                transcript = await session.read(_text(told, "transcript_path"))
                await session.deactivate(transcript.object_id)
    return Heard(event=event, session=session_id, context=context)


@asynccontextmanager
async def _opened(client: Client, session_id: str) -> AsyncIterator[LiveSession]:
    try:
        session = await client.resume(session_id, eager=False)
    except NotFound:
        try:
            session = await client.start(session_id, system_prompt="")
        except Incorrect:  # another hook was first
            session = await client.resume(session_id, eager=False)
    yield session
    await client.pause(session_id)


async def _record(session: LiveSession, told: Mapping[str, Any]) -> None:
    args = told.get("tool_input")
    await session.record(
        str(told.get("tool_use_id") or f"{session.session_id}:{uuid.uuid4()}"),
        tool=_text(told, "tool_name"),
        args=storable(args) if isinstance(args, dict) else {"raw": str(args)},
        output=storable(_output(told.get("tool_response"))),
    )


def _known(session: LiveSession) -> str:
    lines = [block.text for block in session.context().section(Section.POOL)]
    left, kept = CONTEXT_CHARACTERS_MAX, []
    for line in reversed(lines):
        left -= len(line)
        if left < 0:
            break
        kept.append(line)
    return OPENING + "".join(reversed(kept)) if kept else ""


def _output(response: object) -> str:
    """Return what the tool gave: its text where there is one, and otherwise all of it as JSON."""
    if isinstance(response, dict) and "stdout" in response:
        return "\n".join(str(response[name]) for name in ("stdout", "stderr") if response.get(name))
    return response if isinstance(response, str) else json.dumps(response, ensure_ascii=False)


def _text(told: Mapping[str, Any], name: str) -> str:
    if not isinstance(told.get(name), str) or not told[name]:
        raise Incorrect(f"a hook's event needs {name!r}, a text; got {told.get(name)!r:.80}")
    return str(told[name])
