"""Two clients on one session: how their changes are merged."""

from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.objects.session_record import SETS, SessionRecord
from ctxmgr.core.sessions.sets import Session, merge
from tests.core.builders.session_steps import Steps, after, steps
from tests.core.builders.values import sessions


def _sets(session: Session) -> list[set[str]]:
    return [set(getattr(session, name)) for name in SETS]


@given(sessions(), steps, steps)
def test_a_merge_keeps_the_invariants_and_loses_nothing(
    record: SessionRecord, done: Steps, meanwhile: Steps
) -> None:
    """003-A21, 003-R015: the index is the union of both, and the other sets stay inside it."""
    base = Session.from_record(record)
    ours, theirs = after(base, done), after(base, meanwhile)

    merged = merge(base, ours, theirs=theirs)

    index, pool, active, pinned = _sets(merged)
    assert index == set(ours.session_index) | set(theirs.session_index)
    assert active | pinned <= pool <= index
    assert list(merged.session_index)[: len(theirs.session_index)] == list(theirs.session_index)


@given(sessions(), steps)
def test_merging_with_an_unchanged_session_gives_the_change(
    record: SessionRecord, done: Steps
) -> None:
    """003-A21: a client that wrote nothing loses nothing and undoes nothing."""
    base = Session.from_record(record)
    changed = after(base, done)

    assert _sets(merge(base, changed, theirs=base)) == _sets(changed)
    assert merge(base, base, theirs=changed) == changed
    assert merge(base, changed, theirs=changed) == changed


@given(sessions(), steps, steps)
def test_the_order_of_clients_does_not_change_a_merge(
    record: SessionRecord, done: Steps, meanwhile: Steps
) -> None:
    """003-A21: the faster client decides the order of ids, never what is visible."""
    base = Session.from_record(record)
    ours, theirs = after(base, done), after(base, meanwhile)

    assert _sets(merge(base, ours, theirs=theirs)) == _sets(merge(base, theirs, theirs=ours))


@given(st.booleans())
def test_a_change_wins_over_no_change(ours_deactivates: bool) -> None:  # noqa: FBT001
    """003-A21: a file folded by one stays folded, and each client's new file is shown."""
    base = Session(session_id="s1").read("a")
    folded, other = base.deactivate("a").read("mine"), base.read("theirs")
    ours, theirs = (folded, other) if ours_deactivates else (other, folded)

    merged = merge(base, ours, theirs=theirs)

    assert set(merged.active_set) == {"mine", "theirs"}


def test_a_pin_survives_the_collapse_of_another_client() -> None:
    """003-A21, 003-R141: the other client would not have folded it had it seen the pin."""
    base = Session(session_id="s1").created("call")

    merged = merge(base, base.collapse(["call"]), theirs=base.pin("call"))

    assert (list(merged.active_set), list(merged.pinned_set)) == (["call"], ["call"])


def test_deactivating_and_pinning_are_both_kept() -> None:
    """003-A21, 003-A05: a client that does both wants both."""
    base = Session(session_id="s1").created("call")

    merged = merge(base, base.pin("call").deactivate("call"), theirs=base.read("file"))

    assert (list(merged.active_set), list(merged.pinned_set)) == (["file"], ["call"])


def test_an_object_activated_by_one_stays_in_the_pool_of_both() -> None:
    """003-A21, 003-R091: the sets stay nested whatever the two clients did."""
    base = Session(session_id="s1").add(("a",))

    merged = merge(base, base.activate("a"), theirs=base.demote("a", enabled=True))

    assert list(merged.active_set) == list(merged.metadata_pool) == ["a"]
