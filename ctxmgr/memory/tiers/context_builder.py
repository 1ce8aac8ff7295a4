"""Fill four tiers with items and render them. Pure.

An item that does not fit is tried at its next shorter level, then left out; it is never cut. No
tier exceeds its tokens, nor the whole its budget. What was left out can be asked for, with the
reason; the items after which a tier was full are looked at only then.

Every item is one line and is counted once, with its line break: tokens do not span line breaks, so
that the counts of lines add up to that of the text.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from ctxmgr.memory.tiers.profiles import BUDGET_TOKENS, tier_budgets

HEADINGS: Final = (
    "## Needs attention",
    "## Relevant now",
    "## Background",
    "## Ask for more with expand(id)",
)

MISSES_MAX: Final = 20
"""Items in a row that do not fit, after which a tier counts as full."""

_SHOWN_ABOVE: Final = "shown above"
_TOO_LONG: Final = "does not fit what is left of the tier"

LINE_TOKENS_MIN: Final = 2
"""Tokens of the shortest line, its mark and line break: a tier with fewer left is full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierItem:
    """Something to show, in the forms in which it may be shown."""

    id: str
    """The id of a memory or contradiction: an item is shown once."""
    forms: tuple[str, ...]
    """The preferred form first, then shorter ones."""
    why: str
    """Why it is offered, for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownItem:
    """An item in a tier."""

    id: str
    tier: int
    text: str
    tokens: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OmittedItem:
    """An item that is not shown."""

    id: str
    tier: int
    reason: str
    why: str


@dataclass(slots=True)
class _Tier:
    budget: int
    lines: list[ShownItem] = field(default_factory=list)
    tokens: int = 0
    misses: int = 0
    """Items in a row that did not fit."""


class ContextBuilder:
    """Collects the items of each tier."""

    def __init__(
        self,
        budget: int = BUDGET_TOKENS,
        *,
        count: Callable[[str], int],
        activity: str | None = None,
    ) -> None:
        self.budget = budget
        self._count = count
        self._tiers = [_Tier(tokens) for tokens in tier_budgets(budget, activity)]
        self._ids: dict[str, int] = {}
        """Item → the tier that shows it."""
        self._omitted: list[OmittedItem] = []
        self._rest: list[tuple[int, Iterator[TierItem]]] = []
        """Items that were not looked at, since their tier was full."""

    def add_tier1(self, items: Iterable[TierItem]) -> None:
        self._add(1, items)

    def add_tier2(self, items: Iterable[TierItem]) -> None:
        self._add(2, items)

    def add_tier3(self, items: Iterable[TierItem]) -> None:
        self._add(3, items)

    def add_tier4(self, items: Iterable[TierItem]) -> None:
        """Add entries of the index until it is full; the rest is not looked at."""
        waiting = iter(items)
        while self._tiers[3].misses < MISSES_MAX and (batch := list(islice(waiting, MISSES_MAX))):
            self._add(4, batch)

    @property
    def shown(self) -> tuple[ShownItem, ...]:
        """What is shown, in the order of the text."""
        return tuple(item for tier in self._tiers for item in tier.lines)

    @property
    def omitted(self) -> tuple[OmittedItem, ...]:
        """What is not shown, with the reason."""
        for number, items in self._rest:
            for item in items:
                above = self._ids.get(item.id, len(HEADINGS) + 1) <= number
                self._omit(number, item, _SHOWN_ABOVE if above else _TOO_LONG)
        self._rest.clear()
        return tuple(self._omitted)

    @property
    def tier_tokens(self) -> tuple[int, ...]:
        """The tokens of each tier, its heading included."""
        return tuple(tier.tokens for tier in self._tiers)

    @property
    def token_count(self) -> int:
        return sum(self.tier_tokens)

    def render(self) -> str:
        """Return the text; empty if nothing is shown."""
        return "".join(
            "\n".join((HEADINGS[number], *(_line(item.text) for item in tier.lines), "", ""))
            for number, tier in enumerate(self._tiers)
            if tier.lines
        )

    def _add(self, number: int, items: Iterable[TierItem]) -> None:
        tier = self._tiers[number - 1]
        waiting = iter(items)
        while tier.misses < MISSES_MAX and (item := next(waiting, None)) is not None:
            if item.id in self._ids:
                self._omit(number, item, _SHOWN_ABOVE)
            elif self._put(number, tier, item):
                tier.misses = 0
            else:
                tier.misses += 1
                self._omit(number, item, _TOO_LONG)
        if tier.misses >= MISSES_MAX:
            self._rest.append((number, waiting))

    def _put(self, number: int, tier: _Tier, item: TierItem) -> bool:
        heading = 0 if tier.lines else self._count(f"{HEADINGS[number - 1]}\n") + self._count("\n")
        if tier.tokens + heading + LINE_TOKENS_MIN > tier.budget:
            return False
        for form in item.forms:
            text = " ".join(form.split())
            tokens = self._count(f"{_line(text)}\n")
            if tier.tokens + heading + tokens <= tier.budget:
                tier.lines.append(
                    ShownItem(id=item.id, tier=number, text=text, tokens=tokens, why=item.why)
                )
                tier.tokens += heading + tokens
                self._ids[item.id] = number
                return True
        return False

    def _omit(self, number: int, item: TierItem, reason: str) -> None:
        self._omitted.append(OmittedItem(id=item.id, tier=number, reason=reason, why=item.why))


def _line(text: str) -> str:
    return f"- {text}"
