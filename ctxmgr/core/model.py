"""Model: ask, and what it cost. Contract.

    Request ─► Model.stream ─► Said* Called* … Ended         or an error, and then no Ended
               Question ─► ask ─► Answered: the text, what it cost
               Flow ────► follow ─► its result, a Ledger

A payload is what ``render`` gives in the model's form, or plain text, which every model takes as
one message of the user's. Only ``Ended`` makes an answer of what was streamed before it: a stream
that breaks off raises, and what it had said so far is for the eyes only.
"""

from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol, Self, TypeAlias, TypeVar

from ctxmgr.core.documents import Document

OUTPUT_TOKENS_MAX: Final = 8192
"""Of one answer: what the smallest of the current models give at most."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call of a model."""

    payload: Any = field(repr=False)
    """As ``render`` gives it in the model's form, or plain text."""
    purpose: str
    """What it is for, in the ledger: ``turn``, ``summary``, …"""
    tools: tuple[Document, ...] = field(default=(), repr=False)
    """Definitions in the model's form, as ``messages.tool_definitions`` gives them."""
    output_tokens_max: int = OUTPUT_TOKENS_MAX


class Stop(StrEnum):
    """Why an answer ended."""

    DONE = "done"
    TOOLS = "tools"
    """It waits for what its tool calls give."""
    LENGTH = "length"
    """It reached a limit: the text stops in the middle, and so may the last tool call."""
    REFUSED = "refused"
    """The provider's filter ended it."""
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The tokens of one call or many. The four overlap nowhere, whatever a provider counts."""

    input_tokens: int = 0
    """Of the prompt, neither read from the provider's cache nor written to it."""
    cache_read_tokens: int = 0
    cache_written_tokens: int = 0
    output_tokens: int = 0
    """With whatever the model thought to itself."""

    @property
    def prompt_tokens(self) -> int:
        """All that was sent."""
        return self.input_tokens + self.cache_read_tokens + self.cache_written_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_written_tokens=self.cache_written_tokens + other.cache_written_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A little more text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """A tool call, complete; for whoever watches. ``Ended`` holds it too."""

    tool: str
    args: Mapping[str, Any] | str = field(repr=False)
    """As text where the model wrote no JSON object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The answer is whole."""

    reply: Document = field(repr=False)
    """In the words of the model's form, as its API gives an answer that is not streamed."""
    stop: Stop
    charge: "Charge"


Piece: TypeAlias = Said | Called | Ended


class Model(Protocol):
    """A language model somewhere. Requests may be made at once; whoever made it closes it."""

    @property
    def name(self) -> str:
        """What its provider calls it."""
        ...

    @property
    def form(self) -> str:
        """The form of a payload that it takes, and of its replies: one of ``messages``."""
        ...

    @property
    def unique_ids(self) -> bool:
        """Whether its provider promises that no two tool calls have one id (003-A20)."""
        ...

    def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """Ask, and give the answer as it comes; the last piece is the only ``Ended``.

        Raises ``ModelUnavailable`` where no answer came, ``AnswerLost`` where one began and did
        not end, ``Denied`` for a key that is refused and ``Incorrect`` for a request that is.
        Closing it, or cancelling whoever waits for it, ends the request.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What one call cost."""

    purpose: str
    model: str
    usage: Usage | None
    """None: the provider did not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the calls of one model for one purpose cost together."""

    purpose: str
    model: str
    calls: int = 0
    unmetered: int = 0
    """Calls whose provider did not say what they cost; ``usage`` lacks theirs."""
    usage: Usage = Usage()

    def charged(self, charge: Charge) -> Self:
        return type(self)(
            purpose=self.purpose,
            model=self.model,
            calls=self.calls + 1,
            unmetered=self.unmetered + (charge.usage is None),
            usage=self.usage + (charge.usage or Usage()),
        )


@dataclass(frozen=True, slots=True)
class Ledger:
    """All that was spent, by purpose and model, in the order of first use."""

    costs: tuple[Cost, ...] = ()

    def charged(self, charge: Charge) -> Self:
        """Return the ledger with one call more."""
        known = {(cost.purpose, cost.model): cost for cost in self.costs}
        key = (charge.purpose, charge.model)
        known[key] = known.get(key, Cost(purpose=key[0], model=key[1])).charged(charge)
        return type(self)(tuple(known.values()))

    @property
    def usage(self) -> Usage:
        """The sum of all that was metered."""
        return sum((cost.usage for cost in self.costs), start=Usage())

    @property
    def calls(self) -> int:
        return sum(cost.calls for cost in self.costs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Something a model is to answer in words."""

    text: str = field(repr=False)
    purpose: str
    output_tokens_max: int = OUTPUT_TOKENS_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An answer in words, and what it cost."""

    text: str = field(repr=False)
    stop: Stop
    charge: Charge


Flow: TypeAlias = Generator[Question, str, T]
"""Work that needs answers: it yields a question and is sent the answer's text."""


async def ask(model: Model, question: Question) -> Answered:
    """Ask one question; the whole answer or an error."""
    request = Request(
        payload=question.text,
        purpose=question.purpose,
        output_tokens_max=question.output_tokens_max,
    )
    said: list[str] = []
    async with aclosing(model.stream(request)) as pieces:
        async for piece in pieces:
            match piece:
                case Said(text=text):
                    said.append(text)
                case Ended(stop=stop, charge=charge):
                    return Answered(text="".join(said), stop=stop, charge=charge)
    raise AssertionError("a model ended a stream without Ended and without an error")


async def follow(flow: Flow[T], *, model: Model) -> tuple[T, Ledger]:
    """Answer a flow's questions one after the other; return its result and what they cost."""
    ledger = Ledger()
    try:
        question = next(flow)
        while True:
            asked = await ask(model, question)
            ledger = ledger.charged(asked.charge)
            question = flow.send(asked.text)
    except StopIteration as end:
        return end.value, ledger
