"""Proposals from the decision log."""

from dataclasses import replace

from ctxmgr.knowledge.topics.gate_decision import GateDecision, GateResult
from ctxmgr.knowledge.topics.tuning import propose
from tests.knowledge.topics.topic_notes import make_topic

DECISION = GateDecision(
    timestamp=1,
    message_hash="h",
    topic_name="deployment",
    tier1_matched=True,
    tier2_score=0.2,
    gate_result=GateResult.BYPASSED,
    direction="input",
    decider="table",
    triggers=("pattern deploy",),
)


def decisions(scores: list[float], *, useful: bool | None, result: str = "bypassed") -> list:
    return [
        replace(DECISION, tier2_score=score, was_useful=useful, gate_result=GateResult(result))
        for score in scores
    ]


def test_a_threshold_that_separates_useful_from_useless_is_proposed() -> None:
    """The evidence says what would change. Rows: 002-R126."""
    log = decisions([0.16, 0.18, 0.2, 0.21, 0.22], useful=False)
    log += decisions([0.3, 0.4, 0.5, 0.6], useful=True)

    (proposal,) = propose(log, {"deployment": make_topic(priority="high")})

    assert proposal.change == "similarity_threshold: 0.225"
    assert (proposal.useful, proposal.useless) == (4, 5)
    assert proposal.evidence == (
        "of 9 judged decisions, 5 were wrong at 0.15 and 0 would be at 0.225:"
        " 5 useless activations less, 4 of 4 useful ones stay"
    )


def test_too_little_evidence_proposes_nothing() -> None:
    """Rows: 002-R126."""
    topics = {"deployment": make_topic()}

    assert propose(decisions([0.2] * 7, useful=False), topics) == []
    assert propose(decisions([0.2] * 50, useful=None), topics) == []
    assert propose(decisions([0.2] * 50, useful=False), {}) == []


def test_a_gate_that_says_no_is_evidence() -> None:
    """Rows: 002-R118, 002-R126."""
    log = decisions([0.2] * 8, useful=None, result="no")

    found = propose(log, {"deployment": make_topic()})

    assert [proposal.subject for proposal in found] == ["threshold", "trigger"]
    assert found[1].change == "remove or narrow the trigger: pattern deploy"
    assert found[1].evidence == "it matched 8 messages and was useful for none"


def test_a_topic_that_bypasses_the_gate_for_nothing_should_be_gated() -> None:
    """Rows: 002-R126."""
    log = decisions([0.5] * 9, useful=False) + decisions([0.5] * 2, useful=True)

    subjects = {each.subject: each for each in propose(log, {"deployment": make_topic()})}

    assert subjects["bypass"].change == "activation: gated, priority: medium"
    assert "activated 11 times without the gate, 9 times" in subjects["bypass"].evidence


def test_a_topic_that_is_always_approved_needs_no_gate() -> None:
    """Rows: 002-R126."""
    log = decisions([0.5] * 9, useful=True, result="yes")

    (proposal,) = propose(log, {"deployment": make_topic()})

    assert (proposal.subject, proposal.change) == ("bypass", "activation: auto")
    assert propose(log, {"deployment": make_topic(priority="high")}) == []


def test_a_threshold_that_is_right_is_left_alone() -> None:
    """Rows: 002-R126."""
    log = decisions([0.05, 0.06, 0.1, 0.12], useful=None, result="no")
    log += decisions([0.3, 0.4, 0.5, 0.6], useful=True)

    assert propose(log, {"deployment": make_topic()}) == []
