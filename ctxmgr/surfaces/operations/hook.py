"""``ctxmgr hook``: store an event of a coding agent's hooks. Reads standard input to its end."""

import json
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ctxmgr.errors import Incorrect, Unavailable
from ctxmgr.surfaces.operation import STREAMED

if TYPE_CHECKING:
    from ctxmgr.app import App


EVENT_BYTES_MAX: Final = 16 * 1024 * 1024
"""Size of one event: the limit of one document."""

SECONDS_MAX: Final = 50.0
"""Time for one event: less than the 60 s after which Claude Code ends a hook by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookReport:
    """What was stored. The answer to Claude Code is written separately."""

    event: str = field(metadata=STREAMED)
    session: str = field(metadata=STREAMED)
    note: str = field(metadata=STREAMED)


async def hook(app: "App") -> HookReport:
    """Store one event of Claude Code's hooks, read as JSON from standard input.

    SessionStart, PostToolUse and PreCompact are stored; others are ignored with a note. Every
    failure exits with 1, which Claude Code shows without stopping.
    """
    import asyncio

    from ctxmgr.integrations.claude_code import handle_event

    event = _event(await asyncio.to_thread(_read))
    try:
        async with asyncio.timeout(SECONDS_MAX):
            outcome = await handle_event(await app.store(), event)
    except TimeoutError as error:
        raise Unavailable(f"the store did not answer within {SECONDS_MAX} s") from error
    answer = outcome.answer()
    if answer:
        app.write(json.dumps(answer, ensure_ascii=False) + "\n")
    return HookReport(event=outcome.event, session=outcome.session, note=outcome.note)


def _read() -> bytes:
    if sys.stdin.isatty():
        raise Incorrect("the event is read from standard input, which is a terminal")
    return sys.stdin.buffer.read(EVENT_BYTES_MAX + 1)


def _event(data: bytes) -> dict[str, Any]:
    if len(data) > EVENT_BYTES_MAX:
        raise Incorrect(f"the event has more than {EVENT_BYTES_MAX} bytes")
    try:
        event = json.loads(data)
    except ValueError as error:
        raise Incorrect(f"standard input is not valid JSON: {error}") from error
    if not isinstance(event, dict):
        raise Incorrect(f"an event must be a JSON object, not {event!r:.80}")
    return event
