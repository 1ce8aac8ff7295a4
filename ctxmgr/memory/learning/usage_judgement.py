"""Which of the memories in a prompt did the agent use? Pure.

    shown     the lines of a contribution, with the tier and the beginning of each memory's id
    cited     the agent named the id, or used what only that line says

A word that the user said, or that several lines share, proves nothing. What was shown for its
relevance (tier 2) and not cited until the exchange ended was ignored; nothing else ever is.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from ctxmgr.memory.tiers.context_builder import HEADINGS
from ctxmgr.search.terms import terms

OVERLAP_SHARE: Final = 0.5
"""Of a line's own words that an action has to use."""
OVERLAP_WORDS_MAX: Final = 6
"""That many are enough, however long the line is."""
SHOWN_MAX: Final = 500
"""Memories of one exchange that are judged."""

RELEVANT_TIER: Final = 2
INDEX_TIER: Final = 4

_MARKED: Final = re.compile(r"^- (?P<text>.*) \[(?P<id>[0-9a-f]{8})\]$")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMemory:
    """A memory that prompts of the present exchange show."""

    id: str
    tier: int
    cited: bool = False

    def to_value(self) -> list[Any]:
        return [self.id, self.tier, self.cited]

    @classmethod
    def from_value(cls, value: Any) -> Self:
        memory_id, tier, cited = value
        return cls(id=str(memory_id), tier=int(tier), cited=bool(cited))

    @property
    def ignored(self) -> bool:
        return self.tier == RELEVANT_TIER and not self.cited

    def as_cited(self) -> Self:
        return replace(self, cited=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownLine:
    """A line of a contribution."""

    start: str
    """The first characters of the memory's id."""
    tier: int
    text: str


def shown_lines(contribution: str) -> tuple[ShownLine, ...]:
    """Return the memories that a contribution shows; names in the index do not count."""
    found, tier = [], 0
    for line in contribution.splitlines():
        if line in HEADINGS:
            tier = HEADINGS.index(line) + 1
        elif 0 < tier < INDEX_TIER and (marked := _MARKED.match(line)) is not None:
            found.append(ShownLine(start=marked["id"], tier=tier, text=marked["text"]))
    return tuple(found[:SHOWN_MAX])


def cited_lines(lines: Iterable[ShownLine], *, action: str, said: str) -> frozenset[str]:
    """Return which lines an action relies on; ``said`` are the user's own words."""
    lines = tuple(lines)
    words = {line.start: frozenset(terms(line.text)) for line in lines}
    shared = Counter(word for own in words.values() for word in own)
    done, known = frozenset(terms(action)), frozenset(terms(said))
    cited = set()
    for line in lines:
        telling = {word for word in words[line.start] if shared[word] == 1} - known
        needed = min(math.ceil(OVERLAP_SHARE * len(telling)), OVERLAP_WORDS_MAX)
        if line.start in action or (telling and len(telling & done) >= needed):
            cited.add(line.start)
    return frozenset(cited)


def action_of(turn: Mapping[str, Any]) -> str:
    """Return what the agent said and did in a turn: its words and the arguments of its calls."""
    parts = [part for part in turn.get("assistant") or () if isinstance(part, Mapping)]
    said = [str(part.get("text") or "") for part in parts if part.get("type") == "text"]
    return "\n".join((*said, *(text for part in parts for text in _texts(part.get("args")))))


def _texts(value: Any) -> Iterable[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for each in value.values():
                yield from _texts(each)
        case list():
            for each in value:
                yield from _texts(each)
