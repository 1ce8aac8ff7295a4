"""``ctxmgr hook``: store an event of a coding agent's hooks. Reads standard input to its end."""

import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ctxmgr.errors import Incorrect, Unavailable
from ctxmgr.surfaces.operation import STREAMED

if TYPE_CHECKING:
    from ctxmgr.app import App


EVENT_BYTES_MAX: Final = 16 * 1024 * 1024
"""Size of one event: the limit of one document."""

SECONDS_MAX: Final = 50.0
"""Time for one event: less than the 60 s after which Claude Code ends a hook by default."""

PROJECT_VARIABLE: Final = "CLAUDE_PROJECT_DIR"
"""Set by Claude Code for its hooks: the folder in which the person started it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookReport:
    """What was stored. The answer to Claude Code is written separately."""

    event: str = field(metadata=STREAMED)
    session: str = field(metadata=STREAMED)
    note: str = field(metadata=STREAMED)


async def hook(app: "App") -> HookReport:
    """Handle a Claude Code hook event.

    The event is read as JSON from standard input. SessionStart, PostToolUse and PreCompact are
    stored; others are ignored with a note. Files are read only in the project's folder. Every
    failure exits with 1, which Claude Code shows without stopping.
    """
    import asyncio

    from ctxmgr.integrations.claude_code import handle_event

    event = parse_event(await asyncio.to_thread(_read))
    try:
        async with asyncio.timeout(SECONDS_MAX):
            store = await app.store()
            outcome = await handle_event(
                store, event, project=_project(app, event), audit=app.audit_folder()
            )
    except TimeoutError as error:
        raise Unavailable(f"the store did not answer within {SECONDS_MAX} s") from error
    answer = outcome.answer()
    if answer:
        app.write(json.dumps(answer, ensure_ascii=False) + "\n")
    return HookReport(event=outcome.event, session=outcome.session, note=outcome.note)


def _project(app: "App", event: dict[str, Any]) -> Path:
    """Return the project's folder: Claude Code's, or that of the session's first event.

    Later events do not count: their ``cwd`` is wherever the agent has changed to.
    """
    from ctxmgr.surfaces.local_state import folder_of, remember_folder

    session, cwd = event.get("session_id"), event.get("cwd")
    if not isinstance(session, str) or not isinstance(cwd, str):
        raise Incorrect("an event must have the texts session_id and cwd")
    given = os.environ.get(PROJECT_VARIABLE)
    known = None if given else folder_of(app, session)
    if known is not None:
        return Path(known.folder)
    folder = Path(given or cwd)
    try:
        text = os.fsencode(folder).decode()
    except UnicodeError as error:
        raise Incorrect(f"the project's folder {str(folder)!r:.200} is not valid UTF-8") from error
    if not folder.is_absolute() or "\0" in text:
        raise Incorrect(f"the project's folder must be an absolute path, not {str(folder)!r:.200}")
    return remember_folder(app, session, folder=folder)


def _read() -> bytes:
    if sys.stdin.isatty():
        raise Incorrect("the event is read from standard input, which is a terminal")
    return sys.stdin.buffer.read(EVENT_BYTES_MAX + 1)


def parse_event(data: bytes) -> dict[str, Any]:
    """Read an event; ``Incorrect`` if it is too large, or not a JSON object."""
    if len(data) > EVENT_BYTES_MAX:
        raise Incorrect(f"the event has more than {EVENT_BYTES_MAX} bytes")
    try:
        event = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Incorrect(f"standard input is not valid JSON: {error}") from error
    if not isinstance(event, dict):
        raise Incorrect(f"an event must be a JSON object, not {event!r:.80}")
    return event
