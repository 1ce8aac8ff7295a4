"""``ctxmgr hook``: take an event of a coding agent's hooks. Reads standard input to its end.

``integrations.agents.hook_process`` does the same in less time for events that need no answer; this
is for the others, and for callers that it does not know.
"""

import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from ctxmgr.errors import Incorrect, Unavailable
from ctxmgr.surfaces.operation import STREAMED, Param

if TYPE_CHECKING:
    from ctxmgr.app import App
    from ctxmgr.integrations.agents.events import AgentEvent

SECONDS_MAX: Final = 50.0
"""Time for one event: less than the 60 s after which Claude Code ends a hook by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookReport:
    """What was stored. The answer to the client is written separately."""

    event: str = field(metadata=STREAMED)
    session: str = field(metadata=STREAMED)
    note: str = field(metadata=STREAMED)


async def hook(
    app: "App",
    *,
    drain: Annotated[
        bool, Param("Store the events that wait, and those of the next 20 s; read none.")
    ] = False,
) -> HookReport:
    """Take an event of Claude Code's, Codex's or Gemini CLI's hooks.

    The event is read as JSON from standard input, and kept in a file until it is stored: by a
    process that the hook starts, or by the next command that opens the store. Prompts, tool calls,
    failures, answers and compactions are stored; other events are ignored with a note. Files are
    read only in the project's folder. Every failure exits with 1, which clients show without
    stopping. `ctxmgr setup` registers the hooks.
    """
    import asyncio

    from ctxmgr.surfaces.spooled_events import keep_storing, store_events

    if drain:
        await keep_storing(app)
        return HookReport(event="", session="", note="")
    event, note = _spool(app, await asyncio.to_thread(_read))
    context = ""
    if not note:
        try:
            async with asyncio.timeout(SECONDS_MAX):
                refused = (await store_events(app)).refused
                if refused:
                    raise Incorrect(refused[0])
                context = await _context(app, event)
        except TimeoutError as error:
            raise Unavailable(f"the store did not answer within {SECONDS_MAX} s") from error
    answer: dict[str, Any] = {"systemMessage": note} if note else {}
    if context:
        specific = {"hookEventName": event.name, "additionalContext": context}
        answer["hookSpecificOutput"] = specific
    if answer:
        app.write(json.dumps(answer, ensure_ascii=False) + "\n")
    return HookReport(event=event.name, session=event.session, note=note)


async def _context(app: "App", event: "AgentEvent") -> str:
    """Return what the model is told."""
    from ctxmgr.integrations.agents.hook_process import ANSWERED
    from ctxmgr.surfaces.operations.agents.briefing import briefing
    from ctxmgr.surfaces.spooled_events import project_of

    if event.name not in ANSWERED:
        return ""
    source = str(event.fields.get("source", ""))
    return await briefing(app, event.session, source=source, project=project_of(app, event))


def _spool(app: "App", data: bytes) -> "tuple[AgentEvent, str]":
    """Check and keep an event; return it, and what the user is to know."""
    from ctxmgr.integrations.agents.events import AgentEvent
    from ctxmgr.integrations.agents.hook_process import STORED, received, unused
    from ctxmgr.integrations.agents.spool import SpoolError, append, spool_folder
    from ctxmgr.settings import state_dir

    spooled = received(data, os.environ)
    event = AgentEvent.read(spooled)
    if event.fields["hook_event_name"] not in STORED:
        return event, unused(event.name)
    url, base = app.loaded.settings.store, str(Path.cwd())
    try:
        append(spool_folder(str(state_dir()), url, base=base), spooled, url=url, base=base)
    except SpoolError as error:
        raise Unavailable(f"the event is not kept: {error}") from error
    return event, ""


def _read() -> bytes:
    from ctxmgr.integrations.agents.spool import EVENT_BYTES_MAX

    if sys.stdin.isatty():
        raise Incorrect("the event is read from standard input, which is a terminal")
    return sys.stdin.buffer.read(EVENT_BYTES_MAX + 1)
