"""Which memories may be in a prompt: the most useful of each group, without a full scan. Pure.

A memory gets into a prompt because it matches, because of what it is (instruction, convention …),
because it is about the current file, or because its error is recent. Of each group only as many are
needed as fit in the tier. Memories are kept in the order of their usefulness, which changes with
every use and once a day.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from heapq import nsmallest
from itertools import islice
from typing import Final, TypeAlias, TypeVar

from ctxmgr.core.store.contract import Instant
from ctxmgr.memory.records.bodies import MemoryType
from ctxmgr.memory.records.memory import Memory, MemoryKind
from ctxmgr.memory.records.usage import MemoryUsage
from ctxmgr.memory.tiers.assembly import HISTORY_MAX
from ctxmgr.memory.tiers.ranking import DAY_MS, usefulness

LINE_TOKENS: Final = 12
"""Tokens of a rather short line, by which the lines of a tier are estimated."""

SPARE: Final = 30
"""Candidates beyond that, for what is shown elsewhere or does not fit."""

RECENT_MS: Final = 24 * 3_600_000

_Entry: TypeAlias = tuple[float, Instant, str]
"""The negative usefulness, the creation and the id: entries sort as they are offered."""

_Sorted = TypeVar("_Sorted", _Entry, tuple[Instant, str])

_LAID_DOWN, _BACKGROUND, _ANY = range(3)
_DECIDED: Final = frozenset({MemoryKind.DECISION, MemoryKind.ADR})
_GROUP_OF: Final = {
    MemoryKind.INSTRUCTION: _LAID_DOWN,
    MemoryKind.QUESTION: _LAID_DOWN,
    MemoryKind.CONVENTION: _BACKGROUND,
    MemoryKind.PREFERENCE: _BACKGROUND,
    MemoryKind.DECISION: _BACKGROUND,
    MemoryKind.ADR: _BACKGROUND,
}


class Shortlist:
    """Memories that hold, ordered by usefulness."""

    def __init__(self) -> None:
        self.memories: dict[str, Memory] = {}
        self._usage: dict[str, MemoryUsage] = {}
        self._entries: dict[str, _Entry] = {}
        self._groups: list[list[_Entry]] = [[] for _ in range(3)]
        self._errors: list[tuple[Instant, str]] = []
        self._about: dict[str, dict[str, None]] = defaultdict(dict)
        self._named: dict[str, dict[str, None]] = defaultdict(dict)
        """The last part of a tag that is a path → memories."""
        self._inside: dict[str, dict[str, None]] = defaultdict(dict)
        """Folder → memories with a tag inside."""
        self._past: dict[str, list[_Entry]] = defaultdict(list)
        """Folder → warm episodes with a tag inside, the most useful first."""
        self._day = 0

    def load(
        self, memories: Iterable[Memory], usage: Mapping[str, MemoryUsage], *, now: Instant
    ) -> None:
        """Take in many memories at once, in place of what was known."""
        self.memories = {memory.id: memory for memory in memories}
        self._usage = {memory_id: usage[memory_id] for memory_id in self.memories & usage.keys()}
        self._order(now)

    def put(self, memory: Memory, usage: MemoryUsage) -> None:
        """Add a memory, or replace it and its use."""
        self.remove(memory.id)
        self.memories[memory.id] = memory
        self._usage[memory.id] = usage
        entry = self._entry(memory)
        self._entries[memory.id] = entry
        for group in _groups(memory):
            insort(self._groups[group], entry)
        if memory.kind is MemoryKind.ERROR_FIX:
            insort(self._errors, (memory.created_at, memory.id))
        for folder in _folders_of_past(memory):
            insort(self._past[folder], entry)
        self._add_tags(memory)

    def remove(self, memory_id: str) -> None:
        memory = self.memories.pop(memory_id, None)
        if memory is None:
            return
        entry = self._entries.pop(memory_id)
        for group in _groups(memory):
            _discard(self._groups[group], entry)
        if memory.kind is MemoryKind.ERROR_FIX:
            _discard(self._errors, (memory.created_at, memory.id))
        for folder in _folders_of_past(memory):
            _discard(self._past[folder], entry)
        for index, key in self._tag_keys(memory):
            index[key].pop(memory_id, None)
        self._usage.pop(memory_id, None)

    def usage(self, memory_id: str) -> MemoryUsage:
        """Return the counters of a memory; zeros if it was never shown."""
        return self._usage.get(memory_id) or MemoryUsage(memory_id=memory_id)

    def usefulness(self, memory_ids: Iterable[str]) -> dict[str, float]:
        """Return how useful memories have proved, as of the day of the last question."""
        return {each: -self._entries[each][0] for each in memory_ids}

    def about(self, path: str) -> Iterator[str]:
        """Yield the memories about a file, whatever part of its path they name.

        Those that were learnt or used last come first: of many, a caller takes only some.
        """
        found = self._named.get(path.rpartition("/")[2], {})
        return (
            each
            for each in reversed(found)
            if any(is_same_file(tag, path) for tag in self.memories[each].tags)
        )

    def covering(self, path: str) -> list[str]:
        """Return the memories about a file or a folder above it, by the whole path."""
        parts = path.split("/")
        places = ("/".join(parts[:length]) for length in range(1, len(parts) + 1))
        return [each for place in places for each in self._about.get(place, ())]

    def inside(self, folder: str, most: int) -> list[str]:
        """Return the most useful memories about something in a folder."""
        found = self._inside.get(folder, ())
        return [each for _, _, each in nsmallest(most, (self._entries[each] for each in found))]

    def error_fixes(self) -> Iterator[str]:
        """Yield all fixes of errors, the newest first."""
        return (each for _, each in reversed(self._errors))

    def background(self) -> Iterator[str]:
        """Yield conventions, preferences, decisions and workflows, the most useful first."""
        return (each for _, _, each in self._groups[_BACKGROUND])

    def candidates(
        self,
        *,
        matching: Collection[str],
        path: str | None,
        tier_tokens: tuple[int, ...],
        now: Instant,
        is_offered: Callable[[Memory], bool] = lambda _: True,
    ) -> list[Memory]:
        """Return what may be shown in tiers of these sizes, of those that are offered."""
        if now // DAY_MS != self._day:
            self._order(now)
        critical, _, background, index = (tokens // LINE_TOKENS + SPARE for tokens in tier_tokens)

        def offered(memory_ids: Iterable[str], most: int | None = None) -> list[str]:
            found = (each for each in memory_ids if is_offered(self.memories[each]))
            return list(islice(found, most))

        wanted = dict.fromkeys(offered(each for each in matching if each in self.memories))
        for group, entries in enumerate(self._groups[:_ANY]):
            most = critical if group == _LAID_DOWN else background
            wanted.update(dict.fromkeys(offered((each for _, _, each in entries), most)))
        recent = bisect_left(self._errors, (now - RECENT_MS, ""))
        newest = (each for _, each in reversed(self._errors[recent:]))
        wanted.update(dict.fromkeys(offered(newest, critical)))
        wanted.update(dict.fromkeys(offered(self._decided_about(path), critical)))
        wanted.update(dict.fromkeys(offered(self._past_of(path), HISTORY_MAX)))
        others = (each for _, _, each in self._groups[_ANY] if each not in wanted)
        wanted.update(dict.fromkeys(offered(others, index)))
        return [self.memories[each] for each in wanted if self.memories[each].is_valid_at(now)]

    def _decided_about(self, path: str | None) -> list[str]:
        """Return the decisions about a file or a folder above it, the most useful first."""
        if path is None:
            return []
        found = {
            self._entries[each]
            for each in self.covering(path)
            if self.memories[each].kind in _DECIDED
        }
        return [each for _, _, each in sorted(found)]

    def _past_of(self, path: str | None) -> Iterable[str]:
        """Return the warm episodes about a file or something in its folder, most useful first."""
        if path is None:
            return ()
        folder, slash, _ = path.rpartition("/")
        if slash:
            return (each for _, _, each in self._past.get(folder, ()))
        found = (self.memories[each] for each in self._about.get(path, ()))
        return [each for _, _, each in sorted(self._entries[m.id] for m in found if _is_past(m))]

    def _add_tags(self, memory: Memory) -> None:
        for index, key in self._tag_keys(memory):
            index[key][memory.id] = None

    def _tag_keys(self, memory: Memory) -> Iterator[tuple[dict[str, dict[str, None]], str]]:
        for tag in memory.tags:
            yield self._about, tag.rstrip("/")
            _, slash, name = tag.rpartition("/")
            if slash or "." in name:
                yield self._named, name
            for folder in _folders_above(tag):
                yield self._inside, folder

    def _order(self, now: Instant) -> None:
        """Order everything by its usefulness on a day."""
        self._day = now // DAY_MS
        self._entries.clear()
        self._groups = [[] for _ in range(3)]
        self._errors.clear()
        for index in (self._about, self._named, self._inside, self._past):
            index.clear()
        for memory in self.memories.values():
            entry = self._entry(memory)
            self._entries[memory.id] = entry
            for group in _groups(memory):
                self._groups[group].append(entry)
            if memory.kind is MemoryKind.ERROR_FIX:
                self._errors.append((memory.created_at, memory.id))
            for folder in _folders_of_past(memory):
                self._past[folder].append(entry)
            self._add_tags(memory)
        for entries in (*self._groups, *self._past.values()):
            entries.sort()
        self._errors.sort()

    def _entry(self, memory: Memory) -> _Entry:
        used = self._usage.get(memory.id) or MemoryUsage(memory_id=memory.id)
        score = usefulness(memory, used, now=self._day * DAY_MS)
        return -score, memory.created_at, memory.id


def is_same_file(one: str, other: str) -> bool:
    """Whether two paths name the same file, one of them perhaps by less of its path."""
    return one == other or one.endswith(f"/{other}") or other.endswith(f"/{one}")


def _groups(memory: Memory) -> Iterable[int]:
    """Return the groups from which a memory is offered unasked; a cold one is in none."""
    if memory.cold:
        return
    yield _ANY
    if memory.kind in _GROUP_OF:
        yield _GROUP_OF[memory.kind]
    elif memory.type is MemoryType.WORKFLOW:
        yield _BACKGROUND


def _folders_above(tag: str) -> Iterator[str]:
    while tag := tag.rpartition("/")[0]:
        yield tag


def _is_past(memory: Memory) -> bool:
    return memory.type is MemoryType.EPISODE and not memory.cold


def _folders_of_past(memory: Memory) -> frozenset[str]:
    """Return the folders whose history a memory belongs to."""
    if not _is_past(memory):
        return frozenset()
    return frozenset(folder for tag in memory.tags for folder in _folders_above(tag))


def _discard(entries: list[_Sorted], entry: _Sorted) -> None:
    place = bisect_left(entries, entry)
    if place < len(entries) and entries[place] == entry:
        del entries[place]
