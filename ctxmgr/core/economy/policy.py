"""The economy policy: fidelity, prices and window, and the limits derived from them. Pure.

    fidelity 0          0.5            1
             lean       the default    faithful

Fidelity scales all limits together. Their values at 0, 0.5 and 1 were measured on recorded
sessions; between these they are interpolated geometrically. Prices and window are the provider's.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, ClassVar, Final, Self

from ctxmgr.core.discovery.known_tools import OutputKind
from ctxmgr.core.economy.folding import HANDLE_TOKENS, FoldLimits
from ctxmgr.errors import Incorrect


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prices per token, relative to an uncached input token."""

    read: float = 0.1
    """Read from the provider's cache."""
    write: float = 1.25
    """Written to the provider's cache."""
    output: float = 5.0
    ttl_seconds: float = 300.0
    """How long the provider keeps an unused prefix."""


class EconomyMode(StrEnum):
    """When texts are shortened."""

    FOLD = "fold"
    """When they arrive, and again in batches that pay for the rewrite."""
    ARRIVAL = "arrival"
    """Only when they arrive: what was sent never changes, unless the window is exceeded."""


BINDS_THINKING: Final = re.compile(
    r"claude-(?:fable-5-[1-9]|(?:opus|sonnet|haiku)-5-[5-9]|[a-z]+-[6-9])(?!\d)"
)
"""Names of models whose thinking blocks are valid only after the text that they followed. A fold
before such a block would make it invalid."""


def binds_thinking(model: str | None) -> bool:
    return model is not None and BINDS_THINKING.search(model.lower().replace(".", "-")) is not None


WINDOW_TOKENS: Final = 200_000
"""The context window of current models."""

TEXT_TOKENS_MAX: Final = 10**9
"""Longer than any text that fits a window."""

ASKED_BACK_MAX: Final = 4
"""How often the limit of a kind of output is doubled because its texts were asked back."""

WHOLE_SHARE: Final = 0.1
"""The share of the window up to which a text that was asked for is first shown whole."""

ENDS: Final = 0.3
"""The share of an arriving text's limit for its first and last lines."""

LINES_SHARE: Final = 0.45
"""The share of a text for the lines that are kept: with marks and names, it must save half."""

# At fidelity 0, 0.5 and 1. Values are those of names per token.
_ARRIVING: Final[Mapping[OutputKind, tuple[float, float, float]]] = {
    OutputKind.READ: (300, 2000, 20_000),
    OutputKind.SEARCH: (200, 600, 4000),
    OutputKind.WRITE: (80, 80, 400),
    OutputKind.RUN: (100, 420, 4000),
    OutputKind.OTHER: (250, 850, 8000),
    OutputKind.ARGUMENT: (25, 200, 600),
}
_ARGUMENT_WHOLE: Final = (25, 60, 600)
_ARGUMENT_WORTH: Final = (0.2, 0.03, 0.02)
_AGED_SHARE: Final = (0.05, LINES_SHARE, LINES_SHARE)
_AGED: Final = (60, 2000, 6000)
_AGED_ARGUMENT_SHARE: Final = (0.05, 0.1, 0.4)
_AGED_ARGUMENT: Final = (20, 90, 150)
_AGED_WORTH: Final = (0.2, 0.045, 0.01)
# A line of a digest is read in every later call, and must be worth more than one of an idle text; a
# low limit would leave out worthy lines of long texts instead.
_DIGEST_SHARE: Final = (0.05, 0.5, 0.7)
_DIGEST: Final = (20, 2000, 3000)
_DIGEST_WORTH: Final = (0.2, 0.07, 0.01)
_CAUTION: Final = (2, 3, 8)

NAMES_TOKENS: Final = 300
NAMES_SHARE: Final = 0.1
"""The list of hidden names may take this many tokens, or this share of a long text."""

ARGUMENT_NAMES_TOKENS: Final = 100

PATIENCE: Final = 0.8
"""A batch waits until what it could have saved so far reaches this share of what the rewrite costs.
A batch that begins as soon as it pays is followed by the next one a few calls later."""

