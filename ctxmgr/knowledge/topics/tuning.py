"""Proposals from the decision log, each with its evidence. Pure.

    threshold   the similarity threshold that separates useful from useless decisions best
    trigger     a trigger that matched often and never led to anything useful
    bypass      a topic that is activated without the gate and mostly useless, or one that the gate
                always approves

A decision counts as useful if it was judged so, and as useless if it was judged so or the gate said
NO. Others are not evidence. Nothing is changed: a person edits the topic.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ctxmgr.knowledge.topics.gate_decision import GateDecision, GateResult
from ctxmgr.knowledge.topics.topic import SIMILARITY_THRESHOLD, Priority, Topic

EVIDENCE_MIN: Final = 8
"""Judged decisions below which nothing is proposed."""

GAIN_MIN: Final = 2
"""Decisions that a new threshold must get right in addition."""

USELESS_SHARE: Final = 0.75
APPROVED_SHARE: Final = 0.95
_MARGIN: Final = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One change that the log suggests."""

    topic_name: str
    subject: str
    """``threshold``, ``trigger`` or ``bypass``."""
    change: str
    """What to write in the topic file."""
    evidence: str
    useful: int
    useless: int


def propose(
    decisions: Sequence[GateDecision],
    topics: Mapping[str, Topic],
    *,
    threshold: float = SIMILARITY_THRESHOLD,
) -> list[Proposal]:
    """Return what the decisions suggest, by topic."""
    by_topic: dict[str, list[GateDecision]] = defaultdict(list)
    for decision in decisions:
        if decision.topic_name in topics:
            by_topic[decision.topic_name].append(decision)
    proposals: list[Proposal] = []
    for name, logged in sorted(by_topic.items()):
        topic = topics[name]
        labelled = [(each, label) for each in logged if (label := _label(each)) is not None]
        if len(labelled) < EVIDENCE_MIN:
            continue
        own = topic.similarity_threshold
        found = (
            _threshold(name, labelled, threshold if own is None else own),
            *_triggers(name, labelled),
            _bypass(topic, labelled, logged),
        )
        proposals += [proposal for proposal in found if proposal is not None]
    return proposals


def is_evidence(decision: GateDecision) -> bool:
    """Whether it is known of a decision that it was useful, or that it was not."""
    return _label(decision) is not None


def _label(decision: GateDecision) -> bool | None:
    if decision.was_useful is not None:
        return decision.was_useful
    return False if decision.gate_result is GateResult.NO else None


_Labelled = Sequence[tuple[GateDecision, bool]]


def _threshold(name: str, labelled: _Labelled, current: float) -> Proposal | None:
    """Propose the lowest threshold with the fewest wrong decisions."""
    scored = [
        (decision.tier2_score, useful)
        for decision, useful in labelled
        if decision.gate_result is not GateResult.CORRECTED
    ]

    def wrong(cut: float) -> int:
        return sum((score >= cut) != useful for score, useful in scored)

    cuts = sorted({round(score + _MARGIN, 3) for score, useful in scored if not useful})
    best = min((cut for cut in cuts if 0 < cut <= 1), key=wrong, default=current)
    if wrong(current) - wrong(best) < GAIN_MIN:
        return None
    useful = sum(label for _, label in scored)
    kept = sum(label for score, label in scored if score >= best)
    spared = sum(not label and current <= score < best for score, label in scored)
    return Proposal(
        topic_name=name,
        subject="threshold",
        change=f"similarity_threshold: {best:g}",
        evidence=(
            f"of {len(scored)} judged decisions, {wrong(current)} were wrong at {current:g} and"
            f" {wrong(best)} would be at {best:g}: {spared} useless activations less,"
            f" {kept} of {useful} useful ones stay"
        ),
        useful=useful,
        useless=len(scored) - useful,
    )


def _triggers(name: str, labelled: _Labelled) -> Iterable[Proposal]:
    counts: dict[str, list[bool]] = defaultdict(list)
    for decision, useful in labelled:
        for trigger in decision.triggers:
            counts[trigger].append(useful)
    for trigger, labels in sorted(counts.items()):
        if len(labels) >= EVIDENCE_MIN and not any(labels):
            yield Proposal(
                topic_name=name,
                subject="trigger",
                change=f"remove or narrow the trigger: {trigger}",
                evidence=f"it matched {len(labels)} messages and was useful for none",
                useful=0,
                useless=len(labels),
            )


def _bypass(topic: Topic, labelled: _Labelled, logged: Sequence[GateDecision]) -> Proposal | None:
    passed = [label for decision, label in labelled if decision.gate_result is GateResult.BYPASSED]
    useless = passed.count(False)
    if len(passed) >= EVIDENCE_MIN and useless >= USELESS_SHARE * len(passed):
        return Proposal(
            topic_name=topic.name,
            subject="bypass",
            change="activation: gated, priority: medium",
            evidence=f"activated {len(passed)} times without the gate, {useless} times for nothing",
            useful=len(passed) - useless,
            useless=useless,
        )
    asked = [each for each in logged if each.gate_result in {GateResult.YES, GateResult.NO}]
    approved = sum(each.gate_result is GateResult.YES for each in asked)
    liked = [label for each, label in labelled if each.gate_result is GateResult.YES]
    worth = len(liked) >= EVIDENCE_MIN and liked.count(True) >= APPROVED_SHARE * len(liked)
    if (
        worth
        and approved >= APPROVED_SHARE * len(asked)
        and topic.priority_score < Priority.HIGH.score
    ):
        return Proposal(
            topic_name=topic.name,
            subject="bypass",
            change="activation: auto",
            evidence=f"the gate approved {approved} of {len(asked)}, and the answers used them",
            useful=liked.count(True),
            useless=liked.count(False),
        )
    return None
