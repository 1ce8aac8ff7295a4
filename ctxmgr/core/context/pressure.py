"""Decide what happens when a context window fills. Pure.

    fold      shorten old texts, each with a handle that brings it back
    flush     give layers the chance to save what matters, once before each compaction
    compact   replace the oldest half of what is rendered by a summary

One controller for the economy policy, whose spans are turns, and for the context window of an
experience log, whose spans are ticks. It changes only what is rendered.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import accumulate
from typing import Self


class PressureStep(StrEnum):
    """What to do next about a window."""

    NONE = "none"
    FOLD = "fold"
    FLUSH = "flush"
    COMPACT = "compact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """How far the measures against a full window have gone."""

    full_at: int
    """The tokens at which the window counts as full."""
    relieved_at: int
    """The tokens below which a full window must come: otherwise it would be full again soon, and
    each time the provider's cached prefix would be lost."""
    folded: bool = False
    """Whether the window was full, and everything that may be folded is folded."""
    flushed: bool = False
    """Whether the layers were asked to save since the last compaction."""

    def step(self, tokens: int) -> PressureStep:
        """Return what to do next if this many tokens are rendered."""
        if tokens < (self.relieved_at if self.folded else self.full_at):
            return PressureStep.NONE
        if not self.folded:
            return PressureStep.FOLD
        return PressureStep.COMPACT if self.flushed else PressureStep.FLUSH

    def done(self, step: PressureStep) -> Self:
        """Return the pressure after a step; NONE: the window is not full any more."""
        match step:
            case PressureStep.FOLD:
                return replace(self, folded=True)
            case PressureStep.FLUSH:
                return replace(self, flushed=True)
            case PressureStep.COMPACT:
                return replace(self, flushed=False)
            case PressureStep.NONE:
                return replace(self, folded=False)


def oldest_half(sizes: Sequence[int], *, tokens: int) -> int:
    """Return how many of the oldest spans to compact; the newest always stays.

    ``sizes`` are the tokens of the spans that are rendered, oldest first, and ``tokens`` those of
    everything that is rendered. The range is the shortest that holds at least half of these.
    """
    half = (tokens + 1) // 2
    spans = max(0, len(sizes) - 1)
    held_by = accumulate(sizes[:spans], initial=0)
    return next((n for n, held in enumerate(held_by) if held >= half), spans)


def tokens_after(tokens: int, *, removed: int, summary: int) -> int:
    """Return the tokens of a context whose oldest part was replaced by a summary."""
    return tokens - removed + summary
