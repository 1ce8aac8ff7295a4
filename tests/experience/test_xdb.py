"""``XDB``, the door of the experience layer."""

import asyncio
import re
from pathlib import Path

import pytest

from ctxmgr import CompactionTrigger
from ctxmgr.errors import Incorrect, Unavailable
from ctxmgr.experience.hooks import WorkspaceHooks
from ctxmgr.experience.lenses.lens import LensPolicy
from ctxmgr.experience.records.kinds import BudStatus, EventType, Fidelity
from ctxmgr.experience.windows.lifecycle_contract import (
    ContractResources,
    LifecycleContract,
    MemoryLimits,
)
from ctxmgr.experience.windows.time_windows import Ticks
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
    """000-R123, 000-R164, 000-A11, 000-R125: of a timestep, an event or a range."""
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


async def test_a_tag_is_found_by_id_then_by_name_or_made(tmp_path: Path) -> None:
    """000-R003, 000-R155, 000-R156, 000-R158, 000-A10: `auth` is not `author`."""
    async with XDB(tmp_path, "be-1") as xdb:
        await xdb.start_session("a")
        step = await xdb.record(EventType.OUTPUT, "x")
        author = await xdb.create_entity_tag("author", "person")
        first = await xdb.tag("auth", timestep_id=step, note="why")
        await xdb.tag("AUTHOR", timestep_id=step, confidence=0.5)
        await xdb.tag(author.id, timestep_id=step)

        tags = await xdb.experience_log.get_tags_for_timestep(step)
        assert re.fullmatch(r"ta-[0-9a-f]{12}", first)
        assert [(tag.name, str(tag.tag_type)) for tag in tags] == [
            ("auth", "custom"),
            ("author", "entity"),
        ]
        state = await xdb.get_state()
        assert (state["tag_count"], state["bud_count"]) == (2, 0)


async def test_a_tag_needs_exactly_one_target(tmp_path: Path) -> None:
    """000-R157, 000-A11: none and several are refused."""
    async with XDB(tmp_path, "be-1") as xdb:
        await xdb.start_session("a")
        for targets in ({}, {"event_id": "e", "tick_range": (1, 2)}):
            with pytest.raises(ValueError, match="exactly one"):
                await xdb.tag("x", **targets)  # type: ignore[arg-type]


@pytest.mark.parametrize("folded", [False, True])
async def test_tags_on_events_and_ranges_count(folded: bool, tmp_path: Path) -> None:  # noqa: FBT001
    """PG-12, 000-A08, 000-A09, 000-R119, 000-R124, 000-R163: for recall, timesteps and buds."""
    async with XDB(tmp_path, "be-1") as xdb:
        await xdb.start_session("a")
        for number in range(12):
            await xdb.record(EventType.OUTPUT, "x", event_id=f"e{number // 3}")
        bud = await xdb.create_bud_tag("odd", "something odd", ["c1"])
        await xdb.tag("odd", event_id="e1")
        await xdb.tag("odd", timestep_id="ts-a-1")
        await xdb.tag("surprising", tick_range=(6, 8))
        if folded:
            await xdb.experience_log.fold()

        odd = [each.tick for each in await xdb.recall(tags=["odd"])]
        either = [each.tick for each in await xdb.recall(tags=["odd", "surprising", "none"])]
        both = await xdb.experience_log.query(
            tags_all=[bud.id, (await xdb.tag_index.find_tags(name_pattern="surprising"))[0].id]
        )
        assert odd == [each.tick for each in await xdb.get_bud_examples(bud.id)] == [1, 4, 5, 6]
        assert either == [1, 4, 5, 6, 7, 8]
        assert [each.tick for each in both] == [6]
        assert [each.tick for each in await xdb.recall_surprising()] == [6, 7, 8]
        assert await xdb.recall(tags=["none"]) == []
        names = [tag.name for tag in await xdb.experience_log.get_tags_for_timestep("ts-a-6")]
        assert names == ["odd", "surprising"]


async def test_buds_become_ready(tmp_path: Path) -> None:
    """000-R007, 000-R038, 000-R160, 000-R167, 000-R169, 000-A12: with their related concepts."""
    async with XDB(tmp_path, "be-1") as xdb:
        bud = await xdb.create_bud_tag("odd", "something odd", ["c1"])
        assert (bud.bud_status, bud.related_concepts) == ("collecting", ("c1",))

        await xdb.mark_bud_ready(bud.id)

        assert [each.id for each in await xdb.get_buds(BudStatus.READY)] == [bud.id]
        assert await xdb.get_buds(BudStatus.COLLECTING) == []


