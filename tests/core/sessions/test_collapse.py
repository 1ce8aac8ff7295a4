"""Which tool outputs the sliding window folds."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.sessions.collapse import PER_TURN, TURNS_BACK, Activations, Window, plan_collapse
from ctxmgr.core.sessions.sets import Session
from ctxmgr.errors import Incorrect

Calls = dict[int, tuple[str, ...]]

windows = st.builds(
    Window,
    per_turn=st.integers(0, 4),
    turns_back=st.integers(0, 4),
    limit_current_only=st.booleans(),
)
NOBODY: Final = Activations()


def _calls(*counts: int) -> Calls:
    """Calls by turn, from the number of calls of each: ``1.1``, ``1.2``, ``2.1``, …."""
    return {
        turn: tuple(f"{turn}.{number}" for number in range(1, count + 1))
        for turn, count in enumerate(counts, start=1)
    }


def _session(calls: Calls) -> Session:
    session = Session(session_id="s1")
    for made in calls.values():
        for call_id in made:
            session = session.created(call_id)
    return session


def _plan(session: Session, calls: Calls, **given: object) -> tuple[str, ...]:
    defaults = {"now_turn": max(calls), "activations": NOBODY, "window": Window()}
    return plan_collapse(session, calls=calls, **{**defaults, **given})  # type: ignore[arg-type]


def _left(session: Session, folds: tuple[str, ...]) -> list[str]:
    return list(session.collapse(folds).active_set)


def test_the_last_five_calls_of_each_of_three_turns_stay() -> None:
    """003-R139, 003-A04: by default 5 calls in each of 3 turns, including the current one."""
    calls = _calls(2, 6, 1, 7)
    session = _session(calls)

    folds = _plan(session, calls)

    assert (PER_TURN, TURNS_BACK) == (5, 3)
    assert _left(session, folds) == [*calls[2][1:], *calls[3], *calls[4][2:]]
    assert folds == ("1.1", "1.2", "2.1", "4.1", "4.2")


def test_an_option_limits_only_the_current_turn() -> None:
    """003-A04, 003-R140: with it, every call of earlier turns stays."""
    calls = _calls(2, 6, 1, 7)
    session = _session(calls)

    folds = _plan(session, calls, window=Window(limit_current_only=True))

    assert _left(session, folds) == [*calls[2], *calls[3], *calls[4][2:]]


@pytest.mark.parametrize(
    ("per_turn", "turns_back", "left"),
    [(1, 1, ["3.2"]), (2, 2, ["2.1", "2.2", "3.1", "3.2"]), (0, 3, []), (5, 0, [])],
)
def test_both_numbers_can_be_set(per_turn: int, turns_back: int, left: list[str]) -> None:
    """003-R140: a harness with a small window keeps less."""
    calls = _calls(2, 2, 2)
    session = _session(calls)

    folds = _plan(session, calls, window=Window(per_turn=per_turn, turns_back=turns_back))

    assert _left(session, folds) == left


def test_a_negative_window_is_refused() -> None:
    """003-R140: an invalid setting is refused when it is created."""
    with pytest.raises(Incorrect):
        Window(per_turn=-1)


def test_pins_and_files_stay() -> None:
    """003-R092, 003-R141, 003-R142: regardless of age."""
    calls = _calls(2, 0, 0, 0, 1)
    session = _session(calls).read("file").pin("1.1")

    folds = _plan(session, calls)

    assert _left(session, folds) == ["1.1", "5.1", "file"]


def test_an_activated_call_ages_like_a_new_one() -> None:
    """003-A05: a call the agent activated stays for a full window."""
    calls = _calls(1, 0, 0, 0, 1, 0, 0, 0)
    session = _session(calls)
    chosen = Activations().activated("1.1", turn=5)

    at_7 = _plan(session, calls, now_turn=7, activations=chosen)
    at_8 = _plan(session, calls, now_turn=8, activations=chosen)

    assert at_7 == ()
    assert at_8[0] == "1.1"


def test_a_smaller_window_also_folds_what_was_activated_sooner() -> None:
    """003-R140: the number of turns is the same for what the agent chose and what it made."""
    calls = _calls(1, 0, 0, 0)
    session = _session(calls)
    chosen = Activations().activated("1.1", turn=3)

    at_3, at_4 = (
        _plan(session, calls, now_turn=turn, activations=chosen, window=Window(turns_back=1))
        for turn in (3, 4)
    )

    assert (at_3, at_4) == ((), ("1.1",))


def test_a_deactivated_choice_no_longer_counts() -> None:
    """003-A05: deactivating ends the exemption, even if the object is shown again otherwise."""
    calls = _calls(1, 0, 0, 0, 0)
    chosen = Activations().activated("1.1", turn=5).deactivated("1.1")

    folds = _plan(_session(calls), calls, activations=chosen)

    assert folds == ("1.1",)


def test_an_activation_by_another_client_counts_as_this_turns_choice() -> None:
    """A user activates an old output for a running agent: it must not be folded at once."""
    session = _session(_calls(3, 1)).pin("1.3")

    adopted = NOBODY.adopt(
        session, expected={"1.1"}, made_in={"1.1": 1, "1.2": 1, "1.3": 1, "2.1": 2}, turn=2
    )

    assert dict(adopted.turns) == {"1.2": 2}


def test_choices_are_kept_only_while_they_matter() -> None:
    """003-A05: the bookkeeping is no larger than the active set."""
    chosen = Activations().activated("a", turn=1).activated("b", turn=2)

    kept = chosen.still_active(Session(session_id="s1").created("b").add(("a",)))

    assert kept == Activations({"b": 2})


@st.composite
def situations(draw: st.DrawFn) -> tuple[Session, Calls, Activations]:
    calls = _calls(*draw(st.lists(st.integers(0, 5), min_size=1, max_size=6)))
    session = _session(calls)
    made = [object_id for turn in calls.values() for object_id in turn]
    for file in ("file-a", "file-b"):
        session = session.read(file)
    some = st.lists(st.sampled_from([*made, "file-a"]), unique=True)
    for object_id in draw(some):
        session = session.deactivate(object_id)
    for object_id in draw(some):
        session = session.pin(object_id)
    return session, calls, Activations(dict.fromkeys(draw(some), draw(st.integers(1, 6))))


@given(situations(), windows, st.integers(0, 3))
def test_a_plan_only_folds_what_it_may(
    situation: tuple[Session, Calls, Activations], window: Window, more_turns: int
) -> None:
    """003-R141, 003-R142, 003-A05: it never activates anything, and spares pins, files and the
    freshest call.
    """
    session, calls, chosen = situation
    now = max(calls) + more_turns

    folds = _plan(session, calls, now_turn=now, activations=chosen, window=window)

    gone = set(folds)
    assert gone <= set(session.active_set) - set(session.pinned_set) - {"file-a", "file-b"}
    swept = session.collapse(gone)
    assert set(swept.active_set) == set(session.active_set) - gone
    assert _plan(swept, calls, now_turn=now, activations=chosen, window=window) == ()


@given(st.lists(st.integers(0, 8), min_size=1, max_size=8), windows)
def test_what_is_active_stays_bounded(counts: list[int], window: Window) -> None:
    """PG-04: models do not deactivate on their own, so the window must suffice."""
    if window.limit_current_only:
        return
    calls = _calls(*counts)

    left = _left(_session(calls), _plan(_session(calls), calls, window=window))

    assert len(left) <= window.per_turn * window.turns_back
