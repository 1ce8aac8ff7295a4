"""Which entries a write adds to an object's timeline. Pure.

    entry      where a version starts: (valid_time, wid, gone)
    newest     of the entries at one valid time, the one with the greatest wid
    visible    at V: the newest entry at the greatest valid time ≤ V

    from F           an entry at F, and one at each entry after F that merely continues the version
                     visible at F: the same put, up to the first newest entry that is not.
                     A deletion is never continued, nor is nothing
    from F until T   an entry at F and at every valid time between F and T; at T the visible entry
                     is restored under its own wid, or, where there was none, nothing begins

These are XTDB's rules (its 1.24.3), of which the second line's last sentence is the least
expected: there an entry that is gone compares unequal to itself.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

WRITE_BITS: Final = 14
"""A wid's lower bits number the writes of one transaction: 16,384, above OPERATIONS_MAX."""


class Entry(NamedTuple):
    """Where a version starts; ``gone``: nothing is visible from there."""

    vt: int
    wid: int
    gone: int


def wid_of(sequence: int, place: int = 0) -> int:
    """Name the write at that place in that transaction; they order as they were made."""
    return sequence << WRITE_BITS | place


def sequence_of(wid: int) -> int:
    """The transaction that made the write."""
    return wid >> WRITE_BITS


def newest(entries: Iterable[Entry]) -> list[Entry]:
    """For each valid time the entry that was written last, by valid time."""
    by_time: dict[int, Entry] = {}
    for entry in sorted(entries):
        by_time[entry.vt] = entry
    return list(by_time.values())


def added(
    known: Iterable[Entry], *, wid: int, gone: bool, start: int, end: int | None
) -> list[Entry]:
    """The entries that a write from ``start`` until ``end`` adds.

    ``known`` holds at least the entries from the one visible at ``start`` on.
    """
    timeline = newest(known)
    if end is None:
        return _open_ended(timeline, wid=wid, gone=int(gone), start=start)
    return _bounded(timeline, wid=wid, gone=int(gone), start=start, end=end)


def visible(timeline: Sequence[Entry], at: int) -> Entry | None:
    """The entry that is in force then; ``timeline`` is newest per valid time, in order."""
    return next((entry for entry in reversed(timeline) if entry.vt <= at), None)


def _open_ended(timeline: Sequence[Entry], *, wid: int, gone: int, start: int) -> list[Entry]:
    overwritten = visible(timeline, start)
    times = [start]
    if overwritten is not None and not overwritten.gone:
        for entry in timeline:
            if entry.vt <= start:
                continue
            if entry.gone or entry.wid != overwritten.wid:
                break
            times.append(entry.vt)
    return [Entry(vt, wid, gone) for vt in times]


def _bounded(
    timeline: Sequence[Entry], *, wid: int, gone: int, start: int, end: int
) -> list[Entry]:
    times = [start, *(entry.vt for entry in timeline if start < entry.vt < end)]
    before = visible(timeline, end)
    restored = Entry(end, wid, 1) if before is None else before._replace(vt=end)
    return [*(Entry(vt, wid, gone) for vt in times), restored]
