"""The economy policy: one dial, prices, a window; and what follows from them. Pure.

    fidelity 0          0.5            1
             lean       the default    faithful

The dial moves every limit together, from figures that were measured on recorded sessions at three
places; between them it goes geometrically. Nothing else is there to be set by feeling: prices and
window are the provider's.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Final, Self

from ctxmgr.core.folding import Limits
from ctxmgr.core.planner import Prices
from ctxmgr.core.tool_kinds import Kind
from ctxmgr.errors import Incorrect

WINDOW_TOKENS: Final = 200_000
"""What the models in use take."""

ASKED_BACK_MAX: Final = 4
"""Times that a kind of output is shown twice as long because its texts were asked back."""

ENDS: Final = 0.3
"""The share of an arriving text's limit that its first and last lines get."""

# At fidelity 0, 0.5 and 1.
_ARRIVING: Final[Mapping[Kind, tuple[float, float, float]]] = {
    Kind.READ: (300, 2000, 20_000),
    Kind.SEARCH: (200, 600, 4000),
    Kind.WRITE: (80, 80, 400),
    Kind.RUN: (100, 420, 4000),
    Kind.OTHER: (250, 1000, 8000),
    Kind.ARGUMENT: (25, 60, 600),
}
_READ_SHARE: Final = (0.2, 0.6, 1.0)
_AGED_SHARE: Final = (0.05, 0.3, 0.7)
_AGED: Final = (60, 600, 3000)
_AGED_ARGUMENT_SHARE: Final = (0.05, 0.1, 0.4)
_AGED_ARGUMENT: Final = (20, 40, 150)
_CAUTION: Final = (2, 4, 8)

NAMES_TOKENS: Final = 300
NAMES_SHARE: Final = 0.1
"""Hidden names may cost so many tokens, or this share of a long text."""

ARGUMENT_NAMES_TOKENS: Final = 100

IDLE_CALLS: Final = 4
"""An output that no action has used for so long may be folded further."""

IDLE_CALLS_ARGUMENT: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Economy:
    """The cheapest prompt that forgets nothing it needs; give it as ``render(policy=…)``."""

    name: ClassVar[str] = "economy"

    fidelity: float = 0.5
    """From 0, lean, to 1, faithful."""
    window_tokens: int = WINDOW_TOKENS
    """The prompt is never longer."""
    prices: Prices = field(default_factory=Prices)
    calls_expected: int | None = None
    """Calls still to come, where the caller knows; None: guessed from those there have been."""
    model: str | None = None
    """Another model has none of the prompt cached."""

    def __post_init__(self) -> None:
        if not 0 <= self.fidelity <= 1:
            raise Incorrect(f"fidelity is between 0 (lean) and 1 (faithful), not {self.fidelity}")
        if self.window_tokens < 1:
            raise Incorrect(f"a window of {self.window_tokens} tokens holds no prompt")
        if self.calls_expected is not None and self.calls_expected < 0:
            raise Incorrect(f"{self.calls_expected} calls cannot be expected")

    @property
    def caution(self) -> float:
        """How many times fewer calls are expected to come than there have been."""
        return self._at(_CAUTION)

    def arriving(self, kind: Kind, *, tokens: int, asked_back: int = 0) -> Limits:
        """Tell how long a text of so many tokens is shown when it arrives.

        ``asked_back`` counts the texts of its kind that were folded and then wanted after all.
        """
        limit = self._at(_ARRIVING[kind])
        if kind is Kind.READ:
            limit = max(limit, self._at(_READ_SHARE) * tokens)
        limit *= 2 ** min(asked_back, ASKED_BACK_MAX)
        return Limits(tokens=int(limit), ends=ENDS, names_tokens=_names_tokens(kind, tokens))

    def aged(self, kind: Kind, *, tokens: int) -> Limits:
        """Tell how long it is once it has been idle."""
        argument = kind is Kind.ARGUMENT
        share = self._at(_AGED_ARGUMENT_SHARE if argument else _AGED_SHARE)
        most = self._at(_AGED_ARGUMENT if argument else _AGED)
        limit = int(min(share * tokens, most))
        return Limits(tokens=limit, names_tokens=_names_tokens(kind, tokens))

    def to_value(self) -> dict[str, Any]:
        """Return the settings as a turn record keeps them."""
        return asdict(self)

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> Self:
        known = {each.name: value[each.name] for each in fields(cls)}
        return cls(**known | {"prices": Prices(**value["prices"])})

    def _at(self, figures: tuple[float, float, float]) -> float:
        low, middle, high = figures
        if self.fidelity <= 0.5:  # noqa: PLR2004 (the middle of the dial)
            return float(low * (middle / low) ** (self.fidelity * 2))
        return float(middle * (high / middle) ** (self.fidelity * 2 - 1))


STUB: Final = Limits(tokens=0, names_tokens=NAMES_TOKENS)
"""What was put away, or has to go: the handle and the names."""


def idle_calls(kind: Kind) -> int:
    return IDLE_CALLS_ARGUMENT if kind is Kind.ARGUMENT else IDLE_CALLS


def policy_of(given: str | Economy) -> Economy:
    """Read what ``render(policy=…)`` was given."""
    if isinstance(given, Economy):
        return given
    if given == Economy.name:
        return Economy()
    raise Incorrect(f"{given!r:.80} is no policy; known: {Economy.name}")


def _names_tokens(kind: Kind, tokens: int) -> int:
    if kind is Kind.ARGUMENT:
        return ARGUMENT_NAMES_TOKENS
    return max(NAMES_TOKENS, int(NAMES_SHARE * tokens))
