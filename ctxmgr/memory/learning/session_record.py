"""How far a session was learnt from, and for whom. Pure.

    memory_session:{session}   whose session it is; the last turn that was learnt from; failures
                               that wait for their fix
    memory_position:{owner}    the event up to which everything was handled, per user and project
    memory_habits:{owner}      the commands of the last exchanges, in which workflows are found

A session belongs to the user and the project whose client asked memory for its prompts. What one
exchange teaches and this record are one transaction, so that nothing is learnt twice.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ctxmgr.core.events.events import EventId
from ctxmgr.errors import Corrupt
from ctxmgr.memory.extraction.error_fixes import OpenFailure
from ctxmgr.memory.extraction.workflows import CommandSequence
from ctxmgr.memory.learning.usage_judgement import ShownMemory
from ctxmgr.memory.records.learning_kinds import HABITS, LEARNING, POSITION, named_after
from ctxmgr.memory.records.principal import Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningRecord:
    """What is known of one session."""

    session_id: str
    owner: Principal
    learnt_turn: int = 0
    """The last turn of the last exchange that was learnt from."""
    answered: bool = False
    """Whether the agent has answered in the session."""
    compacted_turn: int = 0
    """Turns up to this one are shown as a summary."""
    failures: tuple[OpenFailure, ...] = ()
    shown: tuple[ShownMemory, ...] = ()
    """What prompts of the open exchange show, as far as it was counted."""


def learning_id(session_id: str) -> str:
    return f"{LEARNING}:{named_after(session_id)}"


def position_id(owner: Principal) -> str:
    return f"{POSITION}:{_digest(owner)}"


def _digest(owner: Principal) -> str:
    return hashlib.sha256(f"{owner.user_id}\n{owner.project_id}".encode()).hexdigest()[:32]


def stored_learning(record: LearningRecord) -> dict[str, Any]:
    return {
        "xt/id": learning_id(record.session_id),
        "type": LEARNING,
        "session_id": record.session_id,
        "user_id": record.owner.user_id,
        "project_id": record.owner.project_id,
        "learnt_turn": record.learnt_turn,
        "answered": record.answered,
        "compacted_turn": record.compacted_turn,
        "failures": [failure.to_value() for failure in record.failures],
        "shown": [shown.to_value() for shown in record.shown],
    }


def read_learning(stored: Mapping[str, Any]) -> LearningRecord:
    """Read a document; ``Corrupt`` if a field is missing or damaged."""
    try:
        return LearningRecord(
            session_id=str(stored["session_id"]),
            owner=Principal(user_id=str(stored["user_id"]), project_id=str(stored["project_id"])),
            learnt_turn=int(stored["learnt_turn"]),
            answered=bool(stored["answered"]),
            compacted_turn=int(stored["compacted_turn"]),
            failures=tuple(OpenFailure.from_value(each) for each in stored["failures"]),
            shown=tuple(ShownMemory.from_value(each) for each in stored["shown"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        where = stored.get("xt/id")
        raise Corrupt(f"the stored record {where!r:.80} is not readable: {error}") from error


def habits_id(owner: Principal) -> str:
    return f"{HABITS}:{_digest(owner)}"


def stored_habits(owner: Principal, sequences: Sequence[CommandSequence]) -> dict[str, Any]:
    return {
        "xt/id": habits_id(owner),
        "type": HABITS,
        "sequences": [list(sequence) for sequence in sequences],
    }


def read_habits(stored: Mapping[str, Any]) -> tuple[CommandSequence, ...]:
    """Read a document; ``Corrupt`` if a field is missing or damaged."""
    try:
        return tuple(tuple(map(str, sequence)) for sequence in stored["sequences"])
    except (KeyError, TypeError) as error:
        where = stored.get("xt/id")
        raise Corrupt(f"the stored habits {where!r:.80} are not readable: {error}") from error


def stored_position(owner: Principal, position: EventId) -> dict[str, Any]:
    return {
        "xt/id": position_id(owner),
        "type": POSITION,
        "sequence": position.sequence,
        "position": position.position,
    }


def read_position(stored: Mapping[str, Any]) -> EventId:
    """Read a document; ``Corrupt`` if a field is missing or damaged."""
    try:
        return EventId(int(stored["sequence"]), int(stored["position"]))
    except (KeyError, TypeError, ValueError) as error:
        where = stored.get("xt/id")
        raise Corrupt(f"the stored position {where!r:.80} is not readable: {error}") from error
