"""Memories that links lead to from what matches. Pure.

A link never makes a memory outrank a match: what it leads to is offered after all of them. Only
the best matches are followed, one step far, and only strong links.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from ctxmgr.memory.records.link import LinkKind, MemoryLink

FOLLOWED_MAX: Final = 3
"""Matches whose links are followed, the best."""

FOLLOWED_SHARE: Final = 0.5
"""Of the best match's score, which a match needs to be followed."""

STRENGTH_MIN: Final = 0.5
LINKED_MAX: Final = 4

_WHY: Final = MappingProxyType(
    {
        LinkKind.SOLVED_BY: "a problem and its fix",
        LinkKind.PART_OF: "learnt together",
        LinkKind.RELATED_TO: "related",
    }
)
"""What is superseded or contradicted is shown elsewhere, or not at all."""


def linked_memories(
    relevance: Mapping[str, float], links: Mapping[str, Sequence[MemoryLink]]
) -> dict[str, str]:
    """Return what is linked with the best matches, with the reason, the strongest first."""
    best = max(relevance.values(), default=0.0)
    order = sorted(relevance, key=lambda each: (-relevance[each], each))
    found: dict[str, tuple[float, str]] = {}
    for memory_id in order[:FOLLOWED_MAX]:
        if relevance[memory_id] < FOLLOWED_SHARE * best:
            break
        for link in links.get(memory_id, ()):
            if link.kind in _WHY and link.strength >= STRENGTH_MIN:
                why = f"linked with {memory_id[:8]}: {_WHY[link.kind]}"
                found.setdefault(link.other(memory_id), (link.strength, why))
    strongest = sorted(found.items(), key=lambda entry: (-entry[1][0], entry[0]))
    return {memory_id: why for memory_id, (_, why) in strongest[:LINKED_MAX]}
