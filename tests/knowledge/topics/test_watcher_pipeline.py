"""The three tiers in order, for input and output."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxmgr.knowledge.topics.gate import Decider, GateAnswer, GatedActivator
from ctxmgr.knowledge.topics.output_watcher import OutputWatcher
from ctxmgr.knowledge.topics.pattern_matcher import PatternMatcher
from ctxmgr.knowledge.topics.similarity_scorer import SimilarityDetails, SimilarityScorer
from ctxmgr.knowledge.topics.switches import WatcherSwitches
from ctxmgr.knowledge.topics.topic import Direction, Topic
from ctxmgr.knowledge.topics.watcher_pipeline import TopicActivation, WatcherPipeline
from tests.knowledge.topics.topic_notes import make_topic

DEPLOY = "Deploy services to staging, production and roll back a canary."
STEER = {
    "type": "pattern",
    "match": "force.push",
    "scope": "output",
    "correction_hint": "Use --force-with-lease.",
}


def deploying(name: str = "deployment", *, match: str = "deploy", **fields: Any) -> Topic:
    return make_topic(name, match=match, body=f"{DEPLOY}\n\n## Instructions\n\n{DEPLOY}", **fields)


def names(activations: Sequence[TopicActivation]) -> list[str]:
    return [each.topic.name for each in activations]


class StubbornGate(GatedActivator):
    """Gives one answer, and remembers what it was asked."""

    def __init__(self, *, approves: bool) -> None:
        super().__init__()
        self.approves = approves
        self.asked: list[str] = []

    async def decide(self, message: str, topics: Sequence[Topic]) -> list[GateAnswer]:
        self.asked += [topic.name for topic in topics]
        return [GateAnswer(approved=self.approves, decider=Decider.MODEL) for _ in topics]


async def test_a_message_activates_a_topic_and_says_why() -> None:
    """Rows: 002-R086, 002-R205, 002-R237."""
    pipeline = WatcherPipeline([deploying(priority="high"), deploying("other", match="soup")])

    (found,) = await pipeline.process("deploy the canary to staging", "input")

    assert found.topic.name == "deployment"
    assert found.score > 0.3
    assert "high, score" in found.reason
    assert found.hint is None


@pytest.mark.parametrize("approves", [True, False])
async def test_a_gated_topic_is_activated_if_the_gate_says_yes(approves: bool) -> None:  # noqa: FBT001
    """Rows: 002-R116, 002-R118, 002-R123."""
    gate = StubbornGate(approves=approves)
    pipeline = WatcherPipeline([deploying(priority="medium")], gate=gate)

    found = await pipeline.process("deploy the canary to staging", "input")

    assert gate.asked == ["deployment"]
    assert names(found) == (["deployment"] if approves else [])


async def test_auto_skips_the_gate_and_manual_is_never_activated() -> None:
    """Rows: 002-R114, 002-R115."""
    gate = StubbornGate(approves=False)
    topics = [
        deploying("auto", activation="auto"),
        deploying("manual", activation="manual", priority="critical"),
    ]

    found = await WatcherPipeline(topics, gate=gate).process("deploy the canary", "input")

    assert names(found) == ["auto"]
    assert gate.asked == []


async def test_critical_topics_need_only_a_trigger() -> None:
    """Rows: 002-R121, 002-A13."""
    gate = StubbornGate(approves=False)
    pipeline = WatcherPipeline([deploying(match="zebra", priority="critical")], gate=gate)

    (found,) = await pipeline.process("a zebra", "input")

    assert found.score < 0.15


async def test_the_most_important_topic_comes_first() -> None:
    """Rows: 002-R205."""
    topics = [
        deploying("low", activation="auto", priority="low"),
        deploying("critical", priority="critical"),
        deploying("medium", activation="auto"),
    ]

    found = await WatcherPipeline(topics).process("deploy the canary to staging", "input")

    assert names(found) == ["critical", "medium", "low"]


@settings(max_examples=25, deadline=None)
@given(
    st.sets(st.sampled_from(["alpha", "beta", "gamma", "delta"])),
    st.sampled_from(["alpha", "beta canary", "gamma deploy staging", "alpha delta", "soup", ""]),
)
def test_each_tier_sees_only_what_the_one_before_passed(triggers: set[str], text: str) -> None:
    """Cheap tiers protect costly ones; an empty set passes nothing.

    Rows: 002-R087, 002-A12.
    """
    topics = [deploying(name, match=name) for name in sorted(triggers)]
    gate = StubbornGate(approves=True)
    pipeline = WatcherPipeline(topics, gate=gate)
    scored: list[set[str]] = []
    details = pipeline._scorer.details

    def watched(text: str, candidates: Collection[str]) -> dict[str, SimilarityDetails]:
        scored.append(set(candidates))
        return details(text, candidates)

    pipeline._scorer.details = watched  # type: ignore[method-assign]

    found = asyncio.run(pipeline.process(text, Direction.INPUT))

    matched = PatternMatcher(topics).match(text)
    passed = {topic.name for topic, _ in SimilarityScorer(topics).score(text, matched)}
    assert set.union(set(), *scored) == matched
    assert set(gate.asked) <= passed <= matched
    assert set(names(found)) <= passed


async def test_a_topic_can_opt_in_to_similarity_alone() -> None:
    """Rows: 002-A12."""
    topics = [
        make_topic("opted", similarity_only=True, activation="auto", body=DEPLOY),
        make_topic("not", activation="auto", body=DEPLOY),
    ]

    found = await WatcherPipeline(topics).process("roll the canary back on staging", "input")

    assert names(found) == ["opted"]


def test_an_output_trigger_gives_its_hint() -> None:
    """Rows: 002-R107, 002-R108, 002-R206, 002-R237."""
    topics = [
        make_topic("git", triggers=[STEER]),
        make_topic("both", triggers=[{**STEER, "scope": "both", "correction_hint": "Ask."}]),
        make_topic("input", triggers=[{**STEER, "scope": "input"}]),
        make_topic("manual", triggers=[STEER], activation="manual"),
        make_topic("silent", triggers=[{"type": "pattern", "match": "force", "scope": "output"}]),
    ]
    watcher = OutputWatcher(topics, matcher=PatternMatcher(topics))

    found = watcher.check("I would force-push now.")

    assert [(topic.name, hint) for topic, hint in found] == [
        ("git", "Use --force-with-lease."),
        ("both", "Ask."),
    ]
    assert watcher.check("I would push now.") == []


async def test_an_answer_activates_the_corrective_topic_without_the_gate() -> None:
    """Rows: 002-R086, 002-R107, 002-A11."""
    gate = StubbornGate(approves=False)
    pipeline = WatcherPipeline([make_topic("git", triggers=[STEER])], gate=gate)

    (found,) = await pipeline.process("I will force-push.", "output")

    assert (found.topic.name, found.hint) == ("git", "Use --force-with-lease.")
    assert await pipeline.process("May I force-push?", "input") == []


@pytest.mark.parametrize(
    ("switch", "direction", "text", "before", "after"),
    [
        ("tier1", "input", "canary on staging", [], ["auto"]),
        ("tier2", "input", "redeployable soup", [], ["auto"]),
        ("gate", "input", "gated canary staging", [], ["gated"]),
        ("output_steering", "output", "I force-push.", ["git"], []),
    ],
)
async def test_tiers_gate_and_steering_have_a_switch(
    switch: str, direction: str, text: str, before: list[str], after: list[str]
) -> None:
    """Each can be turned off to measure its benefit or harm. Rows: PG-31, 002-A33."""
    topics = [
        deploying("auto", activation="auto"),
        deploying("gated", match="gated"),
        make_topic("git", triggers=[STEER], body="Rebase\n\n## Instructions\n\nRebase"),
    ]

    async def found(switches: WatcherSwitches) -> list[str]:
        gate = StubbornGate(approves=False)
        pipeline = WatcherPipeline(topics, gate=gate, switches=switches)
        return names(await pipeline.process(text, direction))

    assert await found(WatcherSwitches()) == before
    assert await found(WatcherSwitches(**{switch: False})) == after


def test_a_topic_without_keywords_gets_its_own() -> None:
    """The compiler scores notes by them. Rows: 002-A10."""
    pipeline = WatcherPipeline([deploying(), make_topic("own", keywords=["x"], body="y")])

    assert "canary" in pipeline.topics["deployment"].keywords
    assert pipeline.topics["own"].keywords == ("x",)
