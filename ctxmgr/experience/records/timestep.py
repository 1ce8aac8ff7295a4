"""A timestep: one token of an answer, or one event such as an input or a tool call. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

from ctxmgr.core.events.event_type import EventType
from ctxmgr.errors import Incorrect

Role: TypeAlias = Literal["user", "assistant", "system", "tool"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)

SESSION_CHARS_MAX: Final = 200
"""Characters of a session's id."""

TICK_MAX: Final = 2**53
"""The largest tick: JSON readers in every language read integers up to here exactly."""

_PREFIX: Final = "ts-"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTimestep:
    """What happened in one timestep, without its place in a session."""

    timestamp: int
    """UTC milliseconds."""
    event_type: EventType
    content: str = field(default="", repr=False)
    """The token, the message or the payload."""
    concept_activations: Mapping[str, float] = field(default_factory=dict)
    """Concept id → score, the highest ones."""
    event_id: str | None = None
    """Shared by the timesteps of one event, such as a tool call."""
    event_start: bool = False
    event_end: bool = False
    token_id: int | None = None
    role: Role | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestepRecord(NewTimestep):
    """The smallest unit of experience, as it is stored."""

    session_id: str
    tick: int
    """Counts the timesteps of a session; each is larger than the one before."""

    @property
    def id(self) -> str:
        """``ts-{session}-{tick}``"""
        return timestep_id(self.session_id, self.tick)


def timestep_id(session_id: str, tick: int) -> str:
    return f"{_PREFIX}{session_id}-{tick}"


def parse_timestep_id(identifier: str) -> tuple[str, int]:
    """Return session and tick of an id; ``Incorrect`` if it is not one.

    A session's id may have dashes, a tick has none.
    """
    session_id, dash, digits = identifier.removeprefix(_PREFIX).rpartition("-")
    if not (identifier.startswith(_PREFIX) and dash and session_id and _is_tick(digits)):
        raise Incorrect(f"{identifier!r:.200} is not the id of a timestep: ts-SESSION-TICK")
    return session_id, int(digits)


def check_session_id(session_id: str) -> None:
    """Raise ``Incorrect`` if a session cannot be recorded under this id."""
    if not 0 < len(session_id) <= SESSION_CHARS_MAX or not session_id.isprintable():
        raise Incorrect(
            f"{session_id!r:.80} is not a session id: it has 1 to {SESSION_CHARS_MAX} characters,"
            " all of them printable"
        )


def _is_tick(digits: str) -> bool:
    plain = digits.isascii() and digits.isdigit() and len(digits) <= len(str(TICK_MAX))
    return plain and str(int(digits)) == digits and int(digits) <= TICK_MAX
