"""Timing of benchmarks: both sides of a ratio alternate, so that a busy moment affects both.

The medians of several rounds are compared: on a shared machine the fastest round is luck, and the
mean depends on other processes.
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
        """Our speed relative to the baseline."""
        return self.baseline / self.ours


async def alternate(ours: Round, baseline: Round, *, rounds: int) -> Times:
    """Time both sides alternately, after one warm-up round of each."""
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        for side, run in enumerate((ours, baseline)):
            seconds = await timed(run)
            if number:
                times[side].append(seconds)
    return Times(median(times[0]), median(times[1]))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that ``share`` per cent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share / 100), len(ordered) - 1)]


async def timed(run: Round) -> float:
    started = perf_counter()
    await run()
    return perf_counter() - started
