"""Imports a recording as a session of a client, turn by turn. Commits.

Files are not read: their content today is not what the recorded calls saw. Ids of tool calls are
made from session and turn (003-A20), so that a recording can be imported more than once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ctxmgr.core.client.client import Client
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.model import to_value
from ctxmgr.core.objects.answers import text_part
from ctxmgr.core.objects.chat import AssistantMeta
from ctxmgr.core.store.documents import Document, storable
from ctxmgr.messages.answers import ToolCallIds, read_call
from ctxmgr.recordings.recorder import RecordedCall, RecordedTurn, Recording

NO_SYSTEM_PROMPT: Final = "[the system prompt was not recorded]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRecording:
    """The result of an import."""

    session_id: str
    format: str
    turns: int
    tool_calls: int


@dataclass(frozen=True, slots=True)
class _Part:
    document: Document
    call: RecordedCall | None


async def import_recording(
    client: Client,
    recording: Recording,
    *,
    session_id: str,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> ImportedRecording:
    """Store a recording as a paused session; ``Incorrect`` if the session exists."""
    prompt = storable(recording.system_prompt) or NO_SYSTEM_PROMPT
    session = await client.start(session_id, system_prompt=prompt)
    tool_calls = 0
    for number, turn in enumerate(recording.turns, start=1):
        progress(number, len(recording.turns))
        tool_calls += await _import_turn(session, turn, api=recording.format)
    await client.pause(session_id)
    return ImportedRecording(
        session_id=session_id,
        format=recording.format,
        turns=len(recording.turns),
        tool_calls=tool_calls,
    )


async def _import_turn(session: LiveSession, turn: RecordedTurn, *, api: str) -> int:
    ids = ToolCallIds(session.session_id, turn=session.turn, unique=False)
    parts: list[_Part] = []
    for recorded_part in turn.parts:
        if isinstance(recorded_part, RecordedCall):
            args = storable(recorded_part.args)
            document = read_call(recorded_part.call_id, name=recorded_part.tool, args=args, ids=ids)
            parts.append(_Part(document, recorded_part))
        else:
            parts.append(_Part(text_part(storable(recorded_part)), None))
    await session.render(storable(turn.user))
    recorded = 0
    for part in parts:
        if part.call is None or part.call.output is None:
            continue
        await session.record(
            part.document["toolcall_id"],
            tool=part.document["tool"],
            args=part.document["args"],
            output=storable(part.call.output),
            status="fail" if part.call.failed else "ok",
            discover=False,
        )
        recorded += 1
    meta = AssistantMeta(
        api=api,
        model=turn.model,
        usage=to_value(turn.usage) if turn.usage else None,
        timestamp=turn.timestamp,
    )
    await session.end_turn([part.document for part in parts], meta=meta)
    return recorded
