"""Calibration: token counts corrected by what providers report, within bounds."""

import math
from random import Random

import pytest

from ctxmgr.core.context.tokens import (
    CALLS_KEPT,
    CALLS_MIN,
    COUNTED_MIN,
    EXACT,
    MARGIN,
    UNKNOWN,
    Calibration,
)


def reported(ratio: float, *, calls: int) -> Calibration:
    calibration = Calibration()
    for _ in range(calls):
        calibration = calibration.observe(counted=10_000, reported=round(10_000 * ratio))
    return calibration


def test_without_reports_the_declared_bound_applies() -> None:
    """The first prompt must fit too, before any provider has reported a count."""
    assert Calibration().likely(10_000) == 12_000
    assert Calibration().at_most(10_000) == 15_000
    assert Calibration(EXACT).at_most(10_000) == 10_000


def test_reports_give_the_ratio_of_a_model() -> None:
    """After a few calls the provider's numbers are better than any table."""
    calibration = reported(1.31, calls=CALLS_MIN)

    assert calibration.likely(10_000) == 13_100
    assert calibration.at_most(10_000) == math.ceil(13_100 * MARGIN)


def test_a_few_reports_do_not_narrow_the_bound() -> None:
    """Three calls of the same kind of text say little about the next kind."""
    calibration = reported(1.31, calls=CALLS_MIN - 1)

    assert (calibration.bound.low, calibration.bound.high) == (UNKNOWN.low, UNKNOWN.high)


def test_the_bound_covers_every_reported_ratio() -> None:
    """A text of a kind already seen never exceeds the window."""
    random = Random(5)
    calibration = Calibration()
    seen = [random.uniform(1.05, 1.6) for _ in range(CALLS_KEPT)]

    for ratio in seen:
        calibration = calibration.observe(counted=50_000, reported=round(50_000 * ratio))

    assert all(calibration.at_most(50_000) >= round(50_000 * ratio) for ratio in seen)
    assert calibration.bound.low <= calibration.bound.likely <= calibration.bound.high


@pytest.mark.parametrize(
    ("counted", "report"), [(COUNTED_MIN - 1, 2_000), (10_000, 0), (10_000, 400), (10_000, 90_000)]
)
def test_an_implausible_report_is_ignored(counted: int, report: int) -> None:
    """Some providers leave the cached part out of the prompt's tokens, and some report nothing."""
    assert Calibration().observe(counted=counted, reported=report) == Calibration()


def test_old_reports_are_replaced() -> None:
    """Memory is bounded, and the kind of text changes over a session."""
    calibration = reported(1.5, calls=CALLS_KEPT)

    for _ in range(CALLS_KEPT):
        calibration = calibration.observe(counted=10_000, reported=11_000)

    assert len(calibration.samples) == CALLS_KEPT
    assert calibration.bound.high == pytest.approx(1.1)
