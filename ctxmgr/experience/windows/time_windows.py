"""Windows of time: ranges of a session's ticks with one fidelity. Pure.

The windows of a session never overlap. Ticks without a window are HOT: they are in the context.

    HOT ──retain──► WARM ──submit──► SUBMITTED ──resolved, rejected──► WARM, not pinned
     │                │  ▲               └───────resolved, accepted──► COLD
     │                │  └──retain (pins it again)
     └──expire────────┴──expire, unless pinned──► COLD, whose tokens are gone
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ctxmgr.errors import Incorrect
from ctxmgr.experience.records.kinds import CompressionLevel, Fidelity


class Ticks(NamedTuple):
    """A range of ticks, both ends included."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindow:
    """Consecutive timesteps of a session. Times are UTC milliseconds."""

    id: str
    session_id: str
    start_tick: int
    end_tick: int
    start_time: int
    end_time: int
    fidelity: Fidelity
    compression_level: CompressionLevel = CompressionLevel.TOKEN
    """Of a COLD window: the level that its tokens were compressed to first."""
    pinned: bool = False
    pinned_reason: str | None = None
    """Such as ``bud:kindness``."""
    submission_ids: tuple[str, ...] = ()
    token_count: int = 0
    summary: str | None = field(default=None, repr=False)
    """Of a COLD window: the summary that replaced it in the prompt."""
    top_k_activations: Mapping[str, float] = field(default_factory=dict)
    significant_tags: tuple[str, ...] = ()
    source_record_ids: tuple[str, ...] = ()
    """Of a COLD window: the replies that are left of it."""

    def __post_init__(self) -> None:
        if self.start_tick > self.end_tick:
            raise Incorrect(f"the window {self.start_tick} to {self.end_tick} is empty")
        is_cold = self.fidelity is Fidelity.COLD
        assert is_cold is (self.compression_level is not CompressionLevel.TOKEN)
        assert bool(self.submission_ids) is (self.fidelity is Fidelity.SUBMITTED)

    @property
    def ticks(self) -> Ticks:
        return Ticks(self.start_tick, self.end_tick)


def uncovered(wanted: Ticks, taken: Iterable[Ticks]) -> Iterator[Ticks]:
    """Yield the parts of a range that none of the others covers, in order."""
    start = wanted.start
    for ticks in sorted(taken):
        if ticks.end < start:
            continue
        if ticks.start > wanted.end:
            break
        if ticks.start > start:
            yield Ticks(start, ticks.start - 1)
        start = ticks.end + 1
    if start <= wanted.end:
        yield Ticks(start, wanted.end)


def overlapping(wanted: Ticks, windows: Iterable[TimeWindow]) -> list[TimeWindow]:
    """Return the windows that have a tick in the range, in order."""
    return sorted(
        (
            each
            for each in windows
            if each.start_tick <= wanted.end and wanted.start <= each.end_tick
        ),
        key=lambda each: each.start_tick,
    )


def merge_ticks(ranges: Iterable[Ticks]) -> list[Ticks]:
    """Return the same ticks as disjoint ranges in order, adjacent ones joined."""
    merged: list[Ticks] = []
    for ticks in sorted(ranges):
        if merged and ticks.start <= merged[-1].end + 1:
            merged[-1] = Ticks(merged[-1].start, max(merged[-1].end, ticks.end))
        else:
            merged.append(ticks)
    return merged


def warm_tokens(windows: Sequence[TimeWindow]) -> int:
    """Return the tokens that count against the quota: those of pinned WARM windows."""
    return sum(window.token_count for window in windows if _counts(window))


def _counts(window: TimeWindow) -> bool:
    return window.fidelity is Fidelity.WARM and window.pinned
