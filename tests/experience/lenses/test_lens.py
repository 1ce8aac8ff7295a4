"""Lenses, what the agent may see of them, and token streams."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from ctxmgr.core.events.event_type import EventType
from ctxmgr.experience.concepts.concept import CONCEPT_ID_CHARS_MAX
from ctxmgr.experience.lenses.failures import LensFailures
from ctxmgr.experience.lenses.lens import Lenses, LensPolicy, Moment
from ctxmgr.experience.lenses.stream import LensStream
from ctxmgr.experience.log.batches import check_storable
from ctxmgr.experience.records.timestep import NewTimestep


@dataclass
class WordLens:
    """Scores each word of the text as a concept of its own, and remembers what it was asked."""

    name: str = "words"
    value: float = 0.5
    seen: list[str] = field(default_factory=list)

    def score(self, observation: Moment) -> Mapping[str, float]:
        self.seen.append(observation.text)
        return dict.fromkeys(observation.text.split(), self.value)


@dataclass
class ProbeLens:
    """Scores one concept by a direction in the hidden state."""

    name: str = "probe"

    def score(self, observation: Moment) -> Mapping[str, float]:
        state = observation.hidden_state
        return {} if state is None else {"p/robe::x": min(max(sum(state), 0.0), 1.0)}


def test_the_agent_sees_what_the_policy_shows_and_audit_sees_all() -> None:
    """000-R112, 000-R101: hidden lenses work, and the agent does not learn of them."""
    policy = LensPolicy(hidden=frozenset({"lie", "org.safety/*"}))
    lenses = Lenses(lenses=(WordLens(),), policy=policy)

    reading = lenses.read(Moment(text="dog lie org.safety/x::y"))

    assert set(reading.all) == {"dog", "lie", "org.safety/x::y"}
    assert set(reading.visible) == {"dog"}


def test_only_the_highest_visible_scores_are_kept() -> None:
    """000-R185, 000-R207: ten per timestep unless configured; equal scores go by id."""
    text = " ".join(f"c{number:02}" for number in range(20))

    reading = Lenses(lenses=(WordLens(),)).read(Moment(text=text))
    three = Lenses(lenses=(WordLens(),), top_k=3).read(Moment(text=text))

    assert list(reading.visible) == [f"c{number:02}" for number in range(10)]
    assert list(three.visible) == ["c00", "c01", "c02"]


def test_several_lenses_are_read_together() -> None:
    """000-R029: text and hidden state give one map; of two scores the higher counts."""
    lenses = Lenses(lenses=(WordLens(), WordLens(value=0.75), ProbeLens()))

    reading = lenses.read(Moment(text="dog", hidden_state=(0.2, 0.1)))

    assert reading.visible == pytest.approx({"dog": 0.75, "p/robe::x": 0.3})


def test_a_long_text_is_read_in_parts() -> None:
    """000-R029: a message is about what any part of it is about; its size does not matter."""
    lens = WordLens()
    lenses = Lenses(lenses=(lens,), top_k=1_000)
    text = "first " + "word " * 300_000 + "last"

    reading = lenses.read_text(text)

    assert set(reading.visible) >= {"first", "word", "last"}
    assert len(lens.seen) <= 10
    assert lenses.read_text("").visible == {}


@dataclass
class BrokenLens:
    """Does something wrong, until it is repaired."""

    wrong: Any
    name: str = "broken"

    def score(self, observation: Moment) -> Mapping[str, float]:
        if isinstance(self.wrong, Exception):
            raise self.wrong
        scores: Mapping[str, float] = self.wrong
        return scores


@pytest.mark.parametrize(
    "wrong",
    [
        *(RuntimeError("no weights"), {"dog": 1.5}, {"dog": -0.1}, {"dog": float("nan")}),
        *({"dog": "high"}, {"": 0.5}, {"x" * 513: 0.5}, {7: 0.5}, {"\ud800": 0.5}, None, 3),
    ],
    ids=repr,
)
def test_a_lens_that_fails_is_reported_and_left_out(wrong: Any) -> None:
    """A lens may be anybody's code; the other lenses say what they say."""
    reading = Lenses(lenses=(BrokenLens(wrong), WordLens())).read(Moment(text="dog"))

    assert reading.all == reading.visible == {"dog": 0.5}
    assert list(reading.failed) == ["broken"]
    assert reading.failed["broken"]


def test_whatever_a_lens_may_return_can_be_stored() -> None:
    """000-R029: one long concept id must not stop the log."""
    longest = "x" * CONCEPT_ID_CHARS_MAX
    reading = Lenses(lenses=(BrokenLens({longest: 1.0}),)).read(Moment(text="dog"))

    check_storable(
        NewTimestep(timestamp=0, event_type=EventType.OUTPUT, concept_activations=reading.visible)
    )
    assert reading.visible == {longest: 1.0}


def test_a_failure_is_logged_when_it_begins_and_when_it_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A stream asks several times a second."""
    failures, lens = LensFailures(), BrokenLens(RuntimeError("no weights"))
    lenses = Lenses(lenses=(lens,))

    for _ in range(3):
        failures.note(lenses.read(Moment(text="dog")))
    assert failures.failing == {"broken": "RuntimeError: no weights"}
    lens.wrong = {"dog": 1.0}
    assert failures.note(lenses.read(Moment(text="dog"))).visible == {"dog": 1.0}

    assert failures.failing == {}
    assert [record.message for record in caplog.records] == [
        "the lens broken fails, and its scores are missing: RuntimeError: no weights",
        "the lens broken works again",
    ]


def test_a_stream_asks_when_a_word_ends() -> None:
    """000-R175: a token is a part of a word, and asking for each would cost too much."""
    lens = WordLens()
    stream = LensStream(Lenses(lenses=(lens,)))

    readings = [list(stream.read(token).visible) for token in ("un", "believ", "able", " dog", ".")]

    assert readings == [[], [], [], ["unbelievable"], ["dog.", "unbelievable"]]
    assert lens.seen == ["unbelievable ", "unbelievable dog."]
    assert list(stream.end().visible) == ["dog.", "unbelievable"]
