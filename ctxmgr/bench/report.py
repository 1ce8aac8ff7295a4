"""What a benchmark reports: figures, each beside what it is measured against. Pure.

A figure is a ratio taken in one run on one machine, because absolute times say more about the
machine than about us. ``meets`` is None where nothing was promised or nothing could be measured;
the note then says why.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

Say: TypeAlias = Callable[[str], None]
"""Tells a person what is being done now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    what: str
    value: float | None
    """None: it could not be measured here."""
    bound: str
    """What was promised, for a reader: ``at least 0.7×``; empty: reported only."""
    meets: bool | None
    against: str
    note: str = ""
    """What limits it, the absolute numbers behind the ratio, or why there is no value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    figures: tuple[Figure, ...]
    report_only: bool = False
    """Misses are shown and not held against anyone."""

    @property
    def misses(self) -> tuple[Figure, ...]:
        """The figures that break their promise."""
        return tuple(figure for figure in self.figures if figure.meets is False)


def at_least(what: str, value: float, *, bound: float, against: str, note: str = "") -> Figure:
    """A ratio that may not fall below the bound."""
    return Figure(
        what=what,
        value=value,
        bound=f"at least {bound:g}×",
        meets=value >= bound,
        against=against,
        note=note,
    )


def at_most(what: str, value: float, *, bound: float, against: str, note: str = "") -> Figure:
    """A ratio that may not rise above the bound."""
    return Figure(
        what=what,
        value=value,
        bound=f"at most {bound:g}×",
        meets=value <= bound,
        against=against,
        note=note,
    )


def within(
    what: str, value: float, *, bound: float, unit: str, against: str, note: str = ""
) -> Figure:
    """A number that was promised as such, with its unit."""
    return Figure(
        what=what,
        value=value,
        bound=f"at most {bound:g} {unit}",
        meets=value <= bound,
        against=against,
        note=note,
    )


def reported(what: str, value: float | None, *, against: str, note: str = "") -> Figure:
    """A number without a promise, or one that this machine cannot measure."""
    return Figure(what=what, value=value, bound="", meets=None, against=against, note=note)
