"""How things are timed: the two sides of a ratio take turns, so that a busy moment hits both.

Each side runs several rounds in alternation; the medians are compared, since on a shared machine
the fastest round is luck and the mean is whoever else was busy.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import TypeAlias

Round: TypeAlias = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Times:
    """Median seconds of one round."""

    ours: float
    baseline: float

    @property
    def speed(self) -> float:
        """How fast we are, with the baseline as 1."""
        return self.baseline / self.ours


async def alternate(ours: Round, baseline: Round, *, rounds: int) -> Times:
    """Time both sides in turn, after one round of each that does not count."""
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        for side, run in enumerate((ours, baseline)):
            seconds = await timed(run)
            if number:
                taken[side].append(seconds)
    return Times(median(taken[0]), median(taken[1]))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that so many per cent of them do not exceed."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share / 100), len(ordered) - 1)]


async def timed(run: Round) -> float:
    started = perf_counter()
    await run()
    return perf_counter() - started