IDLE_CALLS: Final = 8
"""A text that no action has used for this many calls may be folded further."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Economy:
    """Settings of the economy policy, for ``render(policy=…)``."""

    name: ClassVar[str] = "economy"

    fidelity: float = 0.5
    """How much is shown, from 0 (lean) to 1 (faithful)."""
    window_tokens: int = WINDOW_TOKENS
    """The maximum length of a prompt."""
    prices: Prices = field(default_factory=Prices)
    calls_expected: int | None = None
    """The number of calls still to come; None: estimated from the calls so far."""
    model: str | None = None
    """The model that is called. After a change, none of the prompt is cached."""
    shorten_prose: bool = False
    """Whether the assistant's own text is shortened, too, in turns that became a digest."""
    mode: EconomyMode | None = None
    """When texts are shortened; None: chosen by the model's name."""

    def __post_init__(self) -> None:
        if self.mode is not None:
            try:
                object.__setattr__(self, "mode", EconomyMode(self.mode))
            except ValueError:
                known = ", ".join(EconomyMode)
                raise Incorrect(f"unknown mode {self.mode!r:.80} (one of: {known})") from None
        if not 0 <= self.fidelity <= 1:
            raise Incorrect(f"fidelity must be between 0 and 1, not {self.fidelity}")
        if self.window_tokens < 1:
            raise Incorrect(f"window_tokens must be positive, not {self.window_tokens}")
        if self.calls_expected is not None and self.calls_expected < 0:
            raise Incorrect(f"calls_expected must not be negative, but is {self.calls_expected}")

    @property
    def folds_sent(self) -> bool:
        """Whether text may be folded that was already sent."""
        mode = self.mode or (
            EconomyMode.ARRIVAL if binds_thinking(self.model) else EconomyMode.FOLD
        )
        return mode is EconomyMode.FOLD

    @property
    def caution(self) -> float:
        """The ratio of calls so far to calls that are expected to follow."""
        return self._at(_CAUTION)

    def arriving(self, kind: OutputKind, *, tokens: int, asked_back: int = 0) -> FoldLimits:
        """Return the limits for a text of this many tokens when it arrives.

        ``asked_back`` counts the texts of its kind that were requested in full after a fold.
        """
        if kind is OutputKind.ARGUMENT and not self.folds_sent:
            return self.aged(kind, tokens=tokens)
        limit = self._at(_ARRIVING[kind])
        if kind is OutputKind.READ:
            limit = max(limit, WHOLE_SHARE * self.window_tokens / 2)
        limit *= 2 ** min(asked_back, ASKED_BACK_MAX)
        names_tokens = _names_tokens(kind, tokens)
        if kind is not OutputKind.ARGUMENT:
            return FoldLimits(tokens=int(limit), ends=ENDS, names_tokens=names_tokens)
        return FoldLimits(
            tokens=max(0, int(min(limit, LINES_SHARE * tokens - HANDLE_TOKENS))),
            ends=ENDS,
            names_tokens=names_tokens,
            over=int(self._at(_ARGUMENT_WHOLE)),
            worth_min=self._at(_ARGUMENT_WORTH),
        )

    def shown_whole(self, kind: OutputKind, *, tokens: int) -> bool:
        """Whether a text is whole in the first prompt that shows it: it was asked for.

        If it cannot be folded later, its lines may be shown by reference.
        """
        asked_for = kind is OutputKind.READ and tokens <= WHOLE_SHARE * self.window_tokens
        return asked_for and self.folds_sent

    def aged(self, kind: OutputKind, *, tokens: int) -> FoldLimits:
        """Return the limits for a text that has been idle."""
        argument = kind is OutputKind.ARGUMENT
        share = self._at(_AGED_ARGUMENT_SHARE if argument else _AGED_SHARE)
        most = self._at(_AGED_ARGUMENT if argument else _AGED)
        limit = int(min(share * tokens, most))
        return FoldLimits(
            tokens=limit,
            names_tokens=_names_tokens(kind, tokens),
            worth_min=self._at(_AGED_WORTH),
        )

    def digest(self, *, tokens: int) -> FoldLimits:
        """Return the limits for a call in a digest, whose texts have this many tokens."""
        limit = int(min(self._at(_DIGEST_SHARE) * tokens, self._at(_DIGEST)))
        return FoldLimits(
            tokens=limit,
            names_tokens=_names_tokens(OutputKind.OTHER, tokens),
            worth_min=self._at(_DIGEST_WORTH),
        )

    def once_compacted(self) -> Self:
        """Return the policy that shapes texts after the first compaction.

        From then on the prompt fills the window again and again. Folding does not make it shorter
        on average, it only delays the next compaction: less is worth losing lines for that.
        """
        return replace(self, fidelity=min(1.0, 2 * self.fidelity))

    def to_value(self) -> dict[str, Any]:
        """Return the settings as a turn record stores them."""
        return asdict(self) | {"mode": None if self.mode is None else str(self.mode)}

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> Self:
        new = {"mode", "shorten_prose"}  # records of earlier versions lack it
        settings = {
            field.name: value[field.name]
            for field in fields(cls)
            if field.name in value or field.name not in new
        }
        return cls(**settings | {"prices": Prices(**value["prices"])})

    def _at(self, figures: tuple[float, float, float]) -> float:
        low, middle, high = figures
        if self.fidelity <= 0.5:  # noqa: PLR2004 (the middle of the dial)
            return float(low * (middle / low) ** (self.fidelity * 2))
        return float(middle * (high / middle) ** (self.fidelity * 2 - 1))


DIGEST_AGE: Final = 30
"""Calls after which a turn may become a digest."""

DIGEST_CALLS_MIN: Final = 90
"""Calls from which on digests are considered: in a shorter session they do not pay."""

DIGEST_EVERY: Final = 8
"""Calls between two plans that consider digests: they concern many old turns, not the newest."""

PROSE_SHARE: Final = 0.3
"""What is kept of the assistant's text in a digest, if that is shortened."""

PROSE_TOKENS_MIN: Final = 40
"""A shorter text of the assistant is kept."""

STUB: Final = FoldLimits(tokens=0, names_tokens=NAMES_TOKENS, protects=False)
"""For a text that was put away or must go: only the handle and the names are kept."""

REPEATS: Final = FoldLimits(tokens=0, only_repeats=True)
"""For a text whose lines are visible elsewhere: they become references, all others stay."""

UNTOUCHED: Final = FoldLimits(tokens=0, over=TEXT_TOKENS_MAX, refers=False)
"""For a text that arrives whole and is not shown by reference later either."""


def _names_tokens(kind: OutputKind, tokens: int) -> int:
    if kind is OutputKind.ARGUMENT:
        return ARGUMENT_NAMES_TOKENS
    return max(NAMES_TOKENS, int(NAMES_SHARE * tokens))