async def test_a_full_context_is_compacted_and_its_oldest_half_expires(tmp_path: Path) -> None:
    """000-R154, 000-R061, 000-R069, 000-R144: what was retained stays token by token."""
    async with XDB(tmp_path, "be-1") as xdb:
        await xdb.start_session("a", max_context_tokens=1_000)
        for number in range(4):
            await xdb.record(EventType.INPUT, f"message {number}", token_count=100)
        await xdb.windows.retain("a", Ticks(2, 2))
        for number in range(4, 8):
            await xdb.record(EventType.INPUT, f"message {number}", token_count=100)

        state = xdb.get_context_state()
        assert state["current_tokens"] < 800
        assert (state["max_tokens"], state["session_id"], state["current_tick"]) == (1_000, "a", 8)
        left = [step.tick for step in await xdb.recall()]
        assert (left[0], left[-1]) == (2, 8)
        assert 1 not in left
        windows = {window.ticks: window.fidelity for window in await xdb.windows.windows("a")}
        assert windows[Ticks(1, 1)] is Fidelity.COLD
        assert windows[Ticks(2, 2)] is Fidelity.WARM
        [reply] = await xdb.windows.lineage("ts-a-1")
        assert reply.summary == "message 0"


async def test_a_compaction_can_be_requested(tmp_path: Path) -> None:
    """000-R172, 000-A17, 000-R171, 000-R173: without a session there is none."""
    async with XDB(tmp_path, "be-1") as xdb:
        assert await xdb.request_compaction() is None
        assert "no session" in xdb.get_context_state()["error"]
        await xdb.start_session("a")
        for number in range(4):
            await xdb.record(EventType.INPUT, f"message {number}", token_count=100)

        record = await xdb.request_compaction()

        assert record is not None
        assert (record.trigger, record.range_start) == (CompactionTrigger.MANUAL, 1)
        context = (await xdb.get_state())["context"]
        assert context["max_tokens"] == 8_192
        assert context["current_tokens"] == record.tokens_after
        await xdb.end_session()
        assert xdb.context_manager is None


async def test_the_context_has_the_size_of_the_contract(tmp_path: Path) -> None:
    """000-R212: unless the session is started with another one."""
    memory = MemoryLimits(context_window_tokens=32_768)
    contract = LifecycleContract(resources=ContractResources(memory=memory))
    async with XDB(tmp_path, "be-1", contract=contract) as xdb:
        await xdb.start_session("a")
        assert xdb.get_context_state()["max_tokens"] == 32_768
        await xdb.start_session("a", 500)
        assert xdb.get_context_state()["max_tokens"] == 500


async def test_a_continued_session_has_its_context(tmp_path: Path) -> None:
    """000-A15, 000-A16: the next compaction covers what was recorded before the restart."""
    async with XDB(tmp_path, "be-1") as xdb:
        await xdb.start_session("a", 1_000)
        for number in range(5):
            await xdb.record(EventType.INPUT, f"early {number} " + "word " * 98, token_count=100)
    async with XDB(tmp_path, "be-1") as xdb:
        await xdb.start_session("a", 1_000)
        assert xdb.get_context_state()["current_tokens"] == 500
        for number in range(4):
            await xdb.record(EventType.INPUT, f"late {number}", token_count=100)

        assert xdb.context_manager is not None
        assert "early" in xdb.context_manager.summary
        summary, tokens = xdb.context_manager.summary, xdb.get_context_state()["current_tokens"]
    async with XDB(tmp_path, "be-1") as xdb:
        await xdb.start_session("a", 1_000)
        assert xdb.context_manager is not None
        assert xdb.context_manager.summary == summary
        assert xdb.get_context_state()["current_tokens"] < tokens


async def test_the_log_has_no_score_that_the_agent_may_not_see(tmp_path: Path) -> None:
    """000-R112, 000-A28: whoever gives the scores, recorded at once or streamed."""
    policy = LensPolicy(hidden=frozenset({"secret/*"}))
    scores = {"secret/deception": 0.9, "open": 0.4}
    async with XDB(tmp_path, "be-1", lens_policy=policy) as xdb:
        await xdb.start_session("a")
        await xdb.record(EventType.OUTPUT, "one", scores)
        WorkspaceHooks(xdb).on_output_token("two", concept_activations=scores)
        await xdb.flush()

        assert [dict(step.concept_activations) for step in await xdb.recall()] == [
            {"open": 0.4}
        ] * 2
        assert await xdb.recall_by_concept("secret/deception") == []


