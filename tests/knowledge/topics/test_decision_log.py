"""The log of decisions, in the core store."""

from dataclasses import replace

import pytest

from ctxmgr import Put, Store
from ctxmgr.errors import Corrupt
from ctxmgr.knowledge.topics.decision_log import DecisionLog
from ctxmgr.knowledge.topics.gate import message_hash
from ctxmgr.knowledge.topics.gate_decision import GateDecision, GateResult
from ctxmgr.knowledge.topics.watcher_pipeline import WatcherPipeline
from tests.knowledge.topics.topic_notes import make_topic

DECISION = GateDecision(
    timestamp=1_000,
    message_hash="h",
    topic_name="deployment",
    tier1_matched=True,
    tier2_score=0.25,
    gate_result=GateResult.NO,
    direction="input",
    decider="rule",
    triggers=("pattern deploy",),
    session_id="s1",
)


async def test_every_decision_is_logged_with_its_fields(store: Store) -> None:
    """Rows: 002-R118, 002-R125, 002-R126."""
    log = DecisionLog(store)
    topics = [
        make_topic("deployment", match="deploy", priority="critical"),
        make_topic("invoices", match="deploy"),
    ]
    pipeline = WatcherPipeline(topics, log=log, now=lambda: 5_000)

    (activation,) = await pipeline.process("Deploy it!", "input", session_id="s1")

    logged = {each.topic_name: each for each in await log.newest(limit=10)}
    assert set(logged) == {"deployment", "invoices"}
    yes = logged["deployment"]
    assert (yes.timestamp, yes.message_hash) == (5_000, message_hash("Deploy it!"))
    assert (yes.tier1_matched, yes.gate_result) == (True, GateResult.BYPASSED)
    assert yes.tier2_score == pytest.approx(activation.score, abs=1e-4)
    assert yes.was_useful is None
    assert yes.triggers == ("pattern deploy",)
    assert (yes.session_id, yes.decision_id) == ("s1", activation.decision_id)


async def test_a_message_is_not_stored(store: Store) -> None:
    """Rows: 002-R125."""
    pipeline = WatcherPipeline([make_topic(match="deploy")], log=DecisionLog(store))

    await pipeline.process("deploy the very private thing", "input")

    assert "private" not in repr(await store.feed())


async def test_usefulness_is_judged_once_and_the_history_keeps_both(store: Store) -> None:
    """Rows: 002-R125, 002-R126."""
    log = DecisionLog(store)
    (stored,) = await log.record([DECISION])

    assert await log.judge({stored.decision_id: True, "gate_decision:unknown": True}) == 1
    assert await log.judge({stored.decision_id: False}) == 0

    assert await log.newest(limit=1) == [replace(stored, was_useful=True)]
    history = await store.history(stored.decision_id, corrections=True)
    assert [entry.document["was_useful"] for entry in history.entries if entry.document] == [
        None,
        True,
    ]


async def test_the_newest_decisions_are_listed_first(store: Store) -> None:
    """Rows: 002-R126."""
    log = DecisionLog(store)
    for time in (3_000, 1_000, 2_000):
        await log.record([replace(DECISION, timestamp=time)])
    await log.record([replace(DECISION, timestamp=9_000, topic_name="other")])

    found = await log.newest(limit=2, topic="deployment")

    assert [each.timestamp for each in found] == [3_000, 2_000]
    assert [each.topic_name for each in await log.newest(limit=1)] == ["other"]


async def test_a_decision_that_another_program_wrote_is_reported(store: Store) -> None:
    """Stored data is checked when it is read. Rows: 002-R125."""
    await store.commit([Put({"xt/id": "gate_decision:1", "type": "gate_decision"})])

    with pytest.raises(Corrupt, match="gate_decision:1: timestamp is None"):
        await DecisionLog(store).newest(limit=1)


async def test_a_log_that_cannot_be_written_does_not_fail_the_turn(store: Store) -> None:
    """Rows: 002-R126."""
    pipeline = WatcherPipeline(
        [make_topic(match="deploy", priority="critical")], log=DecisionLog(store)
    )
    await store.close()

    (found,) = await pipeline.process("deploy", "input")

    assert found.decision_id is None
