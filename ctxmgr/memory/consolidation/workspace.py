"""Memories while they are consolidated: each step sees what the steps before it did. Pure.

A step returns ``MemoryChange``s: what must be written together. The workspace takes them in at
once, so that a dry run goes through the same states as a real one and only leaves out the writing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ctxmgr.core.store.contract import Instant
from ctxmgr.memory.records.contradiction import Contradiction
from ctxmgr.memory.records.link import MemoryLink
from ctxmgr.memory.records.memory import Memory, Visibility
from ctxmgr.memory.records.principal import Principal
from ctxmgr.memory.records.usage import MemoryUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryChange:
    """What is written together: all of it or nothing."""

    what: str
    """For a person."""
    memories: tuple[Memory, ...] = ()
    """As they will be."""
    usage: tuple[MemoryUsage, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    """That are reported for the first time."""
    links: tuple[MemoryLink, ...] = ()


@dataclass(kw_only=True)
class Workspace:
    """A working copy of the memories that a principal may see."""

    principal: Principal
    now: Instant
    memories: dict[str, Memory]
    usage: Mapping[str, MemoryUsage]
    contradictions: Mapping[str, Contradiction]
    """Open and resolved ones, by id."""
    links: Mapping[str, MemoryLink]
    """By id."""
    _usage: dict[str, MemoryUsage] = field(default_factory=dict, init=False)
    _contradictions: dict[str, Contradiction] = field(default_factory=dict, init=False)
    _links: dict[str, MemoryLink] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._usage.update(self.usage)
        self._contradictions.update(self.contradictions)
        self._links.update(self.links)

    def take(self, units: Iterable[MemoryChange]) -> None:
        """Go on from what units leave behind."""
        for unit in units:
            self.memories.update((memory.id, memory) for memory in unit.memories)
            self._usage.update((usage.memory_id, usage) for usage in unit.usage)
            self._contradictions.update((pair.id, pair) for pair in unit.contradictions)
            self._links.update((link.id, link) for link in unit.links)

    def valid(self) -> list[Memory]:
        """Return what holds now, oldest first."""
        found = [each for each in self.memories.values() if each.is_valid_at(self.now)]
        return sorted(found, key=lambda memory: (memory.created_at, memory.id))

    def own(self) -> list[Memory]:
        """Return what holds now and may be changed by the principal, oldest first."""
        return [memory for memory in self.valid() if self.may_change(memory)]

    def may_change(self, memory: Memory) -> bool:
        """Whether a memory is the principal's: its own, or shared in its project."""
        if memory.project_id != self.principal.project_id:
            return False
        return (
            memory.visibility is not Visibility.USER_PRIVATE
            or memory.user_id == self.principal.user_id
        )

    def usage_of(self, memory_id: str) -> MemoryUsage:
        return self._usage.get(memory_id, MemoryUsage(memory_id=memory_id))

    def known_contradictions(self) -> Mapping[str, Contradiction]:
        return self._contradictions

    def known_links(self) -> Mapping[str, MemoryLink]:
        return self._links

    def disputed(self) -> frozenset[str]:
        """Return the ids of memories in an open contradiction."""
        return frozenset(
            memory_id
            for pair in self._contradictions.values()
            if pair.is_open
            for memory_id in (pair.memory_a, pair.memory_b)
        )