async def test_what_is_streamed_counts_in_the_context(tmp_path: Path) -> None:
    """000-R176, 000-R175, 000-R143: the words of an input, and each token; also of tool calls."""
    async with XDB(tmp_path, "be-1") as xdb:
        await xdb.start_session("a")
        hooks = WorkspaceHooks(xdb)
        hooks.on_input("How many files are here?", turn=1)
        for token in ("Two", " files", "."):
            hooks.on_output_token(token, turn=1)
        await xdb.flush()

        state = xdb.get_context_state()
        assert (state["current_tokens"], state["current_tick"]) == (5 + 3, 4)
        await xdb.record(EventType.INPUT, "Thanks.", token_count=1)
        assert xdb.get_context_state()["current_tokens"] == 9
    async with XDB(tmp_path, "be-1") as xdb:
        await xdb.start_session("a")
        assert xdb.get_context_state()["current_tokens"] == 9


async def test_a_requested_compaction_loses_no_tokens(tmp_path: Path) -> None:
    """000-R176: what is recorded meanwhile is counted when it is done."""
    async with XDB(tmp_path, "be-1") as xdb:
        await xdb.start_session("a", max_context_tokens=1_000_000)
        for number in range(10):
            await xdb.record(EventType.INPUT, f"note {number}", token_count=1_000)

        await asyncio.gather(
            xdb.request_compaction(),
            *(xdb.record(EventType.INPUT, f"more {n}", token_count=1_000) for n in range(20)),
        )

        assert xdb.get_context_state()["current_tokens"] >= 20_000


async def test_a_compaction_that_fails_drops_no_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """000-R176: the steps after it are counted all the same."""
    async with XDB(tmp_path, "be-1") as xdb:
        await xdb.start_session("a", max_context_tokens=1_000)
        assert xdb.context_manager is not None

        async def fail(*_: object) -> None:
            raise Unavailable("no room")

        monkeypatch.setattr(xdb.context_manager, "_compact", fail)
        hooks = WorkspaceHooks(xdb)
        for number in range(60):
            hooks.on_output_token(f" t{number} and thirty more words" * 6, turn=1)
        await xdb.flush()

        assert xdb.get_context_state()["current_tick"] == 60


async def test_streams_and_records_at_once_are_counted_exactly_once(tmp_path: Path) -> None:
    """000-R176, PG-13: ranges of compactions follow each other, whatever is counted first."""
    async with XDB(tmp_path, "be-1") as xdb:
        await xdb.start_session("a", max_context_tokens=100)
        hooks = WorkspaceHooks(xdb)

        async def stream(turn: int) -> None:
            for number in range(20):
                hooks.on_output_token(f" t{number}", turn=turn)
            await xdb.flush()

        async def record(number: int) -> None:
            await xdb.record(EventType.INPUT, f"note {number}", token_count=2)

        for turn in range(5):
            await asyncio.gather(stream(turn), *(record(number) for number in range(10)))

        result = await xdb.experience_log.sql(
            "SELECT range_start, range_end FROM compactions ORDER BY range_end"
        )
        ends = [0, *(end for _, end in result.rows)]
        assert len(result.rows) >= 2
        assert all(start > before for (start, _), before in zip(result.rows, ends, strict=False))
        state = xdb.get_context_state()
        assert state["current_tokens"] < 80
        assert state["current_tick"] == 150
    async with XDB(tmp_path, "be-1") as xdb:
        await xdb.start_session("a", max_context_tokens=100)
        assert xdb.get_context_state()["current_tokens"] == state["current_tokens"]


async def test_an_answer_that_a_compaction_divided_expires_with_the_next(tmp_path: Path) -> None:
    """000-R061, 000-R069: its first half left the context before it had ended."""
    async with XDB(tmp_path, "be-1") as xdb:
        await xdb.start_session("a", max_context_tokens=2_000)
        for number in range(120):
            await xdb.record(
                EventType.OUTPUT,
                f" t{number}",
                event_id="answer-1",
                event_end=number == 119,
                token_count=20,
            )
        assert [step.tick for step in await xdb.recall(limit=1)] == [1]
        for number in range(100):
            await xdb.record(EventType.INPUT, f"then {number}", token_count=20)

        assert (await xdb.recall(limit=1))[0].tick > 120
        [reply, *_] = await xdb.windows.lineage("ts-a-1")
        assert reply.token_count == 120
