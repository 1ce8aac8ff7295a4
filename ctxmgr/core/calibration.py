"""What providers report for what we count: one ratio per model, with bounds. Pure.

    before CALLS_MIN calls   the bound that the vocabulary declares, widened by what was seen
    from then on           the least, the summed and the largest ratio of the last calls

A report is left out if it says nothing: a prompt so small that framing is most of it, or a number
so far off that it counts something else (only what was not cached, or nothing at all).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from types import MappingProxyType
from typing import Final, Self

from ctxmgr.core.vocabularies import UNKNOWN, Bound

CALLS_KEPT: Final = 32
"""Reports that a ratio is made of: a model's tokenizer does not change, the kind of text does."""

CALLS_MIN: Final = 8
"""Reports before their own spread is believed."""

COUNTED_MIN: Final = 1_000
"""Below it the provider's framing and tool definitions, which we do not see, are much of it."""

RATIO_MIN, RATIO_MAX = 0.5, 3.0
"""No tokenizer in use is so far from cl100k; a report beyond counts something else."""

MARGIN: Final = 1.03
"""Over the largest ratio that was reported: the next kind of text may be a little denser. On 3,739
recorded calls the largest alone was exceeded by one call in eight, and with this by one."""

MODELS_MAX: Final = 64
"""Models that are kept, those heard of last."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One prompt as both sides count it."""

    counted: int
    reported: int

    @property
    def ratio(self) -> float:
        return self.reported / self.counted


@dataclass(frozen=True, slots=True)
class Calibration:
    """How one model counts, as far as is known."""

    declared: Bound = UNKNOWN
    samples: tuple[Sample, ...] = ()

    def observe(self, *, counted: int, reported: int) -> Self:
        """Take in what the provider reported for a prompt; what says nothing changes nothing."""
        if counted < COUNTED_MIN or not RATIO_MIN <= reported / counted <= RATIO_MAX:
            return self
        return replace(self, samples=(*self.samples, Sample(counted, reported))[-CALLS_KEPT:])

    @property
    def bound(self) -> Bound:
        """The ratio to expect, and the range it has been in."""
        if not self.samples:
            return self.declared
        ratios = [sample.ratio for sample in self.samples]
        low, high = min(ratios), max(ratios)
        if len(ratios) < CALLS_MIN:
            low, high = min(low, self.declared.low), max(high, self.declared.high)
        likely = sum(r.reported for r in self.samples) / sum(r.counted for r in self.samples)
        return Bound(low=low, likely=min(max(likely, low), high), high=high)

    def likely(self, counted: int) -> int:
        """Say how many tokens the provider will report."""
        return round(counted * self.bound.likely)

    def at_most(self, counted: int) -> int:
        """Say how many tokens the provider will report at most, to keep inside a window."""
        return ceil(counted * self.bound.high * (MARGIN if self.samples else 1.0))


@dataclass(frozen=True, slots=True)
class Calibrations:
    """One calibration per model."""

    models: Mapping[str, Calibration] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "models", MappingProxyType(dict(self.models)))

    def of(self, model: str, *, declared: Bound = UNKNOWN) -> Calibration:
        return self.models.get(model) or Calibration(declared)

    def observe(
        self, model: str, *, counted: int, reported: int, declared: Bound = UNKNOWN
    ) -> Self:
        """Return these with one report more; beyond ``MODELS_MAX`` the longest unheard goes."""
        heard = self.of(model, declared=declared).observe(counted=counted, reported=reported)
        others = {name: each for name, each in self.models.items() if name != model}
        kept = {**others, model: heard}
        return type(self)(dict(list(kept.items())[-MODELS_MAX:]))
