"""A run's budget in dollars: what is spent, and whether it pays for one more call. Pure.

    estimate of the next call   the prompt of the last metered call as the provider counted it, and
                                what was added to it since by our count; the same share of it
                                cached; plus the longest answer so far

A call is not made if its estimate exceeds what is left. An answer may be longer than any before, so
the last answer can exceed the budget. A call whose usage is not reported counts as estimated.
"""

from dataclasses import dataclass, replace
from typing import Self

from ctxmgr.core.model import Usage
from ctxmgr.core.prices import ModelPrice, PriceList
from ctxmgr.errors import Incorrect


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A limit in dollars, and what was spent of it."""

    max_usd: float
    price: ModelPrice
    spent_usd: float = 0.0
    uncounted: int = 0
    """Tokens of the last prompt beyond those that we counted: tools, framing, another tokenizer."""
    cached: float = 0.0
    """The share of the last prompt that was read from the provider's cache."""
    answer_tokens: int = 0
    """Of the longest answer so far."""

    @classmethod
    def of(cls, max_usd: float | None, *, prices: PriceList, model: str) -> Self | None:
        """Return a budget; None without a limit. ``Incorrect`` if the model has no price."""
        if max_usd is None:
            return None
        if not 0 < max_usd < float("inf"):
            raise Incorrect(f"max_usd must be more than 0, not {max_usd}")
        price = prices.of(model)
        if price is None:
            raise Incorrect(
                f"max_usd needs the price of {model!r:.80}, which is not known: set "
                f'[prices."{model:.80}"] with input and output, in USD per million tokens, in the '
                "settings"
            )
        return cls(max_usd=max_usd, price=price)

    def estimate(self, prompt_tokens: int) -> float:
        """Return what a call with a prompt of so many tokens, by our count, will cost."""
        prompt = max(0, prompt_tokens + self.uncounted)
        read = round(prompt * self.cached)
        usage = Usage(
            cache_read_tokens=read,
            cache_written_tokens=prompt - read,
            output_tokens=self.answer_tokens,
        )
        return self.price.usd(usage)

    def allows(self, prompt_tokens: int) -> bool:
        """Return whether what is left pays for a call."""
        return self.spent_usd + self.estimate(prompt_tokens) <= self.max_usd

    def charged(self, usage: Usage | None, *, prompt_tokens: int) -> Self:
        """Return the budget after a call; the tokens of its prompt are those that we counted."""
        if usage is None:
            return replace(self, spent_usd=self.spent_usd + self.estimate(prompt_tokens))
        sent = usage.prompt_tokens
        return replace(
            self,
            spent_usd=self.spent_usd + self.price.usd(usage),
            uncounted=sent - prompt_tokens if sent else self.uncounted,
            cached=usage.cache_read_tokens / sent if sent else self.cached,
            answer_tokens=max(self.answer_tokens, usage.output_tokens),
        )
