"""How a budget is divided among the tiers, by activity. Pure.

    tier           1 critical   2 relevant   3 background   4 index
    new feature    25 %         37.5 %       25 %           12.5 %      2,000 3,000 2,000 1,000
    debugging      37.5 %       31.25 %      18.75 %        12.5 %      3,000 2,500 1,500 1,000
    recall         6.25 %       81.25 %      6.25 %         6.25 %        500 6,500   500   500

A tier does not borrow from another.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ctxmgr.errors import Incorrect

BUDGET_TOKENS: Final = 8_000
"""What memories get by default."""

BUDGET_TOKENS_MAX: Final = 200_000

DEFAULT_PROFILE: Final = (2_000, 3_000, 2_000, 1_000)
DEBUGGING_PROFILE: Final = (3_000, 2_500, 1_500, 1_000)
RECALL_PROFILE: Final = (500, 6_500, 500, 500)
"""For answering a question about the past, where what matches is all that counts."""

PROFILES: Final[Mapping[str, tuple[int, int, int, int]]] = MappingProxyType(
    {
        "default": DEFAULT_PROFILE,
        "new_feature": DEFAULT_PROFILE,
        "debugging": DEBUGGING_PROFILE,
        "recall": RECALL_PROFILE,
    }
)
"""Tokens of each tier in a budget of ``BUDGET_TOKENS``, by activity."""


def tier_budgets(budget: int, activity: str | None = None) -> tuple[int, ...]:
    """Divide a budget among the tiers, without a remainder. Unknown activities are the default."""
    if not 0 < budget <= BUDGET_TOKENS_MAX:
        raise Incorrect(f"a budget is 1 to {BUDGET_TOKENS_MAX:,} tokens, not {budget}")
    profile = PROFILES.get(activity or "default", DEFAULT_PROFILE)
    parts = [budget * share // BUDGET_TOKENS for share in profile]
    parts[1] += budget - sum(parts)
    return tuple(parts)
