"""Model: the contract for language models, and the cost of their calls. Contract.

    Request ─► Model.stream ─► TextDelta* ToolUse* … AnswerDone     or an error, and no AnswerDone
               Question ─► ask ─► TextAnswer: the text and its cost
               Flow ────► follow ─► its result, a Ledger

A payload is what ``render`` returns in the model's form, or plain text, which every model takes as
one message of the user. Only ``AnswerDone`` makes the streamed parts an answer: a stream that
breaks off raises, and what it yielded until then may be displayed but not stored.

``read_usage`` reads the usage that turns store, whichever API reported it:

    ours        the counts of ``Usage``, as ``to_value`` returns them
    Anthropic   input_tokens exclude what was read from the cache or written to it
    OpenAI      prompt_tokens (or input_tokens, with details) include cached tokens
"""

from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Final, Protocol, Self, TypeAlias, TypeVar

from ctxmgr.core.store.documents import Document

OUTPUT_TOKENS_MAX: Final = 8192
"""Of one answer: the limit of the smallest current models."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request to a model."""

    payload: Any = field(repr=False)
    """What ``render`` returns in the model's form, or plain text."""
    purpose: str
    """What the call is for, in the ledger: ``turn``, ``summary``, …"""
    tools: tuple[Document, ...] = field(default=(), repr=False)
    """Tool definitions in the model's form."""
    output_tokens_max: int = OUTPUT_TOKENS_MAX
    temperature: float | None = None
    """None: the provider's default. Some models accept no other."""


class Stop(StrEnum):
    """Why an answer ended."""

    DONE = "done"
    TOOLS = "tools"
    """It waits for the results of its tool calls."""
    LENGTH = "length"
    """It reached a limit of tokens, so the text or the last tool call may be incomplete."""
    REFUSED = "refused"
    """The provider's content filter ended it."""
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one or more calls. The first four never overlap, whatever the provider reports."""

    input_tokens: int = 0
    """Prompt tokens that were neither read from the provider's cache nor written to it."""
    cache_read_tokens: int = 0
    cache_written_tokens: int = 0
    output_tokens: int = 0
    """Including the model's reasoning."""
    cache_written_1h_tokens: int = 0
    """Those of ``cache_written_tokens`` that are kept for an hour, which costs more."""

    @property
    def prompt_tokens(self) -> int:
        """All tokens of the prompt."""
        return self.input_tokens + self.cache_read_tokens + self.cache_written_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_written_tokens=self.cache_written_tokens + other.cache_written_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_written_1h_tokens=self.cache_written_1h_tokens + other.cache_written_1h_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """The next piece of streamed text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """A complete tool call, for display; ``AnswerDone`` holds it as well."""

    tool: str
    args: Mapping[str, Any] | str = field(repr=False)
    """The raw text if the model did not write a JSON object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerDone:
    """The answer is complete. Only this makes the pieces before it an answer."""

    reply: Document = field(repr=False)
    """The reply as the model's API gives it when it is not streamed."""
    stop: Stop
    charge: "Charge"


AnswerPart: TypeAlias = TextDelta | ToolUse | AnswerDone
"""What ``Model.stream`` yields: ``TextDelta``, ``ToolUse`` or ``AnswerDone``."""


class Model(Protocol):
    """A language model. Requests may run concurrently; its creator closes it."""

    @property
    def name(self) -> str:
        """The provider's name for the model."""
        ...

    @property
    def form(self) -> str:
        """The form of its payloads and replies, such as ``anthropic`` or ``openai``."""
        ...

    @property
    def unique_ids(self) -> bool:
        """Whether the provider guarantees that ids of tool calls are unique (003-A20)."""
        ...

    def stream(self, request: Request) -> AsyncGenerator[AnswerPart, None]:
        """Send a request and yield the answer as it arrives; the last piece is ``AnswerDone``.

        Raises ``ModelUnavailable`` if no answer came, ``AnswerLost`` if it broke off, ``Denied`` if
        the key was refused and ``Incorrect`` if the request was. Closing the generator, or
        cancelling the task that waits for it, ends the request.
        """
        ...


@dataclass(frozen=True, slots=True)
class MaskedModel:
    """A model that is asked without the secrets of its questions."""

    model: Model
    mask: Callable[[str], str]
    """Returns a text without its secrets."""

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def form(self) -> str:
        return self.model.form

    @property
    def unique_ids(self) -> bool:
        return self.model.unique_ids

    def stream(self, request: Request) -> AsyncGenerator[AnswerPart, None]:
        """As ``Model.stream``; only plain text is masked."""
        if isinstance(request.payload, str):
            request = replace(request, payload=self.mask(request.payload))
        return self.model.stream(request)


