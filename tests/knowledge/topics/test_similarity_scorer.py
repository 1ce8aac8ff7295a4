"""Tier 2: how similar a message is to a topic."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxmgr.knowledge.topics import similarity_scorer
from ctxmgr.knowledge.topics.similarity_scorer import (
    SimilarityScorer,
    derived_keywords,
    fingerprint,
    term_weights,
)
from ctxmgr.knowledge.topics.switches import WatcherSwitches
from ctxmgr.knowledge.topics.topic import Topic
from tests.knowledge.topics.topic_notes import make_topic

ONLY = dict.fromkeys(("tfidf", "bm25", "jaccard", "minhash", "sentiment"), False)
MESSAGE = "deploy the service to staging and watch the canary"


def topics() -> list[Topic]:
    texts = {
        "deployment": "Deploy services to staging, production and roll back a canary.",
        "invoices": "Invoices to customers: VAT, due dates, payment reminders.",
        "travel": "Book trains, flights and hotels for business trips.",
    }
    return [
        make_topic(name, body=f"{text}\n\n## Instructions\n\n{text}")
        for name, text in texts.items()
    ]


def test_candidates_that_reach_the_threshold_are_returned_best_first() -> None:
    """Rows: 002-R106, 002-R206, 002-R237."""
    scorer = SimilarityScorer(topics(), threshold=0.05)

    found = scorer.score("an invoice for the hotel and flight, due soon", {"invoices", "travel"})

    assert {topic.name for topic, _ in found} == {"invoices", "travel"}
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    assert SimilarityScorer(topics(), threshold=0.9).score(MESSAGE, {"deployment"}) == []


def test_the_threshold_is_015_unless_the_topic_says_otherwise() -> None:
    """Rows: 002-R106, 002-R113."""
    scorer = SimilarityScorer(topics())

    assert scorer.threshold_of(topics()[0]) == 0.15
    assert scorer.threshold_of(make_topic(similarity_threshold=0)) == 0


@pytest.mark.parametrize("candidates", [set(), {"unknown"}])
def test_no_candidates_pass_nothing(candidates: set[str]) -> None:
    """An empty set does not mean: everything. Rows: 002-A12, 002-R087."""
    assert SimilarityScorer(topics(), threshold=0).score(MESSAGE, candidates) == []


@settings(max_examples=25, deadline=None)
@given(
    st.text(max_size=60),
    st.sets(st.sampled_from(["deployment", "invoices", "travel", "unknown"])),
)
def test_only_candidates_are_scored_and_scores_are_shares(text: str, candidates: set[str]) -> None:
    """Rows: 002-R087, 002-R106."""
    found = SimilarityScorer(topics(), threshold=0).score(text, candidates)

    assert {topic.name for topic, _ in found} == candidates - {"unknown"}
    assert all(0 <= score <= 1.000001 for _, score in found)


@pytest.mark.parametrize("algorithm", ["tfidf", "bm25", "jaccard", "minhash"])
def test_each_algorithm_tells_the_topics_apart(algorithm: str) -> None:
    """Each by itself, with the others off. Rows: 002-R100, 002-R101, 002-R102, 002-R103, PG-31."""
    alone = WatcherSwitches(**{**ONLY, algorithm: True})
    scorer = SimilarityScorer(topics(), threshold=0, switches=alone)

    found = scorer.score(MESSAGE, {"deployment", "invoices", "travel"})

    assert found[0][0].name == "deployment"
    assert found[0][1] > 2 * found[1][1]
    details = scorer.details(MESSAGE, {"deployment"})["deployment"]
    used = [name for name in ONLY if getattr(details, name) is not None]
    assert used == [algorithm]


def test_tfidf_is_the_cosine_of_weighted_terms() -> None:
    """A text has cosine 1 with itself, and 0 with one that shares no term. Rows: 002-R100."""
    topic = make_topic("alpha", body="alpha beta beta gamma")
    other = make_topic("delta", body="delta epsilon")
    scorer = SimilarityScorer([topic, other], switches=WatcherSwitches(**{**ONLY, "tfidf": True}))

    details = scorer.details(topic.text, {"alpha", "delta"})

    assert details["alpha"].tfidf == pytest.approx(1)
    assert details["delta"].tfidf == 0


def test_the_vocabulary_has_at_most_5000_terms() -> None:
    """The most frequent ones are kept. Rows: 002-R100."""
    counts = [{f"rare{number}": 1 for number in range(6_000)}, {"often": 5}]

    weights = term_weights(counts)

    assert len(weights) == similarity_scorer.FEATURES_MAX == 5_000
    assert "often" in weights


def test_bm25_is_the_share_of_the_message_that_a_topic_covers() -> None:
    """Words that no topic has lower it. Rows: 002-R101."""
    scorer = SimilarityScorer(topics())

    short = scorer.details("deploy to staging", {"deployment"})["deployment"].bm25
    diluted = scorer.details(
        "deploy to staging; the weather, my garden, some soup", {"deployment"}
    )["deployment"].bm25

    assert short is not None
    assert diluted is not None
    assert short > diluted > 0


def test_minhash_estimates_shared_trigrams_and_forgives_typing_errors() -> None:
    """Rows: 002-R103."""
    text = "please deploy the payment service to staging"
    alike = fingerprint(text) & fingerprint("pleaze deploy the paymnt service to staging")
    other = fingerprint(text) & fingerprint("zwölf Boxkämpfer jagen Viktor quer über den Sylter")

    assert fingerprint(text.upper()) == fingerprint(text)
    assert len(alike) > 20
    assert len(other) < 5


def test_a_topic_with_a_mood_scores_by_sentiment() -> None:
    """Rows: 002-R104."""
    angry = make_topic("angry", sentiment="negative", body="x")
    plain = make_topic("plain", body="x")
    scorer = SimilarityScorer([angry, plain])

    bad = scorer.details("This is terrible, I hate it.", {"angry", "plain"})
    good = scorer.details("This is wonderful, I love it.", {"angry", "plain"})

    assert bad["angry"].sentiment is not None
    assert bad["angry"].sentiment > 0.5
    assert bad["plain"].sentiment == good["angry"].sentiment == 0
    off = SimilarityScorer([angry], switches=WatcherSwitches(sentiment=False))
    assert off.details("terrible", {"angry"})["angry"].sentiment is None


def test_keywords_are_derived_from_what_distinguishes_a_topic() -> None:
    """Rows: 002-A10."""
    found = derived_keywords([*topics(), make_topic("given", keywords=["own"])])

    assert set(found) == {"deployment", "invoices", "travel"}
    assert "invoic" in found["invoices"]
