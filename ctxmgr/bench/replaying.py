"""Recorded sessions replayed through a real client, call by call: what ``render`` gives each time.

Each session gets a store in memory of its own. No file is looked for: what a path means today is
not what the recorded calls saw.
"""

from collections.abc import AsyncIterator
from typing import Any, Final

from ctxmgr.app import connect
from ctxmgr.bench.recorded import RecordedCall, RecordedSession, RecordedTurn
from ctxmgr.core.collapse import Window
from ctxmgr.core.live_session import LiveSession
from ctxmgr.core.parts import text_part, toolcall_part
from ctxmgr.core.policies import Economy

NO_SYSTEM_PROMPT: Final = " "
"""A session has one; a blank one is not sent."""


async def replayed(
    recorded: RecordedSession,
    policy: Economy | None,
    *,
    form: str = "openai",
    window: Window | None = None,
) -> AsyncIterator[Any]:
    """Give the payload of every call, in the order of the session; no policy: the plain form."""
    folding = window or Window()
    async with connect("sqlite://:memory:", tracking=False, window=folding) as client:
        prompt = recorded.system_prompt or NO_SYSTEM_PROMPT
        session = await client.start("replayed", system_prompt=prompt)
        for number, turn in enumerate(recorded.turns, start=1):
            yield await session.render(turn.user, policy=policy, form=form)
            await _answer(session, turn, number)


async def _answer(session: LiveSession, turn: RecordedTurn, number: int) -> None:
    parts = []
    for at, said in enumerate(turn.said):
        if isinstance(said, str):
            parts.append(text_part(said))
            continue
        call_id = f"{number}.{at}"
        parts.append(toolcall_part(call_id, call_id=call_id, tool=said.tool, args=said.args))
        if said.output is not None:
            await _record(session, said, call_id)
    await session.end_turn(parts)


async def _record(session: LiveSession, call: RecordedCall, call_id: str) -> None:
    await session.record(
        call_id, tool=call.tool, args=call.args, output=call.output or "", discover=False
    )
