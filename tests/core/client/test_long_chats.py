"""A turn costs what is new in it, however long its chat has become."""

import sys
from pathlib import Path
from types import FrameType

import pytest

import ctxmgr
from ctxmgr.bench.core.built_session import Filler, SessionPlan, build_session
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.objects.codec import from_document
from ctxmgr.core.store.transactions import LONG_LIST_MIN

SHORT, LONG = 2 * LONG_LIST_MIN, 20 * LONG_LIST_MIN


@pytest.mark.parametrize("policy", [None, ctxmgr.Economy(window_tokens=10_000_000)])
async def test_a_turn_of_a_long_chat_runs_no_more_code_than_one_of_a_short_chat(
    tmp_path: Path, policy: ctxmgr.Economy | None
) -> None:
    """003-R078: an agent that works for days must not become slower with every turn.

    Function calls are counted instead of time, which depends on the machine.
    """
    calls: dict[int, int] = {}
    async with ctxmgr.connect(f"sqlite:///{tmp_path}/s.db", tracking=False) as client:
        for turns in (SHORT, LONG):
            plan = SessionPlan(session_id=f"s{turns}", calls=turns, active=5)
            await build_session(client.store, plan)
            session, filler = await client.resume(plan.session_id), Filler("turns")
            for number in range(3):
                await session.render(filler.text(50), policy=policy)
                await session.record(f"new-{turns}-{number}", tool="t", args={}, output="out")
                calls[turns] = await _counted(session, filler.text(50))

        stored = await client.store.get(session.chat.object_id)

    assert calls[LONG] < 1.2 * calls[SHORT]
    assert stored is not None
    assert from_document(stored.document) == session.chat


async def _counted(session: LiveSession, answer: str) -> int:
    """End a turn and return how many Python functions were called on the event loop."""
    count = 0

    def tick(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(tick)
    try:
        await session.end_turn(answer)
    finally:
        sys.setprofile(before)
    return count
