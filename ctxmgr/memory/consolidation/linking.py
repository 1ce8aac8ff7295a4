"""Which memories belong together. Pure.

    supersedes     one took the place of the other
    contradicts    they are a reported pair, resolved or not
    part_of        a fact that was learnt in the turn that an episode tells of
    solved_by      a problem, and the fix of an error about the same file with the same rare words
    related_to     they share a file, or rare words

How much two memories share is the sum of the idf of their common words and tags, divided by the
smaller of their own sums. Words of more than ``COMMON_MAX`` memories say nothing here.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from math import log
from typing import Final

from ctxmgr.memory.consolidation.workspace import MemoryChange, Workspace
from ctxmgr.memory.records.bodies import Episode
from ctxmgr.memory.records.link import LinkKind, MemoryLink, link_between
from ctxmgr.memory.records.memory import Memory, MemoryKind
from ctxmgr.search.terms import stem, terms
from ctxmgr.search.terms import words as words_of

RELATED_MIN: Final = 0.3
"""The share of words and tags that makes memories related."""

RELATED_MAX: Final = 3
"""Related memories that are looked for, from each."""

COMMON_MAX: Final = 50
"""Memories that may have a word before it counts as common."""

WORDS_MAX: Final = 60
"""Words of a memory that count, from the beginning of its summary."""


def discover_connections(workspace: Workspace) -> list[MemoryChange]:
    """Return links that are not known yet."""
    found = chain(_superseding(workspace), _contradicting(workspace), _parts(workspace))
    known = dict(workspace.known_links())
    units = []
    for link in chain(found, _related(workspace)):
        if link.id not in known:
            known[link.id] = link
            units.append(MemoryChange(what=f"{link.kind}: {link.reason:.80}", links=(link,)))
    return units


def _superseding(workspace: Workspace) -> Iterable[MemoryLink]:
    for memory in workspace.memories.values():
        if memory.superseded_by in workspace.memories and memory.superseded_by != memory.id:
            assert memory.superseded_by is not None
            reason = f"{memory.superseded_by[:8]} took the place of {memory.id[:8]}"
            yield _link(
                workspace, memory.superseded_by, memory.id, LinkKind.SUPERSEDES, reason=reason
            )


def _contradicting(workspace: Workspace) -> Iterable[MemoryLink]:
    for pair in workspace.known_contradictions().values():
        if (
            pair.memory_a in workspace.memories
            and pair.memory_b in workspace.memories
            and pair.memory_a != pair.memory_b
        ):
            yield _link(
                workspace, pair.memory_a, pair.memory_b, LinkKind.CONTRADICTS, reason=pair.reason
            )


def _parts(workspace: Workspace) -> Iterable[MemoryLink]:
    valid = [each for each in workspace.valid() if each.origin.session_id and each.origin.turn]
    episodes = {
        (each.origin.session_id, each.origin.turn): each
        for each in reversed(valid)
        if isinstance(each.body, Episode)
    }
    for memory in valid:
        origin = memory.origin
        episode = episodes.get((origin.session_id, origin.turn))
        if episode is not None and not isinstance(memory.body, Episode):
            reason = f"learnt in turn {origin.turn} of {origin.session_id}"
            yield _link(workspace, memory.id, episode.id, LinkKind.PART_OF, reason=reason)


def _related(workspace: Workspace) -> Iterable[MemoryLink]:
    shared_words = _SharedWords(workspace.valid())
    linked = _linked_pairs(workspace)
    for memory in workspace.own():
        room = RELATED_MAX - len(linked[memory.id])
        if room <= 0:
            continue
        for other, strength, common in shared_words.nearest(memory)[:room]:
            if other.id not in linked[memory.id]:
                linked[memory.id].add(other.id)
                linked[other.id].add(memory.id)
                reason = f"both have {', '.join(_as_written(common, memory)[:5])}"
                yield _related_link(memory, other, strength, reason, workspace)


class _SharedWords:
    """Memories by their rare words and tags."""

    def __init__(self, memories: Sequence[Memory]) -> None:
        self._memories = {memory.id: memory for memory in memories}
        self._words = {memory.id: _words(memory) for memory in memories}
        frequency = Counter(chain.from_iterable(self._words.values()))
        self._weights = {
            word: log(1 + len(memories) / found)
            for word, found in frequency.items()
            if found <= COMMON_MAX
        }
        self._holders: dict[str, list[str]] = defaultdict(list)
        for memory_id, words in self._words.items():
            for word in words:
                if word in self._weights and frequency[word] > 1:
                    self._holders[word].append(memory_id)

    def nearest(self, memory: Memory) -> list[tuple[Memory, float, list[str]]]:
        """Return what is related to a memory, with the strength and the words, best first."""
        common: dict[str, list[str]] = defaultdict(list)
        for word in self._words[memory.id]:
            for other_id in self._holders.get(word, ()):
                if self._memories[other_id].project_id == memory.project_id:
                    common[other_id].append(word)
        common.pop(memory.id, None)
        own = self._worth(self._words[memory.id])
        found = []
        for other_id, words in common.items():
            whole = min(own, self._worth(self._words[other_id]))
            strength = self._worth(words) / whole if whole else 0.0
            if len(words) > 1 and strength >= RELATED_MIN:
                found.append((self._memories[other_id], strength, words))
        return sorted(found, key=lambda entry: (-entry[1], entry[0].id))

    def _worth(self, words: Iterable[str]) -> float:
        return sum(self._weights.get(word, 0.0) for word in words)


def _related_link(
    memory: Memory, other: Memory, strength: float, reason: str, workspace: Workspace
) -> MemoryLink:
    for problem, fix in ((memory, other), (other, memory)):
        if fix.kind is MemoryKind.ERROR_FIX and isinstance(problem.body, Episode):
            return _link(
                workspace, problem.id, fix.id, LinkKind.SOLVED_BY, strength=strength, reason=reason
            )
    return _link(
        workspace, memory.id, other.id, LinkKind.RELATED_TO, strength=strength, reason=reason
    )


def _linked_pairs(workspace: Workspace) -> Mapping[str, set[str]]:
    """Return what each memory is already linked to because of what they share."""
    linked: dict[str, set[str]] = defaultdict(set)
    for link in workspace.known_links().values():
        if link.kind in (LinkKind.RELATED_TO, LinkKind.SOLVED_BY):
            linked[link.memory_a].add(link.memory_b)
            linked[link.memory_b].add(link.memory_a)
    return linked


def _words(memory: Memory) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*memory.tags, *terms(_text(memory))[:WORDS_MAX])))


def _as_written(common: Iterable[str], memory: Memory) -> list[str]:
    """Return tags and words as a memory has them: a stem need not be a word."""
    written = {stem(word): word for word in reversed(words_of(_text(memory)))}
    return sorted(each if each in memory.tags else written.get(each, each) for each in common)


def _text(memory: Memory) -> str:
    return f"{memory.levels.index} {memory.levels.summary}"


def _link(
    workspace: Workspace,
    one: str,
    other: str,
    kind: LinkKind,
    *,
    strength: float = 1.0,
    reason: str,
) -> MemoryLink:
    return link_between(
        one,
        other,
        kind,
        strength=strength,
        reason=reason,
        detected_at=workspace.now,
    )
