"""``XDB``, the door of the experience layer."""

import re
from pathlib import Path

import pytest

from ctxmgr.errors import Incorrect
from ctxmgr.experience.records.kinds import EventType
from ctxmgr.experience.xdb import XDB


async def test_recording_needs_a_session(tmp_path: Path) -> None:
    """000-A15: `ts-None-1` would be found by nobody."""
    async with XDB(tmp_path, "be-1") as xdb:
        with pytest.raises(Incorrect, match="start_session"):
            await xdb.record(EventType.INPUT, "hello")


async def test_record_counts_ticks_and_returns_the_id(tmp_path: Path) -> None:
    """000-R152, 000-R153, 000-R154, 000-R220: a known session continues, a new one begins at 1."""
    async with XDB(tmp_path, "be-1") as xdb:
        await xdb.start_session("a")
        assert (xdb.session_id, xdb.current_tick) == ("a", 0)
        first = await xdb.record(EventType.INPUT, "hello", role="user")
        second = await xdb.record(EventType.OUTPUT, "hi", {"Greeting": 0.75}, token_id=9)
        assert (first, second, xdb.current_tick) == ("ts-a-1", "ts-a-2", 2)
        await xdb.end_session()
        assert (xdb.session_id, xdb.current_tick) == (None, 0)

    async with XDB(tmp_path, "be-1") as xdb:
        await xdb.start_session("b")
        assert await xdb.record(EventType.INPUT, "x") == "ts-b-1"
        await xdb.start_session("a")
        assert await xdb.record(EventType.INPUT, "x") == "ts-a-3"


async def test_recall_is_about_the_current_session(tmp_path: Path) -> None:
    """000-R161, 000-R162, 000-A07: concepts have at least 0.5, all filters hold."""
    async with XDB(tmp_path, "be-1") as xdb:
        await xdb.start_session("a")
        await xdb.record(EventType.OUTPUT, "low", {"c": 0.4})
        await xdb.record(EventType.OUTPUT, "high", {"c": 0.6})
        await xdb.start_session("b")
        await xdb.record(EventType.OUTPUT, "other", {"c": 0.9, "d": 0.5})

        assert [each.content for each in await xdb.recall()] == ["other"]
        assert [each.content for each in await xdb.recall(session_id="a", concepts=["c"])] == [
            "high"
        ]
        assert await xdb.recall(concepts=["c", "d"], text_search="absent") == []
        assert [each.content for each in await xdb.recall_by_concept("c")] == ["other", "high"]
        assert [each.content for each in await xdb.recall_by_concept("c", 0.4, limit=3)] == [
            *("other", "high", "low")
        ]


async def test_a_comment_has_exactly_one_target(tmp_path: Path) -> None:
    """000-R164, 000-A11, 000-R125: of a timestep, an event or a range."""
    async with XDB(tmp_path, "be-1") as xdb:
        await xdb.start_session("a")
        for number in range(6):
            await xdb.record(EventType.OUTPUT, "x", event_id=f"e{number // 3}")
        on_step = await xdb.comment("step", timestep_id="ts-a-1")
        on_event = await xdb.comment("event", event_id="e1")
        on_range = await xdb.comment("range", tick_range=(2, 3))

        assert re.fullmatch(r"comment-[0-9a-f]{12}", on_step)
        for targets in ({}, {"timestep_id": "ts-a-1", "event_id": "e1"}):
            with pytest.raises(ValueError, match="exactly one"):
                await xdb.comment("?", **targets)  # type: ignore[arg-type]
        log = xdb.experience_log
        found = {
            bounds: {each.id for each in await log.get_comments_for_range("a", *bounds)}
            for bounds in ((1, 1), (3, 4), (5, 9), (7, 9))
        }
        assert found == {
            (1, 1): {on_step},
            (3, 4): {on_event, on_range},
            (5, 9): {on_event},
            (7, 9): set(),
        }


async def test_nothing_leads_to_the_audit_log(tmp_path: Path) -> None:
    """000-R174: no attribute of the door is about it."""
    async with XDB(tmp_path, "be-1") as xdb:
        assert not [name for name in dir(xdb) if "audit" in name]


async def test_the_state_names_agent_session_and_tick(tmp_path: Path) -> None:
    """000-R173: what a person asks first."""
    async with XDB(tmp_path, "be-1") as xdb:
        await xdb.start_session("a")
        await xdb.record(EventType.INPUT, "x")
        state = await xdb.get_state()

        assert (state["be_id"], state["session_id"], state["current_tick"]) == ("be-1", "a", 1)
