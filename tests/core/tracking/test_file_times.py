"""The valid time of a file's version."""

from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.tracking.index_plan import NS_PER_MS, valid_time_of

INSTANTS = st.integers(0, 50)


def ns(instant: int) -> int:
    return instant * NS_PER_MS


def test_a_version_is_valid_from_the_files_mtime() -> None:
    """003-A34: the content at ten o'clock is found by the time of the change."""
    assert valid_time_of(ns(10) + 999_999, previous=4, now=30, last_transaction=20) == 10


def test_a_version_starts_after_the_previous_one() -> None:
    """003-A34: unpacking an archive over a file can set an older mtime."""
    assert valid_time_of(ns(3), previous=12, now=30, last_transaction=20) == 13


def test_an_mtime_in_the_stores_future_becomes_the_stores_time() -> None:
    """003-A34: a machine whose clock is ahead must not hide later writes."""
    assert valid_time_of(ns(20), previous=None, now=30, last_transaction=20) is None
    assert valid_time_of(ns(25), previous=None, now=20, last_transaction=30) is None
    assert valid_time_of(ns(3), previous=19, now=30, last_transaction=20) is None
    assert valid_time_of(ns(3), previous=None, now=30, last_transaction=None) is None


def test_a_file_from_before_1970_is_from_1970() -> None:
    """003-A34: instants start in 1970."""
    assert valid_time_of(-1, previous=None, now=30, last_transaction=20) == 0


@given(INSTANTS, st.none() | INSTANTS, INSTANTS, st.none() | INSTANTS)
def test_the_valid_time_is_between_the_previous_version_and_now(
    mtime: int, previous: int | None, now: int, last: int | None
) -> None:
    """003-A34: so the newest write is always the current version."""
    sent = valid_time_of(ns(mtime), previous=previous, now=now, last_transaction=last)

    if sent is not None:
        assert last is not None
        assert mtime <= sent <= now
        assert (-1 if previous is None else previous) < sent < last
