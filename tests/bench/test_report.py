"""What a benchmark says of a figure, and how it ends."""

import pytest

from ctxmgr.bench.measure import percentile
from ctxmgr.bench.report import Report, at_least, at_most, within


def test_a_percentile_is_a_value_that_was_measured() -> None:
    """The slowest of a hundred renders is somebody's wait; an average of two is nobody's."""
    assert percentile([5.0, 1.0, 3.0], 50) == 3.0
    assert percentile(range(1, 201), 99) == 199
    assert percentile([7.0], 99) == 7.0


@pytest.mark.parametrize(("value", "meets"), [(4.9, True), (5.0, True), (5.1, False)])
def test_a_promise_with_a_unit_is_kept_or_not(value: float, *, meets: bool) -> None:
    """A bound is part of what is allowed."""
    figure = within("render", value, bound=5, unit="ms", against="the clock")

    assert figure.meets is meets
    assert figure.bound == "at most 5 ms"


def test_misses_are_those_that_break_a_promise() -> None:
    """A benchmark ends with 1 when there is one."""
    missed = at_most("slow", 3, bound=2, against="x")
    report = Report(figures=(missed, at_least("fast", 1, bound=0.5, against="y")))

    assert report.misses == (missed,)
