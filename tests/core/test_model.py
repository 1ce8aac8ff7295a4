"""Asking a model, and accounting for its cost."""

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
    cut_at_word,
    follow,
)
from ctxmgr.errors import AnswerLost

USAGE = Usage(input_tokens=10, cache_read_tokens=5, cache_written_tokens=2, output_tokens=3)


@dataclass
class Parrot:
    """A model that repeats the question in two pieces, or fails if asked to."""

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
    """Layers need text and cost, and no message formats."""
    parrot = Parrot()

    answered = await ask(parrot, Question(text="Why?", purpose="summary", output_tokens_max=50))

    assert (answered.text, answered.stop) == ("Why?", Stop.DONE)
    assert answered.charge == Charge(purpose="summary", model="parrot", usage=USAGE)
    assert parrot.asked[0].output_tokens_max == 50


async def test_an_incomplete_answer_is_an_error() -> None:
    """A truncated summary must not be mistaken for a complete one."""
    with pytest.raises(AnswerLost):
        await ask(Parrot(breaks=True), Question(text="Why?", purpose="summary"))


async def test_a_flow_is_answered_question_by_question() -> None:
    """Code that needs a model yields questions; tests can answer them with strings."""

    def twice() -> Flow[list[str]]:
        first = yield Question(text="one", purpose="gate")
        second = yield Question(text=first + "+two", purpose="extraction")
        return [first, second]

    result, ledger = await follow(twice(), model=Parrot())

    assert result == ["one", "one+two"]
    assert [cost.purpose for cost in ledger.costs] == ["gate", "extraction"]
    assert ledger.usage.prompt_tokens == 34


async def test_a_flow_may_ask_nothing() -> None:
    """If there is nothing to decide, nothing is spent."""

    def silent() -> Flow[int]:
        yield from _nothing()
        return 7

    assert await follow(silent(), model=Parrot()) == (7, Ledger())


def test_a_ledger_sums_by_purpose_and_model() -> None:
    """Calls without reported usage are listed as such."""
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


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("short", "short"),
        ("key sk-ant-abcdefgh", "key "),
        ("keys abcde then", "keys abcde"),
        ("ABCDEFGHIJKLMNOP", ""),
        ("\u4f60\u597d" * 8, "\u4f60\u597d" * 5),
    ],
)
def test_a_text_is_not_cut_inside_a_word(text: str, kept: str) -> None:
    """002-A34: half a secret would not be masked; languages without spaces keep their text."""
    assert cut_at_word(text, chars_max=10) == kept
