"""The report of a benchmark: figures, each with its baseline. Pure.

A figure is a ratio from one run on one machine, because absolute times mostly measure the machine.
``meets`` is None if the figure has no target or could not be measured; the note gives the reason.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

Say: TypeAlias = Callable[[str], None]
"""Reports progress to the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    what: str
    value: float | None
    """None if it could not be measured here."""
    bound: str
    """The target as text, such as ``at least 0.7×``; empty if there is none."""
    meets: bool | None
    against: str
    note: str = ""
    """What limits it, the absolute numbers behind the ratio, or why it has no value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    figures: tuple[Figure, ...]
    report_only: bool = False
    """Whether missed targets are reported without failing."""

    @property
    def misses(self) -> tuple[Figure, ...]:
        """The figures that miss their target."""
        return tuple(figure for figure in self.figures if figure.meets is False)


def at_least(what: str, value: float, *, bound: float, against: str, note: str = "") -> Figure:
    """Return a ratio whose target is a minimum."""
    return Figure(
        what=what,
        value=value,
        bound=f"at least {bound:g}×",
        meets=value >= bound,
        against=against,
        note=note,
    )


def at_most(what: str, value: float, *, bound: float, against: str, note: str = "") -> Figure:
    """Return a ratio whose target is a maximum."""
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
    """Return an absolute number whose target is a maximum."""
    return Figure(
        what=what,
        value=value,
        bound=f"at most {bound:g} {unit}",
        meets=value <= bound,
        against=against,
        note=note,
    )


def reported(what: str, value: float | None, *, against: str, note: str = "") -> Figure:
    """Return a number without a target, or one that cannot be measured on this machine."""
    return Figure(what=what, value=value, bound="", meets=None, against=against, note=note)
