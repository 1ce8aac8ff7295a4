"""The economy policy: fidelity, prices and window, and the limits derived from them. Pure.

    fidelity 0          0.5            1
             lean       the default    faithful

Fidelity scales all limits together. Their values at 0, 0.5 and 1 were measured on recorded
sessions; between these they are interpolated geometrically. Prices and window are the provider's.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Final, Self

from ctxmgr.core.discovery.known_tools import OutputKind
from ctxmgr.core.economy.folding import FoldLimits
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


WINDOW_TOKENS: Final = 200_000
"""The context window of current models."""

ASKED_BACK_MAX: Final = 4
"""How often the limit of a kind of output is doubled because its texts were asked back."""

ENDS: Final = 0.3
"""The share of an arriving text's limit for its first and last lines."""

# At fidelity 0, 0.5 and 1.
_ARRIVING: Final[Mapping[OutputKind, tuple[float, float, float]]] = {
    OutputKind.READ: (300, 2000, 20_000),
    OutputKind.SEARCH: (200, 600, 4000),
    OutputKind.WRITE: (80, 80, 400),
    OutputKind.RUN: (100, 420, 4000),
    OutputKind.OTHER: (250, 1000, 8000),
    OutputKind.ARGUMENT: (25, 60, 600),
}
_READ_SHARE: Final = (0.2, 0.6, 1.0)
_AGED_SHARE: Final = (0.05, 0.3, 0.7)
_AGED: Final = (60, 600, 3000)
_AGED_ARGUMENT_SHARE: Final = (0.05, 0.1, 0.4)
_AGED_ARGUMENT: Final = (20, 40, 150)
_CAUTION: Final = (2, 4, 8)

NAMES_TOKENS: Final = 300
NAMES_SHARE: Final = 0.1
"""The list of hidden names may take this many tokens, or this share of a long text."""

ARGUMENT_NAMES_TOKENS: Final = 100

IDLE_CALLS: Final = 4
"""An output that no action has used for this many calls may be folded further."""

IDLE_CALLS_ARGUMENT: Final = 5


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

    def __post_init__(self) -> None:
        if not 0 <= self.fidelity <= 1:
            raise Incorrect(f"fidelity must be between 0 and 1, not {self.fidelity}")
        if self.window_tokens < 1:
            raise Incorrect(f"window_tokens must be positive, not {self.window_tokens}")
        if self.calls_expected is not None and self.calls_expected < 0:
            raise Incorrect(f"calls_expected must not be negative, but is {self.calls_expected}")

    @property
    def caution(self) -> float:
        """The ratio of calls so far to calls that are expected to follow."""
        return self._at(_CAUTION)

    def arriving(self, kind: OutputKind, *, tokens: int, asked_back: int = 0) -> FoldLimits:
        """Return the limits for a text of this many tokens when it arrives.

        ``asked_back`` counts the texts of its kind that were requested in full after a fold.
        """
        limit = self._at(_ARRIVING[kind])
        if kind is OutputKind.READ:
            limit = max(limit, self._at(_READ_SHARE) * tokens)
        limit *= 2 ** min(asked_back, ASKED_BACK_MAX)
        return FoldLimits(tokens=int(limit), ends=ENDS, names_tokens=_names_tokens(kind, tokens))

    def aged(self, kind: OutputKind, *, tokens: int) -> FoldLimits:
        """Return the limits for a text that has been idle."""
        argument = kind is OutputKind.ARGUMENT
        share = self._at(_AGED_ARGUMENT_SHARE if argument else _AGED_SHARE)
        most = self._at(_AGED_ARGUMENT if argument else _AGED)
        limit = int(min(share * tokens, most))
        return FoldLimits(tokens=limit, names_tokens=_names_tokens(kind, tokens))

    def to_value(self) -> dict[str, Any]:
        """Return the settings as a turn record stores them."""
        return asdict(self)

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> Self:
        settings = {field.name: value[field.name] for field in fields(cls)}
        return cls(**settings | {"prices": Prices(**value["prices"])})

    def _at(self, figures: tuple[float, float, float]) -> float:
        low, middle, high = figures
        if self.fidelity <= 0.5:  # noqa: PLR2004 (the middle of the dial)
            return float(low * (middle / low) ** (self.fidelity * 2))
        return float(middle * (high / middle) ** (self.fidelity * 2 - 1))


STUB: Final = FoldLimits(tokens=0, names_tokens=NAMES_TOKENS)
"""For a text that was put away or must go: only the handle and the names are kept."""


def idle_calls(kind: OutputKind) -> int:
    return IDLE_CALLS_ARGUMENT if kind is OutputKind.ARGUMENT else IDLE_CALLS


def _names_tokens(kind: OutputKind, tokens: int) -> int:
    if kind is OutputKind.ARGUMENT:
        return ARGUMENT_NAMES_TOKENS
    return max(NAMES_TOKENS, int(NAMES_SHARE * tokens))
