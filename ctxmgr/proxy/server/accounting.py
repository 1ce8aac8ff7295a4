"""What a proxy saved or cost, in billed tokens, from the provider's own usage. Pure.

    billed     what the provider counted, weighted by price: 1 for an uncached input token, less for
               one read from the cache, more for one written to it or generated
    baseline   the same for the request that the client sent, had it gone out unchanged
    saved      baseline minus billed; negative if the proxy cost more than it saved

The baseline is counted beside each request, and scaled by the ratio of the provider's count to
ours. It gets the same cache: what the provider found of the previous request is found of the
previous baseline in the same proportion, so the cache's discount is never counted as saved. Only if
the proxy itself broke the prefix is the baseline's prefix taken as found. A request that returns
text to the model that the proxy had shortened would not have been made: its baseline is nothing.
"""

from dataclasses import dataclass, field
from typing import Final

from ctxmgr.core.economy.policy import Prices
from ctxmgr.core.history.cache_breaks import LOST_MIN
from ctxmgr.core.model import Usage

PRICES: Final = Prices()

WRITE_1H: Final = 2.0
"""The price of a token that the provider keeps for an hour."""

TTL_1H_SECONDS: Final = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedRequest:
    """What is known of a request when its answer has ended."""

    usage: Usage
    model: str | None
    began_ms: int
    baseline_tokens: int
    """Of the request that the client sent, by our count; 0 if it was not counted."""
    sent_tokens: int
    retrieved_tokens: int
    """Of texts that the model asked back."""
    planned: bool
    """Whether the proxy shortened what it had sent before."""
    break_cause: str | None
    """As the engine gives it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLoss:
    """A prefix that the provider did not find."""

    cause: str
    tokens: int
    """That had been sent before and were not read from the cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAccount:
    """One request's bill, and the one of the client's own request."""

    billed: float
    baseline: float
    baseline_prompt: float
    """Tokens of the client's own prompt, in the provider's count."""
    lost: CacheLoss | None

    @property
    def saved(self) -> float:
        return self.baseline - self.billed


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationAccount:
    """The sums of a conversation, and what the next request is compared with."""

    requests: int = 0
    usage: Usage = field(default_factory=Usage)
    billed: float = 0.0
    baseline: float = 0.0
    retrieved_tokens: int = 0
    breaks: int = 0
    lost_tokens: int = 0
    last: CountedRequest | None = None
    last_baseline_prompt: float = 0.0

    @property
    def saved(self) -> float:
        return self.baseline - self.billed

    def with_request(self, request: CountedRequest) -> "tuple[ConversationAccount, RequestAccount]":
        """Return the account with one more request, and that request's own."""
        account = _account(self, request)
        return (
            ConversationAccount(
                requests=self.requests + 1,
                usage=self.usage + request.usage,
                billed=self.billed + account.billed,
                baseline=self.baseline + account.baseline,
                retrieved_tokens=self.retrieved_tokens + request.retrieved_tokens,
                breaks=self.breaks + (account.lost is not None),
                lost_tokens=self.lost_tokens + (account.lost.tokens if account.lost else 0),
                last=request,
                last_baseline_prompt=account.baseline_prompt,
            ),
            account,
        )


def billed(usage: Usage) -> float:
    """Return usage in uncached input tokens."""
    short = usage.cache_written_tokens - usage.cache_written_1h_tokens
    return (
        usage.input_tokens
        + usage.cache_read_tokens * PRICES.read
        + short * PRICES.write
        + usage.cache_written_1h_tokens * WRITE_1H
        + usage.output_tokens * PRICES.output
    )


def _account(before: ConversationAccount, request: CountedRequest) -> RequestAccount:
    usage = request.usage
    cost = billed(usage)
    counted = request.sent_tokens > 0 and request.baseline_tokens > 0
    ratio = request.baseline_tokens / request.sent_tokens if counted else 1.0
    prompt = usage.prompt_tokens * ratio
    lost = _lost(before.last, request)
    if request.retrieved_tokens:
        return RequestAccount(billed=cost, baseline=0.0, baseline_prompt=prompt, lost=lost)
    cached = usage.cache_read_tokens + usage.cache_written_tokens
    if not cached or ratio == 1.0 == _last_ratio(before):
        extra = prompt - usage.prompt_tokens
        baseline = cost + extra if not cached else cost
        return RequestAccount(billed=cost, baseline=baseline, baseline_prompt=prompt, lost=lost)
    read = min(_baseline_read(before, request, ratio), prompt - usage.input_tokens)
    written = max(0.0, prompt - usage.input_tokens - read)
    write = WRITE_1H if usage.cache_written_1h_tokens else PRICES.write
    baseline = (
        usage.input_tokens
        + read * PRICES.read
        + written * write
        + usage.output_tokens * PRICES.output
    )
    return RequestAccount(billed=cost, baseline=baseline, baseline_prompt=prompt, lost=lost)


def _last_ratio(before: ConversationAccount) -> float:
    """Return how much longer the previous baseline was than what was sent."""
    if before.last is None or not before.last.usage.prompt_tokens:
        return 1.0
    return before.last_baseline_prompt / before.last.usage.prompt_tokens


def _baseline_read(before: ConversationAccount, request: CountedRequest, ratio: float) -> float:
    """Return how much of the client's own prompt the provider would have found in its cache."""
    if before.last is None or not before.last.usage.prompt_tokens:
        return request.usage.cache_read_tokens * ratio
    found = min(1.0, request.usage.cache_read_tokens / before.last.usage.prompt_tokens)
    return before.last_baseline_prompt * (1.0 if request.planned else found)


def _lost(last: CountedRequest | None, request: CountedRequest) -> CacheLoss | None:
    """Return what the provider did not find although it had been sent, and why."""
    if last is None or not last.usage.cache_read_tokens + last.usage.cache_written_tokens:
        return None
    sent_before = min(last.usage.prompt_tokens, request.usage.prompt_tokens)
    tokens = sent_before - request.usage.cache_read_tokens
    if tokens < LOST_MIN:
        return None
    return CacheLoss(cause=_cause(last, request), tokens=tokens)


def _cause(last: CountedRequest, request: CountedRequest) -> str:
    if request.break_cause is not None:
        return request.break_cause
    if last.model != request.model:
        return f"the client changed the model from {last.model} to {request.model}"
    idle = (request.began_ms - last.began_ms) / 1_000
    ttl = TTL_1H_SECONDS if last.usage.cache_written_1h_tokens else PRICES.ttl_seconds
    if idle > ttl:
        return f"the provider's cache expired: {idle:.0f} s since the previous request"
    return "the provider did not find it, although nothing before it changed"
