"""Two memories that cannot both hold, and how that was resolved. Pure.

A contradiction is open until ``resolved_at`` is set. Its id is made of the two memories and of what
they say: an edited memory can contradict again, an unchanged pair is reported once.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ctxmgr.core.store.contract import FieldType, IdForm, Instant, Kind
from ctxmgr.errors import Corrupt
from ctxmgr.memory.records.memory import Memory

CONTRADICTION: Final = "memory_contradiction"


class Resolution(StrEnum):
    """What became of a contradiction."""

    A_WINS = "a_wins"
    """``memory_b`` is superseded."""
    B_WINS = "b_wins"
    """``memory_a`` is superseded."""
    BOTH_VALID = "both_valid"
    """Nothing changes, and the pair is not reported again."""
    MERGED = "merged"
    """A new memory supersedes both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """A pair of memories that disagree."""

    id: str
    memory_a: str
    """The id of the older one."""
    memory_b: str
    reason: str
    """What made them a pair, for a person."""
    detected_at: Instant
    resolved_at: Instant | None = None
    resolution: Resolution | None = None
    resolution_note: str | None = None

    @property
    def is_open(self) -> bool:
        return self.resolved_at is None


def contradiction_id(one: Memory, other: Memory) -> str:
    """Return the id of a pair, whatever its order."""
    parts = sorted([f"{one.id} {one.content_hash}", f"{other.id} {other.content_hash}"])
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def stored_contradiction(pair: Contradiction) -> dict[str, Any]:
    return {
        "xt/id": f"{CONTRADICTION}:{pair.id}",
        "type": CONTRADICTION,
        "memory_a": pair.memory_a,
        "memory_b": pair.memory_b,
        "reason": pair.reason,
        "detected_at": pair.detected_at,
        "resolved_at": pair.resolved_at,
        "resolution": None if pair.resolution is None else str(pair.resolution),
        "resolution_note": pair.resolution_note,
    }


def read_contradiction(stored: Mapping[str, Any]) -> Contradiction:
    """Read a document; ``Corrupt`` if a field is missing or damaged."""
    where = stored.get("xt/id")
    try:
        resolution = stored["resolution"]
        return Contradiction(
            id=str(stored["xt/id"]).removeprefix(f"{CONTRADICTION}:"),
            memory_a=str(stored["memory_a"]),
            memory_b=str(stored["memory_b"]),
            reason=str(stored["reason"]),
            detected_at=int(stored["detected_at"]),
            resolved_at=None if stored["resolved_at"] is None else int(stored["resolved_at"]),
            resolution=None if resolution is None else Resolution(resolution),
            resolution_note=stored["resolution_note"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Corrupt(f"the stored contradiction {where!r:.80} is not readable: {error}") from error


CONTRADICTION_KIND: Final = Kind(
    CONTRADICTION,
    {"memory_a": FieldType.TEXT, "memory_b": FieldType.TEXT, "resolved_at": FieldType.INTEGER},
    ids=IdForm.NAMED,
)
