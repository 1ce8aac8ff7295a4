"""Facts by what they are about, to find those that may disagree without comparing all. Pure.

Facts of different projects are never compared: each project may have its own database. A fact of
the system (``Visibility.SYSTEM``) holds in all of them, and is compared with every one.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from ctxmgr.memory.contradictions.slot_words import slot_words
from ctxmgr.memory.contradictions.slots import disagreement
from ctxmgr.memory.records.bodies import Fact
from ctxmgr.memory.records.memory import Memory, Visibility

COMPARED_MAX: Final = 20
"""Memories that one is reported to contradict (001-R067)."""


class SlotIndex:
    """The facts among some memories, by the words of their keys."""

    def __init__(self, memories: Iterable[Memory] = ()) -> None:
        self._memories: dict[str, Memory] = {}
        self._by_word: dict[str, dict[str, None]] = defaultdict(dict)
        for memory in memories:
            self.put(memory)

    def put(self, memory: Memory) -> None:
        """Add a memory, or replace it."""
        self.remove(memory.id)
        if isinstance(memory.body, Fact):
            self._memories[memory.id] = memory
            for word in slot_words(memory.body.key):
                self._by_word[word][memory.id] = None

    def remove(self, memory_id: str) -> None:
        memory = self._memories.pop(memory_id, None)
        if memory is not None:
            assert isinstance(memory.body, Fact)
            for word in slot_words(memory.body.key):
                del self._by_word[word][memory_id]

    def filling(self, memory: Memory) -> Iterator[Memory]:
        """Yield the facts of the same project that share words of the key with one."""
        for other in self._sharing(memory):
            if other.id != memory.id and other.project_id == memory.project_id:
                yield other

    def disagreeing(self, memory: Memory) -> Iterator[tuple[Memory, str]]:
        """Yield the newest memories that contradict one, each with the reason.

        At most ``COMPARED_MAX``: a slot with many values would have a pair of any two.
        """
        found = 0
        newest = sorted(self._sharing(memory), key=lambda each: (-each.created_at, each.id))
        for other in newest:
            if found == COMPARED_MAX:
                return
            if other.id == memory.id or not _same_project(other, memory):
                continue
            assert isinstance(other.body, Fact)
            assert isinstance(memory.body, Fact)
            reason = disagreement(other.body, memory.body)
            if reason is not None:
                found += 1
                yield other, reason

    def _sharing(self, memory: Memory) -> Iterator[Memory]:
        """Yield the facts that share a word of their key with one."""
        if not isinstance(memory.body, Fact):
            return
        candidates: dict[str, None] = {}
        for word in sorted(slot_words(memory.body.key)):
            candidates.update(self._by_word.get(word, {}))
        for other_id in candidates:
            yield self._memories[other_id]


def _same_project(one: Memory, other: Memory) -> bool:
    return (
        one.project_id == other.project_id
        or one.visibility is Visibility.SYSTEM
        or other.visibility is Visibility.SYSTEM
    )
