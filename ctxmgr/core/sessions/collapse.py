"""Choose which tool outputs to fold, by a sliding window over turns. Pure.

    keep   pinned objects, and every file
           in each of the last ``turns_back`` turns, the last ``per_turn`` tool calls
           tool calls that were activated explicitly in one of these turns
    fold   every other active tool call

A plan only folds: what was deactivated explicitly is never activated again. Calls of the context
tools are not counted: they have no object.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Self

from ctxmgr.core.sessions.sets import Session
from ctxmgr.core.store.documents import check_object_id
from ctxmgr.errors import Incorrect

PER_TURN: Final = 5
"""Tool calls of each turn that are kept (003-R139)."""

TURNS_BACK: Final = 3
"""Turns in the window, including the current one (003-R139, 003-A04)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """How many recent tool calls the plain layout keeps in full."""

    per_turn: int = PER_TURN
    """Tool calls of each turn."""
    turns_back: int = TURNS_BACK
    """Turns, including the current one."""
    limit_current_only: bool = False
    """Apply ``per_turn`` to the current turn only, and keep all calls of the turns before it."""

    def __post_init__(self) -> None:
        if self.per_turn < 0 or self.turns_back < 0:
            raise Incorrect(
                f"per_turn and turns_back must not be negative: {self.per_turn}, {self.turns_back}"
            )

    def reaches(self, turn: int, *, now_turn: int) -> bool:
        return turn > now_turn - self.turns_back

    def keeps(self, calls: Sequence[str], *, turn: int, now_turn: int) -> Sequence[str]:
        """Return the calls of a turn that are kept."""
        if not self.reaches(turn, now_turn=now_turn):
            return ()
        if self.limit_current_only and turn < now_turn:
            return calls
        return calls[max(0, len(calls) - self.per_turn) :]


@dataclass(frozen=True, slots=True)
class Activations:
    """The turn in which each object was last activated explicitly. Stored in turn records."""

    turns: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for object_id, turn in self.turns.items():
            check_object_id(object_id)
            if type(turn) is not int or turn < 0:
                raise Incorrect(f"{object_id}: {turn!r:.80} is not the number of a turn")
        object.__setattr__(self, "turns", MappingProxyType(dict(self.turns)))

    def activated(self, object_id: str, *, turn: int) -> Self:
        return type(self)({**self.turns, object_id: turn})

    def deactivated(self, object_id: str) -> Self:
        """Forget an activation that the agent has undone."""
        return type(self)({known: turn for known, turn in self.turns.items() if known != object_id})

    def adopt(
        self, session: Session, *, expected: Container[str], made_in: Mapping[str, int], turn: int
    ) -> Self:
        """Record what another client activated: earlier calls that are not ``expected`` active.

        They count as activated in this turn: otherwise they would be folded before any prompt has
        shown them.
        """
        adopted = {
            object_id: turn
            for object_id in session.active_set
            if object_id not in expected
            and object_id not in session.pinned_set
            and object_id not in self.turns
            and made_in.get(object_id, turn) < turn
        }
        return type(self)({**self.turns, **adopted}) if adopted else self

    def still_active(self, session: Session) -> Self:
        """Drop objects that are not active any more, so that the value stays small."""
        active = session.active_set
        return type(self)(
            {object_id: turn for object_id, turn in self.turns.items() if object_id in active}
        )


def plan_collapse(
    session: Session,
    *,
    calls: Mapping[int, Sequence[str]],
    now_turn: int,
    activations: Activations,
    window: Window,
) -> tuple[str, ...]:
    """Return what to fold at the end of turn ``now_turn``, in the order of the active set.

    ``calls`` are the tool calls of each turn in the order they were made. Turns without an active
    call may be left out. An active object in none of them is a file.
    """
    toolcalls = {object_id for made in calls.values() for object_id in made}
    recent = {
        object_id
        for turn in range(max(0, now_turn - window.turns_back + 1), now_turn + 1)
        for object_id in window.keeps(calls.get(turn, ()), turn=turn, now_turn=now_turn)
    }
    chosen = activations.turns
    return tuple(
        object_id
        for object_id in session.active_set
        if object_id in toolcalls
        and object_id not in recent
        and object_id not in session.pinned_set
        and not (object_id in chosen and window.reaches(chosen[object_id], now_turn=now_turn))
    )


def collapsed(
    session: Session,
    *,
    calls: Mapping[int, Sequence[str]],
    now_turn: int,
    activations: Activations,
    window: Window,
) -> Session:
    """Return the session after the folds of ``plan_collapse``."""
    folds = plan_collapse(
        session, calls=calls, now_turn=now_turn, activations=activations, window=window
    )
    return session.collapse(folds)