def cut_at_word(text: str, *, chars_max: int) -> str:
    """Return the beginning of a text that is masked later, without the word at the cut.

    Half of a secret is not recognised as one. Only ASCII words are dropped: secrets are made of
    them, and some languages have no spaces.
    """
    if len(text) <= chars_max:
        return text
    kept = text[:chars_max]
    return kept if text[chars_max].isspace() else kept.rstrip(_ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """The cost of one call."""

    purpose: str
    model: str
    usage: Usage | None
    """None if the provider did not report it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The total cost of the calls of one model for one purpose."""

    purpose: str
    model: str
    calls: int = 0
    unmetered: int = 0
    """Calls whose usage the provider did not report; ``usage`` does not include them."""
    usage: Usage = Usage()

    def charged(self, charge: Charge) -> Self:
        """Return the cost with one more call."""
        return type(self)(
            purpose=self.purpose,
            model=self.model,
            calls=self.calls + 1,
            unmetered=self.unmetered + (charge.usage is None),
            usage=self.usage + (charge.usage or Usage()),
        )


@dataclass(frozen=True, slots=True)
class Ledger:
    """What was spent, by purpose and model, in the order of first use."""

    costs: tuple[Cost, ...] = ()

    def charged(self, charge: Charge) -> Self:
        """Return the ledger with one more call."""
        costs = {(cost.purpose, cost.model): cost for cost in self.costs}
        key = (charge.purpose, charge.model)
        costs[key] = costs.get(key, Cost(purpose=key[0], model=key[1])).charged(charge)
        return type(self)(tuple(costs.values()))

    @property
    def usage(self) -> Usage:
        """The sum of all reported usage."""
        return sum((cost.usage for cost in self.costs), start=Usage())

    @property
    def calls(self) -> int:
        """The number of calls."""
        return sum(cost.calls for cost in self.costs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question to a model, without tools."""

    text: str = field(repr=False)
    purpose: str
    output_tokens_max: int = OUTPUT_TOKENS_MAX
    temperature: float | None = None
    """None: the provider's default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextAnswer:
    """The text of an answer, and its cost."""

    text: str = field(repr=False)
    stop: Stop
    charge: Charge


Flow: TypeAlias = Generator[Question, str, T]
"""Work that needs answers: it yields a question and is sent the answer's text."""


async def ask(model: Model, question: Question) -> TextAnswer:
    """Ask a model one question and return the complete answer."""
    request = Request(
        payload=question.text,
        purpose=question.purpose,
        output_tokens_max=question.output_tokens_max,
        temperature=question.temperature,
    )
    texts: list[str] = []
    async with aclosing(model.stream(request)) as parts:
        async for part in parts:
            match part:
                case TextDelta(text=text):
                    texts.append(text)
                case AnswerDone(stop=stop, charge=charge):
                    return TextAnswer(text="".join(texts), stop=stop, charge=charge)
    raise AssertionError("a model ended a stream without AnswerDone and without an error")


async def follow(flow: Flow[T], *, model: Model) -> tuple[T, Ledger]:
    """Answer a flow's questions one after the other; return its result and what they cost."""
    ledger = Ledger()
    try:
        question = next(flow)
        while True:
            answer = await ask(model, question)
            ledger = ledger.charged(answer.charge)
            question = flow.send(answer.text)
    except StopIteration as end:
        return end.value, ledger


class ToolDescription(Protocol):
    """A tool as the core describes it."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def schema(self) -> dict[str, Any]: ...


_ASCII: Final = "".join(map(chr, range(ord("!"), ord("~") + 1)))
_OURS: Final = frozenset(count.name for count in fields(Usage))


def to_value(usage: Usage) -> dict[str, int]:
    """Return usage as a turn stores it."""
    value = asdict(usage)
    if not usage.cache_written_1h_tokens:
        del value["cache_written_1h_tokens"]
    return value


def read_usage(usage: Mapping[str, Any] | None) -> Usage | None:
    """Read the usage stored with a turn, in the form of any API; None if it is empty."""
    if not usage:
        return None
    if "cache_read_tokens" in usage:
        return Usage(**{name: _number(usage, name) for name in _OURS})
    if "input_tokens" in usage and "input_tokens_details" not in usage:
        return anthropic_usage(usage)
    return openai_usage(usage)


def anthropic_usage(usage: Mapping[str, Any] | None) -> Usage | None:
    if not usage:
        return None
    written = usage.get("cache_creation")
    return Usage(
        input_tokens=_number(usage, "input_tokens"),
        cache_read_tokens=_number(usage, "cache_read_input_tokens"),
        cache_written_tokens=_number(usage, "cache_creation_input_tokens"),
        output_tokens=_number(usage, "output_tokens"),
        cache_written_1h_tokens=(
            _number(written, "ephemeral_1h_input_tokens") if isinstance(written, Mapping) else 0
        ),
    )


def openai_usage(usage: Mapping[str, Any] | None) -> Usage | None:
    if not usage:
        return None
    prompt = _number(usage, "prompt_tokens") or _number(usage, "input_tokens")
    values = (usage.get(name) for name in ("prompt_tokens_details", "input_tokens_details"))
    details = next((value for value in values if isinstance(value, Mapping)), usage)
    cached = _number(details, "cached_tokens") or _number(details, "cached_input_tokens")
    written = _number(usage, "cache_creation_input_tokens")
    written = written or _number(usage, "cache_write_input_tokens")
    return Usage(
        input_tokens=max(0, prompt - cached - written),
        cache_read_tokens=cached,
        cache_written_tokens=written,
        output_tokens=_number(usage, "completion_tokens") or _number(usage, "output_tokens"),
    )


def _number(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) and value > 0 else 0
