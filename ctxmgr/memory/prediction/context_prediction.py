"""Which memories the work at hand will need, from signals alone. Pure.

    file opened           decisions about it, fixes of its errors; what is about its folder, about
                          what it imports, about files that were committed with it and about files
                          that memories name beside it
    branch                decisions and patterns that match the words of its name
    error                 fixes of the same error, by signature, and of similar ones
    time of day           workflows that were used at this hour
    collaborator          what that person prefers

The confidence is the share of predicted memories that are clearly about the signal, times how often
memories like these were used when they were shown.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from ctxmgr.memory.prediction.error_signature import error_signature
from ctxmgr.memory.records.bodies import Episode, Fact, MemoryType
from ctxmgr.memory.records.memory import Memory, MemoryKind
from ctxmgr.memory.records.usage import MemoryUsage

TIER_MAX: Final = 20
"""Memories that are predicted for a tier."""

BESIDE_MAX: Final = 20
"""Files that count as belonging to an opened one."""

MATCH_CUT: Final = 0.35
"""The share of the best match's score from which a memory counts as clearly relevant."""

HOURS_AROUND: Final = 1

_DECIDED: Final = frozenset({MemoryKind.DECISION, MemoryKind.ADR})
_PROJECT_WIDE: Final = frozenset({MemoryKind.CONVENTION, MemoryKind.PREFERENCE})


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkSignals:
    """What just happened."""

    file_opened: str | None = None
    imports: tuple[str, ...] = ()
    """Files that the opened one imports, by path or its end."""
    related: Mapping[str, str] = field(default_factory=dict)
    """Other files that will be needed, with the reason, the likeliest first."""
    branch: str | None = None
    errors: tuple[str, ...] = ()
    hour: int | None = None
    """Of the day, UTC."""
    collaborator: str | None = None

    def question(self) -> str:
        """Return the words that memories are matched with."""
        folder, _, name = (self.file_opened or "").rpartition("/")
        file = f"{folder.rpartition('/')[2]} {name.partition('.')[0]}"
        branch = (self.branch or "").rpartition("/")[2]
        parts = (file, branch, *self.errors)
        return " ".join(parts).replace("/", " ").replace("-", " ").replace("_", " ").strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedMemory:
    """A memory that will probably be needed."""

    memory: Memory
    relevance: float
    """0 to 1; from ``MATCH_CUT`` on it is clearly about the signal."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextPrediction:
    """What each tier should get."""

    tier1: tuple[PredictedMemory, ...]
    tier2: tuple[PredictedMemory, ...]
    tier3: tuple[PredictedMemory, ...]
    tier4: tuple[PredictedMemory, ...]
    confidence: float

    @property
    def predicted(self) -> tuple[PredictedMemory, ...]:
        """The memories that would be loaded; the index of tier 4 is not."""
        return (*self.tier1, *self.tier2, *self.tier3)


class TierPredictions:
    """The memories of one moment, asked with one set of signals."""

    def __init__(
        self,
        memories: Mapping[str, Memory],
        signals: WorkSignals,
        *,
        relevance: Mapping[str, float],
        usage: Callable[[str], MemoryUsage],
    ) -> None:
        self._memories = memories
        self._signals = signals
        self._usage = usage
        best = max(relevance.values(), default=0.0)
        self._matching = {each: score / best for each, score in relevance.items() if best > 0}
        self._beside = self._files_beside()

    def get_critical(self) -> list[PredictedMemory]:
        """Return decisions about the file, and fixes of the errors."""
        wanted = {error_signature(error) for error in self._signals.errors} - {""}
        found = []
        for memory in self._memories.values():
            about = self._is_about(memory, self._signals.file_opened)
            if memory.kind in _DECIDED and about:
                found.append(_predicted(memory, 1.0, f"{memory.kind} about the file"))
            elif memory.kind is MemoryKind.ERROR_FIX:
                if wanted & _signatures(memory):
                    found.append(_predicted(memory, 1.0, "fix of the same error"))
                elif self._signals.errors and memory.id in self._matching:
                    score = self._matching[memory.id]
                    found.append(_predicted(memory, score, "fix of a similar error"))
                elif about:
                    found.append(_predicted(memory, 0.8, "fix of an error in the file"))
        return self._best(found)

    def get_related(self) -> list[PredictedMemory]:
        """Return what is about the module, its imports, the branch or the collaborator."""
        folder = (self._signals.file_opened or "").rpartition("/")[0]
        found = []
        for memory in self._memories.values():
            if self._is_of_collaborator(memory):
                found.append(_predicted(memory, 0.9, f"{self._signals.collaborator} prefers it"))
            elif (beside := self._beside_tag(memory)) is not None:
                found.append(_predicted(memory, 0.7, beside))
            elif folder and any(tag.startswith(folder) for tag in memory.tags):
                found.append(_predicted(memory, 0.6, f"about {folder}"))
            elif memory.id in self._matching:
                why = "matches the branch" if self._signals.branch else "matches the file"
                found.append(_predicted(memory, self._matching[memory.id], why))
        return self._best(found)

    def get_background(self) -> list[PredictedMemory]:
        """Return workflows of the hour, and conventions of the project."""
        found = []
        for memory in self._memories.values():
            if memory.type is MemoryType.WORKFLOW and self._is_of_hour(memory):
                found.append(_predicted(memory, 0.6, "done at this time of day"))
            elif memory.kind in _PROJECT_WIDE:
                found.append(_predicted(memory, 0.4, f"{memory.kind} of the project"))
        return self._best(found)

    def get_index(self) -> list[PredictedMemory]:
        """Return what is about the top folder of the file, by name."""
        top = (self._signals.file_opened or "").partition("/")[0]
        return self._best(
            _predicted(memory, 0.2, f"about {top}")
            for memory in self._memories.values()
            if top and any(tag.startswith(top) for tag in memory.tags)
        )

    def prediction(self) -> ContextPrediction:
        """Return all tiers, each memory in the first that wants it."""
        taken: set[str] = set()
        tiers = []
        for found in (
            self.get_critical(),
            self.get_related(),
            self.get_background(),
            self.get_index(),
        ):
            kept = [each for each in found if each.memory.id not in taken]
            taken.update(each.memory.id for each in kept)
            tiers.append(tuple(kept))
        first, second, third, fourth = tiers
        return ContextPrediction(
            tier1=first,
            tier2=second,
            tier3=third,
            tier4=fourth,
            confidence=self._confidence((*first, *second, *third)),
        )

    def _confidence(self, predicted: Sequence[PredictedMemory]) -> float:
        if not predicted:
            return 0.0
        clear = sum(each.relevance >= MATCH_CUT for each in predicted) / len(predicted)
        usages = [self._usage(each.memory.id) for each in predicted]
        used = sum(usage.citation_count for usage in usages)
        shown = used + sum(usage.ignore_count for usage in usages)
        return round(clear * (used + 1) / (shown + 1), 3)

    def _files_beside(self) -> dict[str, str]:
        """Return the files that belong to the opened one, each with the reason."""
        opened = self._signals.file_opened
        beside = dict(self._signals.related)
        for path in self._signals.imports:
            beside.setdefault(path, f"imported by {opened}")
        for memory in self._memories.values():
            if opened is not None and opened in memory.tags:
                for tag in memory.tags:
                    why = "the opened file" if tag == opened else f"named beside {opened}"
                    beside.setdefault(tag, why)
        return dict(list(beside.items())[:BESIDE_MAX])

    def _beside_tag(self, memory: Memory) -> str | None:
        """Return why a memory is about a file that belongs to the opened one."""
        for tag in memory.tags:
            for path, why in self._beside.items():
                if _same_file(tag, path):
                    return f"about {tag}: {why}"
        return None

    def _is_about(self, memory: Memory, path: str | None) -> bool:
        return path is not None and any(_covers(tag, path) for tag in memory.tags)

    def _is_of_collaborator(self, memory: Memory) -> bool:
        person = self._signals.collaborator
        return person is not None and is_preferred_by(person, memory)

    def _is_of_hour(self, memory: Memory) -> bool:
        if self._signals.hour is None:
            return False
        used = self._usage(memory.id).last_accessed or memory.created_at
        hour = datetime.fromtimestamp(used / 1_000, tz=UTC).hour
        apart = abs(hour - self._signals.hour)
        return min(apart, 24 - apart) <= HOURS_AROUND

    def _best(self, found: Iterable[PredictedMemory]) -> list[PredictedMemory]:
        order = sorted(found, key=lambda each: (-each.relevance, each.memory.id))
        return order[:TIER_MAX]


def is_preferred_by(person: str, memory: Memory) -> bool:
    """Whether a memory is a preference of somebody: it names them, or they wrote it."""
    named = f"@{person}" in memory.tags or memory.user_id == person
    return named and memory.kind is MemoryKind.PREFERENCE


def _predicted(memory: Memory, relevance: float, why: str) -> PredictedMemory:
    return PredictedMemory(memory=memory, relevance=round(min(1.0, relevance), 3), why=why)


def _signatures(memory: Memory) -> set[str]:
    """Return the signatures of the errors that a memory tells of."""
    texts: list[str] = []
    if isinstance(memory.body, Fact):
        texts = [memory.body.key]
    elif isinstance(memory.body, Episode):
        texts = [memory.body.title, memory.body.problem or ""]
    return {error_signature(text) for text in texts} - {""}


def _covers(tag: str, path: str) -> bool:
    """Whether a tag names a file, or a folder above it."""
    return path == tag or path.startswith(tag.rstrip("/") + "/")


def _same_file(tag: str, path: str) -> bool:
    return tag == path or tag.endswith(f"/{path}") or path.endswith(f"/{tag}")
