"""The promises of the economy policy, each beside what was measured. Pure.

Some are for particular recordings, known by how their file's name begins; on other files the same
numbers are reported without a promise.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ctxmgr.bench.judging import Result
from ctxmgr.bench.report import Figure
from ctxmgr.core.planner import Prices


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What is promised for one kind of recordings; None: nothing."""

    cost: float | None = None
    keep: float | None = None
    line: float | None = None
    all_line: float | None = None
    written: float | None = None
    marked: float | None = None
    """Cost where a cache keeps marked prefixes only."""
    loss_by_keep: float | None = None
    """Share of what a simple policy loses at the same cost."""
    loss_by_line: float | None = None


BOUNDS: Final[Mapping[str, Bounds]] = {
    "pi": Bounds(
        cost=0.46,
        keep=0.98,
        line=0.93,
        all_line=0.93,
        written=1.2,
        marked=0.50,
        loss_by_keep=0.5,
        loss_by_line=0.5,
    ),
    "mini": Bounds(
        cost=0.86,
        keep=0.99,
        line=0.975,
        all_line=0.88,
        written=1.2,
        loss_by_keep=0.5,
        loss_by_line=0.5,
    ),
    "tau": Bounds(cost=0.985, keep=1.0, line=0.965, written=1.2, loss_by_keep=0.5),
}

FULL: Final = "full history"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """All results on one file."""

    name: str
    full: Result
    simple: tuple[Result, ...]
    dial: tuple[Result, ...]
    """Ours, from lean to faithful."""
    default: Result
    """Ours as it is."""
    marked_cost: float
    """Of ours, without outputs, where only marked prefixes are kept."""

    def cost(self, result: Result, prices: Prices) -> float:
        return result.total.cost(prices) / self.full.total.cost(prices)


def figures(measured: Measured, *, prices: Prices, promised: bool = True) -> Iterator[Figure]:
    """Give every figure of one file; nothing is promised for a part of it."""
    bounds = _bounds(measured.name) if promised else Bounds()
    name, ours = measured.name, measured.default.total
    yield _most(f"{name}: cost", measured.cost(measured.default, prices), bounds.cost)
    yield _least(f"{name}: keep", ours.keep, bounds.keep)
    yield _least(f"{name}: line", ours.line, bounds.line)
    yield _least(f"{name}: all-line", ours.all_line, bounds.all_line)
    written = ours.written_tokens / measured.full.total.written_tokens
    yield _most(f"{name}: tokens written to the cache", written, bounds.written)
    marked = measured.marked_cost + prices.output * ours.output_tokens
    share = marked / measured.full.total.cost(prices)
    yield _most(f"{name}: cost, cache of marked prefixes only", share, bounds.marked)
    yield from _against_simple(measured, bounds, prices)


def _bounds(name: str) -> Bounds:
    known = (each for beginning, each in BOUNDS.items() if name.startswith(beginning))
    return next(known, Bounds())


def undominated(results: Sequence[Result], prices: Prices) -> list[Result]:
    """Leave out a policy if another costs no more and keeps no less, and is better in one."""
    scores = [(each, each.total.cost(prices), each.total.keep) for each in results]
    return [
        each
        for each, cost, kept in scores
        if not any(
            other_cost <= cost and other_kept >= kept and (other_cost, other_kept) != (cost, kept)
            for _, other_cost, other_kept in scores
        )
    ]


def _against_simple(measured: Measured, bounds: Bounds, prices: Prices) -> Iterator[Figure]:
    """Compare, at the cost of each simple policy, what it loses with what ours loses."""
    for simple in undominated(measured.simple, prices):
        ours = _affordable(measured, simple, prices)
        for what, bound in (("keep", bounds.loss_by_keep), ("line", bounds.loss_by_line)):
            theirs = 1 - getattr(simple.total, what)
            own = 1.0 if ours is None else 1 - getattr(ours.total, what)
            if theirs > 0:
                place = "nothing of ours is as cheap" if ours is None else ours.policy
                yield _most(
                    f"{measured.name}: loss by {what} at the cost of {simple.policy}",
                    own / theirs,
                    bound,
                    note=f"{place}: loses {own:.3f}, the other {theirs:.3f}",
                )


def _affordable(measured: Measured, simple: Result, prices: Prices) -> Result | None:
    """Return the most faithful place of the dial that costs no more."""
    most = simple.total.cost(prices)
    return next((each for each in reversed(measured.dial) if each.total.cost(prices) <= most), None)


def _most(what: str, value: float, bound: float | None, *, note: str = "") -> Figure:
    return Figure(
        what=what,
        value=value,
        bound="" if bound is None else f"at most {bound:g}",
        meets=None if bound is None else value <= bound,
        against=FULL,
        note=note,
    )


def _least(what: str, value: float, bound: float | None, *, note: str = "") -> Figure:
    return Figure(
        what=what,
        value=value,
        bound="" if bound is None else f"at least {bound:g}",
        meets=None if bound is None else value >= bound,
        against=FULL,
        note=note,
    )
