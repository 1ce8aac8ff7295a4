"""The timeline of an object: which entries a write adds to it. Pure.

    entry      where a version starts: (valid_time, wid, gone)
    newest     of the entries at one valid time, the one with the greatest wid
    visible    at V: the newest entry at the greatest valid time ≤ V

    from F           an entry at F, and one at each later entry that merely continues the version
                     visible at F: entries of the same put, up to the first newest entry of another.
                     A deletion is never continued, and neither is the absence of a version
    from F until T   an entry at F and at every valid time between F and T. At T the version visible
                     there before is restored under its own wid; without one, T is a deletion

These are the rules of XTDB 1.24.3. That a deletion is not continued is the surprising one: there, a
deleted entry compares unequal to itself.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

WRITE_BITS: Final = 14
"""A wid's lower bits number the writes of one transaction: 16,384, above OPERATIONS_MAX."""


class VersionStart(NamedTuple):
    """Where a version starts; ``gone``: nothing is visible from there on."""

    vt: int
    wid: int
    gone: int


def wid_of(sequence: int, number: int = 0) -> int:
    """Return the id of a transaction's write; ids are ordered as the writes are."""
    return sequence << WRITE_BITS | number


def sequence_of(wid: int) -> int:
    """Return the transaction of a write."""
    return wid >> WRITE_BITS


def newest(entries: Iterable[VersionStart]) -> list[VersionStart]:
    """Return the last entry written at each valid time, ordered by valid time."""
    by_time: dict[int, VersionStart] = {}
    for entry in sorted(entries):
        by_time[entry.vt] = entry
    return list(by_time.values())


def entries_added(
    entries: Iterable[VersionStart], *, wid: int, gone: bool, start: int, end: int | None
) -> list[VersionStart]:
    """Return the entries that a write from ``start`` until ``end`` adds.

    ``entries`` holds at least those from the one visible at ``start`` on.
    """
    timeline = newest(entries)
    if end is None:
        return _open_ended(timeline, wid=wid, gone=int(gone), start=start)
    return _bounded(timeline, wid=wid, gone=int(gone), start=start, end=end)


def visible(timeline: Sequence[VersionStart], at: int) -> VersionStart | None:
    """Return the entry in force at a valid time; ``timeline`` is as ``newest`` returns it."""
    return next((entry for entry in reversed(timeline) if entry.vt <= at), None)


def _open_ended(
    timeline: Sequence[VersionStart], *, wid: int, gone: int, start: int
) -> list[VersionStart]:
    overwritten = visible(timeline, start)
    times = [start]
    if overwritten is not None and not overwritten.gone:
        for entry in timeline:
            if entry.vt <= start:
                continue
            if entry.gone or entry.wid != overwritten.wid:
                break
            times.append(entry.vt)
    return [VersionStart(vt, wid, gone) for vt in times]


def _bounded(
    timeline: Sequence[VersionStart], *, wid: int, gone: int, start: int, end: int
) -> list[VersionStart]:
    times = [start, *(entry.vt for entry in timeline if start < entry.vt < end)]
    before = visible(timeline, end)
    restored = VersionStart(end, wid, 1) if before is None else before._replace(vt=end)
    return [*(VersionStart(vt, wid, gone) for vt in times), restored]
