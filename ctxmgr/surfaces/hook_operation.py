"""``ctxmgr hook``: what a coding agent's hooks tell on standard input. Reads it to its end."""

import json
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ctxmgr.errors import Incorrect, Unavailable
from ctxmgr.surfaces.catalogue import STREAMED

if TYPE_CHECKING:
    from ctxmgr.app import App

EVENT_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of one event: as much as one document holds."""

SECONDS_MAX: Final = 50.0
"""For one event: less than the minute after which Claude Code ends a hook by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookReport:
    """What was heard. Claude Code has read the answer by itself."""

    event: str = field(metadata=STREAMED)
    session: str = field(metadata=STREAMED)
    note: str = field(metadata=STREAMED)


async def hook(app: "App") -> HookReport:
    """Take one event of Claude Code's hooks as JSON on standard input.

    SessionStart, PostToolUse and PreCompact are stored; others are ignored with a note. Whatever
    fails ends with 1, which Claude Code shows and does not stop for.
    """
    import asyncio

    from ctxmgr.integrations.claude_code import hear

    told = _event(await asyncio.to_thread(_read))
    try:
        async with asyncio.timeout(SECONDS_MAX):
            heard = await hear(await app.store(), told)
    except TimeoutError as error:
        raise Unavailable(f"the store gave no answer within {SECONDS_MAX} s") from error
    answer = heard.answer()
    if answer:
        app.write(json.dumps(answer, ensure_ascii=False) + "\n")
    return HookReport(event=heard.event, session=heard.session, note=heard.note)


def _read() -> bytes:
    if sys.stdin.isatty():
        raise Incorrect("a hook's event is read from standard input; a terminal gives none")
    return sys.stdin.buffer.read(EVENT_BYTES_MAX + 1)


def _event(data: bytes) -> dict[str, Any]:
    if len(data) > EVENT_BYTES_MAX:
        raise Incorrect(f"the event has more than {EVENT_BYTES_MAX} bytes")
    try:
        event = json.loads(data)
    except ValueError as error:
        raise Incorrect(f"standard input is no JSON ({error})") from error
    if not isinstance(event, dict):
        raise Incorrect(f"an event is a JSON object, not {event!r:.80}")
    return event
