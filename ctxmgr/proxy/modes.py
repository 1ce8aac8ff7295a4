"""What may be shaped, chosen by model. Pure.

    results     tool results, before they are sent for the first time
    arguments   arguments of calls as well
    folds       both, and texts that were sent before, in batches that pay for the rewrite

The first is always safe. Models that bind their thinking to the text before it reject a
conversation in which something changed later, so nothing is folded there unless a person asks for
it; whether they accept changed arguments next to signed thinking is not known.
"""

from enum import StrEnum
from typing import Final

from ctxmgr.core.economy.policy import Economy, EconomyMode, Prices, binds_thinking
from ctxmgr.proxy.engine import Api


class Shaping(StrEnum):
    """What may be shaped."""

    RESULTS = "results"
    ARGUMENTS = "arguments"
    FOLDS = "folds"


HOUR: Final = "1h"
"""The lifetime of a cached prefix that Claude Code asks for with a subscription."""

FIVE_MINUTES: Final = Prices(read=0.1, write=1.25, ttl_seconds=300)
ONE_HOUR: Final = Prices(read=0.1, write=2.0, ttl_seconds=3600)
OPENAI: Final = Prices(read=0.1, write=1.0, ttl_seconds=300)
"""Writing to the cache is free there. Prefixes are kept for five minutes or longer."""

BINDING_BETA: Final = "thinking-binding-controls-2026-08-01"
"""Needed for a request that lets the provider drop thinking whose prefix changed."""

DROP_BLOCK: Final = b'"block_binding":{"prefix_mismatch_behavior":"drop_block"}'


def shaping_for(model: str, chosen: Shaping | None) -> Shaping:
    """Return what may be shaped for a model."""
    if chosen is not None:
        return chosen
    return Shaping.RESULTS if binds_thinking(model) else Shaping.FOLDS


def prices_for(api: Api, ttl: str | None) -> Prices:
    """Return the prices of an API; ``ttl`` is the lifetime that the client's marks ask for."""
    if api is not Api.ANTHROPIC_MESSAGES:
        return OPENAI
    return ONE_HOUR if ttl == HOUR else FIVE_MINUTES


def policy_for(shaping: Shaping, *, fidelity: float, prices: Prices) -> Economy:
    """Return the economy policy of a conversation."""
    mode = EconomyMode.FOLD if shaping is Shaping.FOLDS else EconomyMode.ARRIVAL
    return Economy(fidelity=fidelity, prices=prices, mode=mode)
