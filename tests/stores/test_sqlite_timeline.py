"""The entries that a write adds to a timeline."""

from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.stores.sqlite_timeline import Entry, added, newest, sequence_of, visible, wid_of

instants = st.integers(min_value=0, max_value=12)
writes = st.lists(
    st.tuples(instants, st.none() | st.integers(min_value=1, max_value=6), st.booleans()),
    max_size=8,
)


def test_a_put_lasts_until_the_next_version():
    """003-R010: a correction of the past leaves what came later as it was."""
    known = [Entry(10, 1, 0), Entry(30, 2, 0)]

    new = added(known, wid=3, gone=False, start=20, end=None)

    assert new == [Entry(20, 3, 0)]


def test_a_put_overwrites_what_merely_continues_the_version_it_replaces():
    """A bounded put splits a version in two; both halves are still one version."""
    known = [Entry(10, 1, 0), Entry(20, 2, 0), Entry(30, 1, 0)]

    new = added(known, wid=3, gone=False, start=10, end=None)
    after_the_middle = added(known, wid=3, gone=False, start=25, end=None)

    assert new == [Entry(10, 3, 0)]
    assert after_the_middle == [Entry(25, 3, 0)]


def test_the_second_half_is_overwritten_when_it_follows_directly():
    """XTDB compares transaction and content of what follows, until something differs."""
    known = [Entry(10, 1, 0), Entry(30, 1, 0), Entry(40, 2, 0), Entry(50, 1, 0)]

    new = added(known, wid=3, gone=False, start=20, end=None)

    assert new == [Entry(20, 3, 0), Entry(30, 3, 0)]


def test_a_deletion_is_never_continued():
    """In XTDB a deletion compares unequal to itself, so that what follows it stays."""
    known = [Entry(10, 1, 1), Entry(30, 1, 1)]

    new = added(known, wid=3, gone=False, start=20, end=None)

    assert new == [Entry(20, 3, 0)]


def test_a_bounded_put_restores_what_was_visible_at_its_end():
    """The restored entry keeps its own write, so that older reads see it as they did."""
    known = [Entry(10, 1, 0), Entry(15, 2, 0)]

    new = added(known, wid=3, gone=False, start=12, end=20)

    assert new == [Entry(12, 3, 0), Entry(15, 3, 0), Entry(20, 2, 0)]


def test_a_bounded_put_of_something_new_ends_in_nothing():
    """Before it there was nothing to restore."""
    new = added([], wid=3, gone=False, start=12, end=20)

    assert new == [Entry(12, 3, 0), Entry(20, 3, 1)]


def test_a_write_belongs_to_its_transaction():
    """Sequences order writes, and places order those of one transaction."""
    wid = wid_of(7, 3)

    assert sequence_of(wid) == 7
    assert wid_of(7) < wid < wid_of(8)


@given(writes, instants, st.integers(min_value=1, max_value=6))
def test_a_bounded_write_changes_nothing_outside_its_bounds(earlier, start, length):
    """003-R011: whatever the history, a bounded write is seen inside its bounds and only there."""
    before = _timeline(earlier)
    end = start + length

    after = before + added(before, wid=99, gone=False, start=start, end=end)

    for at in range(20):
        seen = visible(newest(after), at)
        if start <= at < end:
            assert seen is not None
            assert (seen.wid, seen.gone) == (99, 0)
        else:
            assert _shown(after, at) == _shown(before, at)


@given(writes, instants)
def test_an_open_write_is_seen_from_its_start_and_never_before(earlier, start):
    """003-R011: it changes nothing before its start, and is what is visible there."""
    before = _timeline(earlier)

    after = before + added(before, wid=99, gone=False, start=start, end=None)

    assert _shown(after, start) == 99
    assert all(_shown(after, at) == _shown(before, at) for at in range(start))


def _timeline(earlier):
    entries: list[Entry] = []
    for number, (start, length, gone) in enumerate(earlier, 1):
        end = None if length is None else start + length
        entries += added(entries, wid=number, gone=gone, start=start, end=end)
    return entries


def _shown(entries, at):
    seen = visible(newest(entries), at)
    return None if seen is None or seen.gone else seen.wid
