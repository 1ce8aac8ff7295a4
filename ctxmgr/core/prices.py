"""Prices of models in US dollars, and what a call cost. Pure.

    PriceList.of(model)                 the price of a model; None if it is not listed
    PriceList.usd(model, usage)         what a call cost, by the usage its provider reported
    PriceList.estimate(model, …)        what a call would cost, by our own token counts

``LISTED`` holds public list prices in USD per million tokens, without discounts for batches or
contracts, as the providers' pages in ``SOURCES`` gave them in ``AS_OF``. A model is matched by the
longest listed name that begins its name, if only a date or an alias follows: ``claude-sonnet-4-5``
prices ``claude-sonnet-4-5-20250929``, and ``gpt-5`` does not price ``gpt-5-other``. A model that is
not listed has no price; nothing is guessed. A person can add and replace prices in the settings
(``[prices."NAME"]``), where any model whose name begins with NAME matches.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ctxmgr.core.model import Usage

AS_OF: Final = "2026-10"
"""The month of the sources that the list was compared with."""

SOURCES: Final = (
    "https://platform.claude.com/docs/en/about-claude/pricing",
    "https://developers.openai.com/api/docs/pricing",
)

PER: Final = 1_000_000
"""Tokens that a price is for."""

_SAME_MODEL: Final = re.compile(r"(-latest|[-@]\d{8}|-\d{4}-\d{2}-\d{2})?")
"""What may follow a listed name: an alias or the date of a snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPrice:
    """USD per million tokens."""

    input: float
    output: float
    cache_read: float
    cache_write: float
    """Kept for five minutes, or for as long as the provider decides."""
    cache_write_1h: float
    long_prompt_tokens: int | None = None
    """A prompt with more tokens, cached ones included, is charged at ``long``."""
    long: "ModelPrice | None" = None

    def usd(self, usage: Usage) -> float:
        """Return what one call cost."""
        if self.long_prompt_tokens is not None and usage.prompt_tokens > self.long_prompt_tokens:
            assert self.long is not None
            return self.long.usd(usage)
        hour = min(usage.cache_written_1h_tokens, usage.cache_written_tokens)
        return (
            usage.input_tokens * self.input
            + usage.cache_read_tokens * self.cache_read
            + (usage.cache_written_tokens - hour) * self.cache_write
            + hour * self.cache_write_1h
            + usage.output_tokens * self.output
        ) / PER


@dataclass(frozen=True, slots=True)
class PriceList:
    """The listed prices, and those of a person, which take precedence."""

    own: Mapping[str, ModelPrice] = field(default_factory=dict)
    """By the beginning of a model's name."""

    def of(self, model: str | None) -> ModelPrice | None:
        """Return the price of a model by its provider's name; None if it is not known."""
        if model is None:
            return None
        mine = [name for name in self.own if model.startswith(name)]
        if mine:
            return self.own[max(mine, key=len)]
        listed = [
            name
            for name in LISTED
            if model.startswith(name) and _SAME_MODEL.fullmatch(model, len(name))
        ]
        return LISTED[max(listed, key=len)] if listed else None

    def usd(self, model: str | None, usage: Usage | None) -> float | None:
        """Return what one call cost; None if its price or its usage is not known."""
        price = self.of(model)
        return None if price is None or usage is None else price.usd(usage)

    def estimate(
        self, model: str | None, *, prompt_tokens: int, cached_tokens: int, output_tokens: int
    ) -> float | None:
        """Estimate the cost of one call whose usage was not reported; None without a price.

        What is not cached counts as written to the cache, which every later call profits from.
        """
        usage = Usage(
            cache_read_tokens=cached_tokens,
            cache_written_tokens=prompt_tokens - cached_tokens,
            output_tokens=output_tokens,
        )
        return self.usd(model, usage)


