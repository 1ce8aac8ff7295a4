"""The report of a benchmark and its exit code."""

import pytest

from ctxmgr.bench.measure import percentile
from ctxmgr.bench.report import Report, at_least, at_most, within


def test_a_percentile_is_a_measured_value() -> None:
    """An interpolated value was never experienced by any user."""
    assert percentile([5.0, 1.0, 3.0], 50) == 3.0
    assert percentile(range(1, 201), 99) == 199
    assert percentile([7.0], 99) == 7.0


@pytest.mark.parametrize(("value", "meets"), [(4.9, True), (5.0, True), (5.1, False)])
def test_a_target_with_a_unit_is_met_or_missed(value: float, *, meets: bool) -> None:
    """The limit is inclusive."""
    figure = within("render", value, bound=5, unit="ms", against="the clock")

    assert figure.meets is meets
    assert figure.bound == "at most 5 ms"


def test_misses_are_the_figures_over_their_target() -> None:
    """A benchmark exits with 1 if there is one."""
    missed = at_most("slow", 3, bound=2, against="x")
    report = Report(figures=(missed, at_least("fast", 1, bound=0.5, against="y")))

    assert report.misses == (missed,)
