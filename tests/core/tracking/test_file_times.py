"""From when a file's version is true."""

from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.tracking.index_plan import NS_PER_MS, valid_time_of

INSTANTS = st.integers(0, 50)


def ns(instant: int) -> int:
    return instant * NS_PER_MS


def test_a_version_is_true_from_when_the_file_changed() -> None:
    """003-A34: the content at ten is found by the time of the change."""
    assert valid_time_of(ns(10) + 999_999, previous=4, now=30, last_transaction=20) == 10


def test_a_version_never_hides_behind_the_one_before() -> None:
    """003-A34: an archive unpacked over a file brings an older mtime."""
    assert valid_time_of(ns(3), previous=12, now=30, last_transaction=20) == 13


def test_a_change_that_the_stores_clock_has_not_reached_takes_its_time() -> None:
    """003-A34: a machine whose clock is ahead must not hide what is written next."""
    assert valid_time_of(ns(20), previous=None, now=30, last_transaction=20) is None
    assert valid_time_of(ns(25), previous=None, now=20, last_transaction=30) is None
    assert valid_time_of(ns(3), previous=19, now=30, last_transaction=20) is None
    assert valid_time_of(ns(3), previous=None, now=30, last_transaction=None) is None


def test_a_file_from_before_1970_is_from_1970() -> None:
    """003-A34: instants begin there."""
    assert valid_time_of(-1, previous=None, now=30, last_transaction=20) == 0


@given(INSTANTS, st.none() | INSTANTS, INSTANTS, st.none() | INSTANTS)
def test_what_is_sent_is_between_the_previous_version_and_now(
    mtime: int, previous: int | None, now: int, last: int | None
) -> None:
    """003-A34: so the newest write is always the current version."""
    sent = valid_time_of(ns(mtime), previous=previous, now=now, last_transaction=last)

    if sent is not None:
        assert last is not None
        assert mtime <= sent <= now
        assert (-1 if previous is None else previous) < sent < last
