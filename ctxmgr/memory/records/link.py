"""How two memories belong together. Pure.

A link has a direction: ``a`` KIND ``b``, as in "the outage is solved by the retry". Only
``related_to`` and ``contradicts`` mean the same both ways; their ``a`` is the smaller id. A link is
seen by whoever may see both memories.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ctxmgr.core.store.contract import FieldType, IdForm, Instant, Kind
from ctxmgr.errors import Corrupt, Incorrect

LINK: Final = "memory_link"
REASON_CHARS_MAX: Final = 300


class LinkKind(StrEnum):
    """What one memory is to another."""

    RELATED_TO = "related_to"
    SOLVED_BY = "solved_by"
    SUPERSEDES = "supersedes"
    CONTRADICTS = "contradicts"
    PART_OF = "part_of"


_BOTH_WAYS: Final = frozenset({LinkKind.RELATED_TO, LinkKind.CONTRADICTS})


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLink:
    """One memory's relation to another."""

    memory_a: str
    memory_b: str
    kind: LinkKind
    strength: float
    """0 to 1, as it was when the link was found."""
    reason: str
    """What they share, for a person."""
    detected_at: Instant

    def __post_init__(self) -> None:
        if self.memory_a == self.memory_b:
            raise Incorrect(f"memory {self.memory_a} cannot be linked to itself")
        if not 0.0 <= self.strength <= 1.0:
            raise Incorrect(f"the strength of a link is 0 to 1, not {self.strength!r}")
        if len(self.reason) > REASON_CHARS_MAX:
            raise Incorrect(f"the reason of a link has at most {REASON_CHARS_MAX} characters")
        if self.kind in _BOTH_WAYS and self.memory_a > self.memory_b:
            raise Incorrect(f"a link that is {self.kind} names the smaller id first")

    @property
    def id(self) -> str:
        """The same for the same pair and kind: a link is found once."""
        parts = f"{self.kind}\n{self.memory_a}\n{self.memory_b}"
        return hashlib.sha256(parts.encode()).hexdigest()[:32]

    def other(self, memory_id: str) -> str:
        return self.memory_b if memory_id == self.memory_a else self.memory_a


def link_between(
    one: str, other: str, kind: LinkKind, *, strength: float, reason: str, detected_at: Instant
) -> MemoryLink:
    """Return a link; where the direction does not matter, the ids are put in order."""
    first, second = sorted((one, other)) if kind in _BOTH_WAYS else (one, other)
    return MemoryLink(
        memory_a=first,
        memory_b=second,
        kind=kind,
        strength=round(min(1.0, strength), 3),
        reason=reason[:REASON_CHARS_MAX],
        detected_at=detected_at,
    )


def stored_link(link: MemoryLink) -> dict[str, Any]:
    return {
        "xt/id": f"{LINK}:{link.id}",
        "type": LINK,
        "memory_a": link.memory_a,
        "memory_b": link.memory_b,
        "kind": str(link.kind),
        "strength": link.strength,
        "reason": link.reason,
        "detected_at": link.detected_at,
    }


def read_link(stored: Mapping[str, Any]) -> MemoryLink:
    """Read a document; ``Corrupt`` if a field is missing or damaged."""
    where = stored.get("xt/id")
    try:
        return MemoryLink(
            memory_a=str(stored["memory_a"]),
            memory_b=str(stored["memory_b"]),
            kind=LinkKind(stored["kind"]),
            strength=float(stored["strength"]),
            reason=str(stored["reason"]),
            detected_at=int(stored["detected_at"]),
        )
    except (KeyError, TypeError, ValueError, Incorrect) as error:
        raise Corrupt(f"the stored link {where!r:.80} is not readable: {error}") from error


def _check_stored(document: Mapping[str, Any]) -> None:
    """Refuse to store what could not be read again."""
    try:
        link = read_link(document)
    except Corrupt as error:
        raise Incorrect(str(error)) from error
    if document["xt/id"] != f"{LINK}:{link.id}":
        raise Incorrect(f"{document['xt/id']!r:.80} is not the id of that link")


LINK_KIND: Final = Kind(
    LINK,
    {"memory_a": FieldType.TEXT, "memory_b": FieldType.TEXT, "kind": FieldType.TEXT},
    ids=IdForm.NAMED,
    check=_check_stored,
)
