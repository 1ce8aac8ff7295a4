"""The entries that a write adds to a timeline."""

from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.stores.sqlite.timeline import (
    VersionStart,
    entries_added,
    newest,
    sequence_of,
    visible,
    wid_of,
)

instants = st.integers(min_value=0, max_value=12)
writes = st.lists(
    st.tuples(instants, st.none() | st.integers(min_value=1, max_value=6), st.booleans()),
    max_size=8,
)


def test_a_put_lasts_until_the_next_version():
    """003-R010: a correction of the past does not change later versions."""
    entries = [VersionStart(10, 1, 0), VersionStart(30, 2, 0)]

    new = entries_added(entries, wid=3, gone=False, start=20, end=None)

    assert new == [VersionStart(20, 3, 0)]


def test_a_put_overwrites_the_continuation_of_the_version_it_replaces():
    """A bounded put splits a version in two; both halves are still one version."""
    entries = [VersionStart(10, 1, 0), VersionStart(20, 2, 0), VersionStart(30, 1, 0)]

    new = entries_added(entries, wid=3, gone=False, start=10, end=None)
    after_the_middle = entries_added(entries, wid=3, gone=False, start=25, end=None)

    assert new == [VersionStart(10, 3, 0)]
    assert after_the_middle == [VersionStart(25, 3, 0)]


def test_the_second_half_is_overwritten_if_it_follows_directly():
    """XTDB compares transaction and content of the following entries until one differs."""
    entries = [
        VersionStart(10, 1, 0),
        VersionStart(30, 1, 0),
        VersionStart(40, 2, 0),
        VersionStart(50, 1, 0),
    ]

    new = entries_added(entries, wid=3, gone=False, start=20, end=None)

    assert new == [VersionStart(20, 3, 0), VersionStart(30, 3, 0)]


def test_a_deletion_is_never_continued():
    """In XTDB a deletion compares unequal to itself, so the entries after it stay."""
    entries = [VersionStart(10, 1, 1), VersionStart(30, 1, 1)]

    new = entries_added(entries, wid=3, gone=False, start=20, end=None)

    assert new == [VersionStart(20, 3, 0)]


def test_a_bounded_put_restores_the_version_visible_at_its_end():
    """The restored entry keeps its original write, so earlier reads are unchanged."""
    entries = [VersionStart(10, 1, 0), VersionStart(15, 2, 0)]

    new = entries_added(entries, wid=3, gone=False, start=12, end=20)

    assert new == [VersionStart(12, 3, 0), VersionStart(15, 3, 0), VersionStart(20, 2, 0)]


def test_after_a_bounded_put_of_a_new_object_nothing_is_visible():
    """There was no earlier version to restore."""
    new = entries_added([], wid=3, gone=False, start=12, end=20)

    assert new == [VersionStart(12, 3, 0), VersionStart(20, 3, 1)]


def test_a_write_belongs_to_its_transaction():
    """Sequences order transactions, and positions order the writes of one."""
    wid = wid_of(7, 3)

    assert sequence_of(wid) == 7
    assert wid_of(7) < wid < wid_of(8)


@given(writes, instants, st.integers(min_value=1, max_value=6))
def test_a_bounded_write_changes_nothing_outside_its_bounds(earlier, start, length):
    """003-R011: a bounded write is visible only within its bounds, whatever the history."""
    before = _timeline(earlier)
    end = start + length

    after = before + entries_added(before, wid=99, gone=False, start=start, end=end)

    for at in range(20):
        entry = visible(newest(after), at)
        if start <= at < end:
            assert entry is not None
            assert (entry.wid, entry.gone) == (99, 0)
        else:
            assert _visible_wid(after, at) == _visible_wid(before, at)


@given(writes, instants)
def test_an_unbounded_write_is_visible_from_its_start_only(earlier, start):
    """003-R011: it changes nothing before its start."""
    before = _timeline(earlier)

    after = before + entries_added(before, wid=99, gone=False, start=start, end=None)

    assert _visible_wid(after, start) == 99
    assert all(_visible_wid(after, at) == _visible_wid(before, at) for at in range(start))


def _timeline(earlier):
    entries: list[VersionStart] = []
    for number, (start, length, gone) in enumerate(earlier, 1):
        end = None if length is None else start + length
        entries += entries_added(entries, wid=number, gone=gone, start=start, end=end)
    return entries


def _visible_wid(entries, at):
    entry = visible(newest(entries), at)
    return None if entry is None or entry.gone else entry.wid
