"""A recording becomes a session of a client, turn by turn, as if it had been run here.

Files are left alone: what they say today is not what the calls saw. Ids of tool calls are made of
session and turn (003-A20), so that one recording can be imported under several names.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ctxmgr.core.client import Client
from ctxmgr.core.documents import Document
from ctxmgr.core.infrastructure import AssistantMeta
from ctxmgr.core.live_session import LiveSession
from ctxmgr.core.parts import text_part
from ctxmgr.core.usage import to_value
from ctxmgr.messages.conversation import ToolCallIds, read_call, storable
from ctxmgr.messages.recorded import RecordedCall, RecordedTurn, Recording

NO_SYSTEM_PROMPT: Final = "[the system prompt was not recorded]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What an import made."""

    session_id: str
    format: str
    turns: int
    tool_calls: int


@dataclass(frozen=True, slots=True)
class _Part:
    document: Document
    call: RecordedCall | None


async def import_recording(client: Client, recording: Recording, *, session_id: str) -> Imported:
    """Store a recording as a session of this name, paused; ``Incorrect`` if there is one."""
    prompt = storable(recording.system_prompt) or NO_SYSTEM_PROMPT
    session = await client.start(session_id, system_prompt=prompt)
    made = 0
    for turn in recording.turns:
        made += await _import_turn(session, turn, api=recording.format)
    await client.pause(session_id)
    return Imported(
        session_id=session_id,
        format=recording.format,
        turns=len(recording.turns),
        tool_calls=made,
    )


async def _import_turn(session: LiveSession, turn: RecordedTurn, *, api: str) -> int:
    parts = tuple(_parts(turn, ToolCallIds(session.session_id, turn=session.turn, unique=False)))
    await session.render(storable(turn.user))
    ran = [part for part in parts if part.call is not None and part.call.output is not None]
    for part in ran:
        assert part.call is not None
        await session.record(
            part.document["toolcall_id"],
            tool=part.document["tool"],
            args=part.document["args"],
            output=storable(part.call.output),
            status="fail" if part.call.failed else "ok",
            discover=False,
        )
    meta = AssistantMeta(
        api=api,
        model=turn.model,
        usage=to_value(turn.usage) if turn.usage else None,
        timestamp=turn.timestamp,
    )
    await session.end_turn([part.document for part in parts], meta=meta)
    return len(ran)


def _parts(turn: RecordedTurn, ids: ToolCallIds) -> Iterator[_Part]:
    for said in turn.said:
        if isinstance(said, RecordedCall):
            args = storable(said.args)
            yield _Part(read_call(said.call_id, name=said.tool, args=args, ids=ids), said)
        else:
            yield _Part(text_part(storable(said)), None)
