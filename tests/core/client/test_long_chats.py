"""A turn costs what is new in it, however long its chat has become."""

import sys
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import ctxmgr
from ctxmgr.bench.core.built_session import Filler, SessionPlan, build_session
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.objects.codec import from_document
from ctxmgr.core.store.contract import Store, Version
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


class ReadCounter:
    """A real store that counts the objects that are read in batches."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.read = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get_many(self, object_ids: Iterable[str], **options: Any) -> dict[str, Version]:
        ids = list(object_ids)
        self.read += len(ids)
        return await self._store.get_many(ids, **options)


async def test_a_refresh_reads_the_sessions_own_objects_and_no_past_turns(tmp_path: Path) -> None:
    """003-R078: a client that shares a session asks before each turn whether others wrote to it.

    It read the record of every turn that it had ended itself: 60 ms at 1,000 turns.
    """
    async with await ctxmgr.open_store(f"sqlite:///{tmp_path}/s.db") as store:
        counter: Any = ReadCounter(store)
        async with ctxmgr.connect(store=counter, tracking=False) as client:
            session = await client.start("s", system_prompt="")
            for number in range(5):
                await session.end_turn(f"answer {number}", user="go on")
            counter.read = 0

            refreshed = await session.refresh()

        async with ctxmgr.connect(store=store, tracking=False) as other:
            await (await other.resume("s")).end_turn("theirs", user="mine")
        async with ctxmgr.connect(store=store, tracking=False) as client:
            assert (await client.resume("s")).turn == 7

    assert not refreshed
    assert counter.read == 3, "chat, session and system prompt"


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