def _claude(
    base: float,
    output: float,
    *,
    read: float = 0.1,
    long_prompt_tokens: int | None = None,
    long: ModelPrice | None = None,
) -> ModelPrice:
    """Anthropic: writes cost 1.25 and 2 times the input price; reads a tenth, or ``read``."""
    return ModelPrice(
        input=base,
        output=output,
        cache_read=base * read,
        cache_write=base * 1.25,
        cache_write_1h=base * 2,
        long_prompt_tokens=long_prompt_tokens,
        long=long,
    )


def _gpt(
    base: float,
    output: float,
    *,
    read: float = 0.1,
    long_prompt_tokens: int | None = None,
    long: ModelPrice | None = None,
) -> ModelPrice:
    """OpenAI: what is written to the cache costs as much as any input; reads, ``read`` of it."""
    return ModelPrice(
        input=base,
        output=output,
        cache_read=base * read,
        cache_write=base,
        cache_write_1h=base,
        long_prompt_tokens=long_prompt_tokens,
        long=long,
    )


LISTED: Final[Mapping[str, ModelPrice]] = {
    "claude-fable-5-1": _claude(10, 50, read=0.025),
    "claude-fable-5": _claude(10, 50),
    "claude-mythos-5-1": _claude(10, 50, read=0.025),
    "claude-mythos-5": _claude(10, 50),
    "claude-opus-5-5": _claude(4, 20, read=0.05),
    "claude-opus-5": _claude(5, 25),
    "claude-opus-4-8": _claude(5, 25),
    "claude-opus-4-7": _claude(5, 25),
    "claude-opus-4-6": _claude(5, 25),
    "claude-opus-4-5": _claude(5, 25),
    "claude-opus-4-1": _claude(15, 75),
    "claude-opus-4": _claude(15, 75),
    "claude-opus-4-0": _claude(15, 75),
    "claude-sonnet-5-5": _claude(2, 10, read=0.05),
    "claude-sonnet-5": _claude(2, 10),
    "claude-sonnet-4-6": _claude(3, 15),
    "claude-sonnet-4-5": _claude(3, 15),
    "claude-sonnet-4": _claude(3, 15),
    "claude-sonnet-4-0": _claude(3, 15),
    "claude-3-7-sonnet": _claude(3, 15),
    "claude-haiku-5-5": _claude(0.1, 0.5, long_prompt_tokens=100_000, long=_claude(0.5, 2.5)),
    "claude-haiku-4-5": _claude(1, 5),
    "claude-3-5-haiku": _claude(0.8, 4),
    "gpt-5.5": _gpt(5, 30, long_prompt_tokens=272_000, long=_gpt(10, 45)),
    "gpt-5.4": _gpt(2.5, 15, long_prompt_tokens=272_000, long=_gpt(5, 22.5)),
    "gpt-5.4-mini": _gpt(0.75, 4.5),
    "gpt-5.4-nano": _gpt(0.2, 1.25),
    "gpt-5.2": _gpt(1.75, 14),
    "gpt-5.1": _gpt(1.25, 10),
    "gpt-5.1-codex": _gpt(1.25, 10),
    "gpt-5": _gpt(1.25, 10),
    "gpt-5-codex": _gpt(1.25, 10),
    "gpt-5-mini": _gpt(0.25, 2),
    "gpt-5-nano": _gpt(0.05, 0.4),
    "gpt-4.1": _gpt(2, 8, read=0.25),
    "gpt-4.1-mini": _gpt(0.4, 1.6, read=0.25),
    "gpt-4.1-nano": _gpt(0.1, 0.4, read=0.25),
    "gpt-4o": _gpt(2.5, 10, read=0.5),
    "gpt-4o-mini": _gpt(0.15, 0.6, read=0.5),
    "o3": _gpt(2, 8, read=0.25),
    "o3-mini": _gpt(1.1, 4.4, read=0.5),
    "o4-mini": _gpt(1.1, 4.4, read=0.25),
}
"""Public list prices by model."""
