"""Tier 3: the question to a model, and the rule without one."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest

from ctxmgr.core.model import AnswerDone, AnswerPart, Charge, Request, Stop, TextDelta, Usage
from ctxmgr.errors import ModelUnavailable
from ctxmgr.knowledge.library import Library
from ctxmgr.knowledge.topics import gate
from ctxmgr.knowledge.topics.gate import Decider, GatedActivator, gate_question, is_approval
from tests.knowledge.topics.topic_notes import make_topic
from tests.models.model_server import ModelServer, refuse, says
from tests.models.requests import make_model
from tests.models.wire import Text

MESSAGE = "Please deploy it."


class GateModel:
    """Answers every question with the same word, fails, or never answers."""

    name = "tiny"
    form = "text"
    unique_ids = True

    def __init__(self, answer: str | Exception | None) -> None:
        self.answer = answer
        self.requests: list[Request] = []

    async def stream(self, request: Request) -> AsyncGenerator[AnswerPart, None]:
        self.requests.append(request)
        if self.answer is None:
            await asyncio.Event().wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        yield TextDelta(text=str(self.answer))
        charge = Charge(purpose=request.purpose, model=self.name, usage=Usage(input_tokens=90))
        yield AnswerDone(reply={}, stop=Stop.LENGTH, charge=charge)


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


@pytest.mark.parametrize(
    ("answer", "approves"),
    [
        ("YES", True),
        (" yes, because", True),
        ("Yes.", True),
        ("NO", False),
        ("", False),
        ("Maybe YES", False),
        ("Y", False),
    ],
)
async def test_an_answer_approves_if_it_begins_with_yes(
    answer: str,
    approves: bool,  # noqa: FBT001
) -> None:
    """Rows: 002-R116, 002-R118, 002-R119, 002-R237."""
    assert is_approval(answer) is approves
    assert (
        await GatedActivator(GateModel(answer)).should_activate(MESSAGE, make_topic()) is approves
    )


def test_the_question_is_short() -> None:
    """A pasted file must not make the gate expensive. Rows: 002-R117."""
    topic = make_topic(description="dd " * 100)

    text = gate_question("mmm " * 225, topic)

    assert text.count("mmm") == 500 // len("mmm ")
    assert text.count("dd ") == 200 // len("dd ")
    assert "YES or NO" in text


@pytest.mark.parametrize("api", ["anthropic", "openai"])
async def test_a_provider_is_asked_for_one_token_at_temperature_0(
    api: str, server: ModelServer
) -> None:
    """What reaches the wire decides the price and whether answers repeat. Rows: 002-R117."""
    server.script(says(Text("YES")))

    async with make_model(api, server) as model:
        approved = await GatedActivator(model, seconds=30).should_activate(MESSAGE, make_topic())

    assert approved
    body = server.requests[0].body
    assert body["temperature"] == 0
    assert body.get("max_tokens", body.get("max_completion_tokens")) == 1


async def test_a_provider_that_refuses_the_question_leaves_it_to_the_rule(
    server: ModelServer,
) -> None:
    """Some models accept no temperature; the turn goes on. Rows: 002-R117."""
    server.script(refuse(400))

    async with make_model("openai", server) as model:
        (answer,) = await GatedActivator(model, seconds=30).decide(MESSAGE, [make_topic()])

    assert answer.decider is Decider.RULE


async def test_a_decision_is_cached_by_message_and_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same question is paid for once; the least recently used answer is dropped first.

    Rows: 002-R120.
    """
    monkeypatch.setattr(gate, "CACHED_ANSWERS_MAX", 2)
    model = GateModel("YES")
    activator = GatedActivator(model)
    one, two, three = (make_topic(name) for name in ("one", "two", "three"))

    for topic in (one, one, two, one, three, one, two):
        await activator.should_activate(MESSAGE, topic)

    asked = [str(request.payload).split("Topic ")[1].split(":")[0] for request in model.requests]
    assert asked == ["one", "two", "three", "two"]
    await activator.should_activate("another message", one)
    assert len(model.requests) == 5


async def test_the_ledger_counts_questions_and_not_cached_answers() -> None:
    """Rows: 002-R090, 002-A14."""
    activator = GatedActivator(GateModel("NO"))

    await activator.decide(MESSAGE, [make_topic("a"), make_topic("b")])
    await activator.decide(MESSAGE, [make_topic("a")])

    (cost,) = activator.ledger.costs
    assert (cost.purpose, cost.calls, cost.usage.input_tokens) == ("gate", 2, 180)


async def test_a_model_that_does_not_answer_in_time_leaves_it_to_the_rule() -> None:
    """A prompt never waits for the gate without end, and the question is asked again next time.

    Rows: 002-R090, 002-R117.
    """
    model = GateModel(None)
    activator = GatedActivator(model, seconds=0.01)
    topic = make_topic(keywords=["deploy", "staging"])

    (answer,) = await activator.decide("deploy to staging", [topic])

    assert answer == gate.GateAnswer(approved=True, decider=Decider.RULE)
    model.answer = "NO"
    (answer,) = await GatedActivator(model, seconds=30).decide("deploy to staging", [topic])
    assert answer.decider is Decider.MODEL


async def test_a_model_that_fails_leaves_it_to_the_rule() -> None:
    """Rows: 002-R116."""
    activator = GatedActivator(GateModel(ModelUnavailable("busy")))

    (answer,) = await activator.decide("soup", [make_topic()])

    assert answer == gate.GateAnswer(approved=False, decider=Decider.RULE)


async def test_only_some_topics_of_one_message_are_asked_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A message that matches everything costs no more than a few questions. Rows: 002-R117."""
    monkeypatch.setattr(gate, "GATE_QUESTIONS_MAX", 2)
    model = GateModel("YES")

    answers = await GatedActivator(model).decide("soup", [make_topic(name) for name in "abc"])

    assert [answer.decider for answer in answers] == ["model", "model", "rule"]


async def test_without_a_model_shared_terms_decide() -> None:
    """No feature needs a model. Rows: 002-R116, X-C17."""
    topic = make_topic(keywords=["deploy", "credit note"], description="Deploying services")
    activator = GatedActivator()

    assert await activator.should_activate("deploy both services", topic)
    assert await activator.should_activate("two credit notes", topic)
    assert not await activator.should_activate("the troops deploy at dawn", topic)


@pytest.mark.parametrize(("answer", "shown"), [("YES", True), ("NO", False)])
async def test_the_model_of_a_library_answers_the_gate(
    answer: str,
    shown: bool,  # noqa: FBT001
    tmp_path: Path,
) -> None:
    """What a prompt shows depends on its answer. Rows: 002-R116, 002-R118."""
    text = "---\ntype: topic\ntriggers: [deploy]\n---\n## Instructions\n\nDeploy to staging."
    (tmp_path / "topics").mkdir()
    (tmp_path / "topics" / "deployment.md").write_text(text, encoding="utf-8")
    library = Library.open(tmp_path, model=GateModel(answer))

    compiled = await library.compile("deploy it to staging")

    assert ("Deploy to staging." in compiled.text) is shown
