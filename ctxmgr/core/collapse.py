"""Which tool outputs to fold, by a sliding window over turns. Pure.

    kept   what is pinned, and every file
           in each of the last ``turns_back`` turns, its last ``per_turn`` tool calls
           a tool call that was activated on purpose in one of these turns
    fold   every other active tool call

A plan only folds: what was deactivated on purpose stays so, whatever the window says. Calls of the
context tools are no tool calls here: they have no object.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Self

from ctxmgr.core.documents import check_object_id
from ctxmgr.core.sessions import Session
from ctxmgr.errors import Incorrect

PER_TURN: Final = 5
"""Tool calls that stay of each turn (003-R139)."""

TURNS_BACK: Final = 3
"""Turns that the window reaches over, the current one included (003-R139, 003-A04)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """How many tool calls of how many turns stay in full."""

    per_turn: int = PER_TURN
    turns_back: int = TURNS_BACK
    limit_current_only: bool = False
    """The other reading of 003-R139: ``per_turn`` limits the current turn, and of the turns before
    it every call stays."""

    def __post_init__(self) -> None:
        if self.per_turn < 0 or self.turns_back < 0:
            raise Incorrect(f"a window has no negative sides: {self.per_turn} x {self.turns_back}")

    def reaches(self, turn: int, *, now_turn: int) -> bool:
        return turn > now_turn - self.turns_back

    def keeps(self, calls: Sequence[str], *, turn: int, now_turn: int) -> Sequence[str]:
        """Return those of a turn's calls that stay."""
        if not self.reaches(turn, now_turn=now_turn):
            return ()
        if self.limit_current_only and turn < now_turn:
            return calls
        return calls[max(0, len(calls) - self.per_turn) :]


@dataclass(frozen=True, slots=True)
class Activations:
    """In which turn each object was last activated on purpose. Turn records keep it."""

    turns: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for object_id, turn in self.turns.items():
            check_object_id(object_id)
            if type(turn) is not int or turn < 0:
                raise Incorrect(f"{object_id}: a turn of activation is a number, not {turn!r:.80}")
        object.__setattr__(self, "turns", MappingProxyType(dict(self.turns)))

    def activated(self, object_id: str, *, turn: int) -> Self:
        return type(self)({**self.turns, object_id: turn})

    def deactivated(self, object_id: str) -> Self:
        """Forget the choice: the agent has taken it back."""
        return type(self)({each: turn for each, turn in self.turns.items() if each != object_id})

    def adopt(
        self, session: Session, *, expected: Container[str], made_in: Mapping[str, int], turn: int
    ) -> Self:
        """Note what somebody else has activated: earlier calls that are not ``expected`` active.

        They are choices of this turn. Nobody here made them, and a sweep that took them for
        leftovers would fold them before any prompt had shown them.
        """
        found = {
            each: turn
            for each in session.active_set
            if each not in expected
            and each not in session.pinned_set
            and each not in self.turns
            and made_in.get(each, turn) < turn
        }
        return type(self)({**self.turns, **found}) if found else self

    def still_active(self, session: Session) -> Self:
        """Keep what still matters, so that the value stays as small as the active set."""
        return type(self)(
            {each: turn for each, turn in self.turns.items() if each in session.active_set}
        )


class Reason(StrEnum):
    """Why an output is folded."""

    OLD = "old"
    """Its turn lies behind the window."""
    CROWDED = "crowded"
    """Its turn made more calls after it than the window keeps."""
    CHOICE_AGED = "choice_aged"
    """It had been activated on purpose, and that turn lies behind the window now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """One output to fold."""

    object_id: str
    reason: Reason
    turn: int
    """Of the call or, where a choice has aged, of the choice."""


def plan_collapse(
    session: Session,
    *,
    calls: Mapping[int, Sequence[str]],
    now_turn: int,
    activations: Activations,
    window: Window,
) -> tuple[Fold, ...]:
    """Say what to fold at the end of turn ``now_turn``, in the order of the active set.

    ``calls`` gives, by turn, its tool calls in the order they were made. Turns that hold no active
    call may be left out. An active object in none of them is a file.
    """
    made_in = {object_id: turn for turn, made in calls.items() for object_id in made}
    recent = frozenset(_recent(calls, now_turn=now_turn, window=window))
    candidates = (
        object_id
        for object_id in session.active_set
        if object_id in made_in and object_id not in recent and object_id not in session.pinned_set
    )
    folds = []
    for object_id in candidates:
        chosen = activations.turns.get(object_id)
        if chosen is None or not window.reaches(chosen, now_turn=now_turn):
            folds.append(_fold(object_id, made_in[object_id], chosen, window, now_turn))
    return tuple(folds)


def collapsed(
    session: Session,
    *,
    calls: Mapping[int, Sequence[str]],
    now_turn: int,
    activations: Activations,
    window: Window,
) -> Session:
    """Return the session as it is after what ``plan_collapse`` says."""
    folds = plan_collapse(
        session, calls=calls, now_turn=now_turn, activations=activations, window=window
    )
    return session.collapse({fold.object_id for fold in folds})


def _recent(calls: Mapping[int, Sequence[str]], *, now_turn: int, window: Window) -> Iterator[str]:
    for turn in range(max(0, now_turn - window.turns_back + 1), now_turn + 1):
        yield from window.keeps(calls.get(turn, ()), turn=turn, now_turn=now_turn)


def _fold(object_id: str, made_in: int, chosen: int | None, window: Window, now_turn: int) -> Fold:
    if chosen is not None:
        return Fold(object_id=object_id, reason=Reason.CHOICE_AGED, turn=chosen)
    crowded = window.reaches(made_in, now_turn=now_turn)
    return Fold(object_id=object_id, reason=Reason.CROWDED if crowded else Reason.OLD, turn=made_in)
