"""Sessions: which objects an agent sees, and how that changes."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ctxmgr.core.objects.session_record import SessionRecord
from ctxmgr.core.sessions.sets import Level, OrderedIds, Session
from ctxmgr.errors import CtxmgrError, Incorrect, NotContent, NotFound
from tests.core.builders.session_steps import Steps, after, steps
from tests.core.builders.values import object_ids, sessions


def _lists(session: Session) -> tuple[list[str], ...]:
    sets = (session.session_index, session.metadata_pool, session.active_set, session.pinned_set)
    return tuple(map(list, sets))


@given(steps, steps)
@example([("read", "a"), ("pin", "a")], [("deactivate", "a"), ("unpin", "a"), ("deactivate", "a")])
def test_the_four_sets_keep_their_invariants(first: Steps, then: Steps) -> None:
    """003-R015, 003-R089, 003-R090, 003-R091, 003-R092, 003-R098, 003-A08: the index only grows,
    and every visible object is in it.
    """
    earlier = after(Session(session_id="s1"), first)

    later = after(earlier, then)

    index, pool, active, pinned = map(set, _lists(later))
    assert pinned | active <= pool <= index
    assert list(later.session_index)[: len(earlier.session_index)] == list(earlier.session_index)
    assert set(earlier.metadata_pool) <= pool


@given(sessions(), steps)
def test_an_operation_does_not_change_the_session_it_starts_from(
    record: SessionRecord, done: Steps
) -> None:
    """003-R125, 003-R111: two sessions derived from one share memory but never state."""
    session = Session.from_record(record)
    before = _lists(session)

    after(session, done)
    after(session, [("read", "id-other")])

    assert _lists(session) == before
    assert session.to_record() == record


@given(sessions())
def test_a_session_is_restored_unchanged(record: SessionRecord) -> None:
    """003-R086, 003-R087, 003-R088, 003-R093, 003-A17: four lists of ids, in order."""
    session = Session.from_record(record)

    assert session.to_record() == record
    assert _lists(session) == tuple(map(list, (
        record.session_index, record.metadata_pool, record.active_set, record.pinned_set
    )))  # fmt: skip


def test_new_objects_are_shown_according_to_their_origin() -> None:
    """003-R173, 003-R179, 003-R181, 003-R138, 003-A10: read files and calls are active, found
    and written files have a line.
    """
    session = Session(session_id="s1").add(("found", "written"))

    session = session.read("read").created("call")

    assert list(session.session_index) == ["found", "written", "read", "call"]
    assert list(session.metadata_pool) == ["found", "written", "read", "call"]
    assert list(session.active_set) == ["read", "call"]


def test_adding_an_object_again_changes_nothing() -> None:
    """003-A10, 003-A17: a write leaves an active file active, at its position."""
    session = Session(session_id="s1").read("a").read("b")

    assert session.add(("a",)) == session


def test_levels_follow_from_the_sets() -> None:
    """003-R095, 003-R096, 003-R097, 003-R100: in full, one line, nothing; a chat has no level."""
    record = SessionRecord(
        session_id="s1", session_index=("a", "b", "c"), metadata_pool=("a", "b"), active_set=("a",)
    )
    session = Session.from_record(record)

    levels = [session.level(id_) for id_ in ("a", "b", "c", "unknown", "chat:s1")]

    assert levels == [Level.ACTIVE, Level.METADATA, Level.INDEXED, None, None]


def test_activating_promotes_an_indexed_object() -> None:
    """003-R101, 003-R102: the index is enough; it need not be in the pool."""
    session = Session.from_record(SessionRecord(session_id="s1", session_index=("a",)))

    session = session.activate("a")

    assert session.level("a") is Level.ACTIVE
    assert list(session.metadata_pool) == ["a"]


@pytest.mark.parametrize("operation", ["activate", "deactivate", "pin", "unpin"])
@pytest.mark.parametrize("object_id", ["chat:s1", "system_prompt:s1", "session:s1"])
def test_infrastructure_is_refused(operation: str, object_id: str) -> None:
    """003-R025, 003-R109, 003-R111: it already has a fixed place in the prompt."""
    with pytest.raises(NotContent):
        getattr(Session(session_id="s1"), operation)(object_id)


@pytest.mark.parametrize("operation", ["read", "created"])
@pytest.mark.parametrize("object_id", ["chat:s1", "system_prompt:s1", "session:s1"])
def test_infrastructure_is_never_added(operation: str, object_id: str) -> None:
    """003-R021, 003-R022: no set ever contains it."""
    with pytest.raises(NotContent):
        getattr(Session(session_id="s1"), operation)(object_id)
    with pytest.raises(NotContent):
        Session(session_id="s1").add(("a", object_id))


@pytest.mark.parametrize("operation", ["activate", "deactivate", "pin", "unpin"])
def test_an_object_not_in_the_index_is_not_found(operation: str) -> None:
    """003-R101, 003-R111: an agent cannot access other sessions' objects by guessing ids."""
    with pytest.raises(NotFound, match="stranger"):
        getattr(Session(session_id="s1"), operation)("stranger")


def test_deactivating_keeps_the_line() -> None:
    """003-R105, 003-R008: it changes how much is shown, never whether it is known."""
    session = Session(session_id="s1").read("a").deactivate("a")

    assert list(session.active_set) == []
    assert list(session.metadata_pool) == list(session.session_index) == ["a"]


def test_a_pin_does_not_change_the_level() -> None:
    """003-R106, 003-R107, 003-A08: it does not activate, and an inactive object may be pinned."""
    session = Session(session_id="s1").add(("a",))

    pinned = session.pin("a")

    assert (pinned.level("a"), list(pinned.pinned_set)) == (Level.METADATA, ["a"])
    assert pinned.unpin("a") == session


def test_demotion_is_reserved() -> None:
    """003-A09, 003-R098, 003-R099: the state model allows it, but no operation offers it yet."""
    session = Session(session_id="s1").read("a").pin("a")

    with pytest.raises(Incorrect, match="reserved"):
        session.demote("a")
    assert session.demote("a", enabled=True).level("a") is Level.INDEXED


@given(st.lists(object_ids), st.lists(object_ids), st.lists(object_ids))
def test_ordered_ids_are_values(first: list[str], second: list[str], third: list[str]) -> None:
    """003-A17: adding keeps positions, and two copies do not see each other's ids."""
    base = OrderedIds(first)

    one, other = base.add(second), base.add(third)

    assert list(base) == list(dict.fromkeys(first))
    assert list(one) == list(dict.fromkeys(first + second))
    assert list(other) == list(dict.fromkeys(first + third))
    assert all(
        (object_id in other) == (object_id in first + third) for object_id in first + second + third
    )


@given(st.lists(object_ids), st.lists(object_ids))
def test_removed_ids_are_gone_from_ordered_ids(ids: list[str], gone: list[str]) -> None:
    """003-R105: the others keep their order."""
    left = OrderedIds(ids).remove(gone)

    assert list(left) == [id_ for id_ in dict.fromkeys(ids) if id_ not in gone]
    assert len(left) == len(list(left))


def test_invalid_ids_are_refused() -> None:
    """003-R093: the content of a session can always be stored."""
    with pytest.raises(CtxmgrError):
        Session(session_id="s1").add(["", "x"])
