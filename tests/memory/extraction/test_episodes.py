"""An exchange in which something was asked and done is an episode."""

from ctxmgr.memory.extraction.episodes import extract_episode
from ctxmgr.memory.extraction.extract import lessons_of
from ctxmgr.memory.extraction.stated_facts import extract_stated_facts
from ctxmgr.memory.records.bodies import Artifact, ArtifactType, Episode, Fact
from tests.memory.extraction.exchanges import called, edited, ran, said, worked


def test_an_episode_has_problem_attempt_outcome_and_artifacts() -> None:
    """001-R029, 001-R035: an episode refers to what it left behind."""
    exchange = worked(
        edited(1, "src/cart.py", "a", "b"),
        ran(2, "pytest -q", "3 passed"),
        ran(3, "git commit -am 'cart: no crash'", "[main 1a2b3c4] cart: no crash"),
        user="the cart crashes when the price is missing. look into it",
        answer="The cart treats a missing price as zero.",
    )
    (item,) = extract_episode(exchange).learnt
    assert isinstance(item.body, Episode)
    assert item.body.problem == "the cart crashes when the price is missing."
    assert item.body.fix == "changed src/cart.py; ran `pytest -q`"
    assert item.body.outcome == "The cart treats a missing price as zero."
    assert item.body.artifacts == (
        Artifact(artifact_type=ArtifactType.COMMIT, artifact_ref="1a2b3c4"),
        Artifact(artifact_type=ArtifactType.FILE, artifact_ref="src/cart.py"),
    )


def test_an_exchange_that_did_nothing_is_refused() -> None:
    assert extract_episode(worked(ran(1, "ls"), user="show me the files here")).learnt == ()
    refused = extract_episode(worked(edited(1, "a.py", "a", "b"), user="continue")).refused
    assert refused[0].reason == "a request of fewer than 4 words"


def test_a_lookup_of_memory_is_no_work() -> None:
    recalled = called(1, "recall", {"query": "cart"}, "the cart crashed in March")
    exchange = worked(recalled, user="what do we know about the cart")
    assert extract_episode(exchange).learnt == ()


def test_a_stated_value_becomes_a_fact() -> None:
    (item,) = extract_stated_facts(said("our database is PostgreSQL 15")).learnt
    assert item.body == Fact(key="database", value="PostgreSQL 15")
    assert extract_stated_facts(said("the build is broken since 10:30")).learnt == ()
    assert extract_stated_facts(said("is the database PostgreSQL 15?")).learnt == ()


def test_one_sentence_is_learnt_once() -> None:
    lessons = lessons_of(said("remember that the database is PostgreSQL 15"))
    assert len(lessons.learnt) == 1
