"""Asking a model, and keeping account of what it cost."""

from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field

import pytest

from ctxmgr.core.model import (
    AnswerDone,
    AnswerPart,
    Charge,
    Cost,
    Flow,
    Ledger,
    Question,
    Request,
    Stop,
    TextDelta,
    Usage,
    ask,
    follow,
)
from ctxmgr.errors import AnswerLost

USAGE = Usage(input_tokens=10, cache_read_tokens=5, cache_written_tokens=2, output_tokens=3)


@dataclass
class Parrot:
    """A model that says the question again, in two pieces, until it is told to break."""

    name: str = "parrot"
    form: str = "text"
    unique_ids: bool = False
    breaks: bool = False
    asked: list[Request] = field(default_factory=list)

    async def stream(self, request: Request) -> AsyncGenerator[AnswerPart, None]:
        self.asked.append(request)
        yield TextDelta(text=request.payload[:2])
        if self.breaks:
            raise AnswerLost("broken")
        yield TextDelta(text=request.payload[2:])
        charge = Charge(purpose=request.purpose, model=self.name, usage=USAGE)
        yield AnswerDone(reply={}, stop=Stop.DONE, charge=charge)


async def test_a_question_gets_a_text_and_a_price() -> None:
    """What a layer needs of a model, and nothing of messages."""
    parrot = Parrot()

    answered = await ask(parrot, Question(text="Why?", purpose="summary", output_tokens_max=50))

    assert (answered.text, answered.stop) == ("Why?", Stop.DONE)
    assert answered.charge == Charge(purpose="summary", model="parrot", usage=USAGE)
    assert parrot.asked[0].output_tokens_max == 50


async def test_half_an_answer_is_none() -> None:
    """A summary that breaks off must not be taken for one."""
    with pytest.raises(AnswerLost):
        await ask(Parrot(breaks=True), Question(text="Why?", purpose="summary"))


async def test_a_flow_is_answered_question_by_question() -> None:
    """Work that needs a model is plain code that yields; a test drives it with strings as well."""

    def twice() -> Flow[list[str]]:
        first = yield Question(text="one", purpose="gate")
        second = yield Question(text=first + "+two", purpose="extraction")
        return [first, second]

    result, ledger = await follow(twice(), model=Parrot())

    assert result == ["one", "one+two"]
    assert [cost.purpose for cost in ledger.costs] == ["gate", "extraction"]
    assert ledger.usage.prompt_tokens == 34


async def test_a_flow_may_ask_nothing() -> None:
    """Where there is nothing to decide, nothing is spent."""

    def silent() -> Flow[int]:
        yield from _nothing()
        return 7

    assert await follow(silent(), model=Parrot()) == (7, Ledger())


def test_a_ledger_sums_by_purpose_and_model() -> None:
    """What a provider did not count is counted as not counted."""
    ledger = Ledger()
    for model, usage in (("a", USAGE), ("b", USAGE), ("a", None)):
        ledger = ledger.charged(Charge(purpose="turn", model=model, usage=usage))

    assert ledger.costs == (
        Cost(purpose="turn", model="a", calls=2, unmetered=1, usage=USAGE),
        Cost(purpose="turn", model="b", calls=1, usage=USAGE),
    )
    assert ledger.calls == 3
    assert ledger.usage == USAGE + USAGE


def _nothing() -> Iterator[Question]:
    yield from ()
