"""The door of prediction: which memories the work at hand will need. Reads the store.

No model is called, and nothing is written. Memories are found by their files, words and kinds, so
that a question does not look at all of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from ctxmgr.memory.prediction.context_prediction import (
    BESIDE_MAX,
    MATCH_CUT,
    ContextPrediction,
    PredictedMemory,
    TierPredictions,
    WorkSignals,
)
from ctxmgr.memory.prediction.related_files import RelatedFiles
from ctxmgr.memory.prediction.source_imports import imports_of
from ctxmgr.memory.records.bodies import MemoryType
from ctxmgr.memory.records.memory import Memory, MemoryKind
from ctxmgr.memory.resident import ResidentMemories

FOLDER_MAX: Final = 50
"""Memories about a folder, and those of the background, that are looked at."""

BRANCH_CUT: Final = 0.5
"""The share of the best match's score that a memory needs to be about a branch."""

BRANCH_MAX: Final = 4

_DECIDED: Final = frozenset({MemoryKind.DECISION, MemoryKind.ADR})

PROMPT_MAX: Final = 8
"""Memories that a prompt gets because they are predicted."""


class PredictiveEngine:
    """Predicts from what is known of a principal's memories."""

    def __init__(self, resident: ResidentMemories, related: RelatedFiles) -> None:
        """``related`` knows which files belong together."""
        self._resident = resident
        self.related = related

    async def on_file_open(
        self, filepath: str, *, text: str = "", recent_errors: Sequence[str] = ()
    ) -> ContextPrediction:
        """Predict what an opened file needs. ``text`` is its content, for what it imports."""
        if text:
            self.related.take_imports(filepath, imports_of(filepath, text))
        return await self.predict(WorkSignals(file_opened=filepath, errors=tuple(recent_errors)))

    async def predict(self, signals: WorkSignals) -> ContextPrediction:
        """Predict from any signals."""
        await self._resident.refresh()
        relevance = self._resident.relevance(signals.question())
        return self._tiers(signals, relevance).prediction()

    def for_prompt(
        self, signals: WorkSignals, relevance: Mapping[str, float]
    ) -> list[PredictedMemory]:
        """Return what a prompt should get beyond what matches: likely used, and not many.

        A memory that was shown in vain is offered less and less, so that its lines do not cost
        more than they are worth.
        """
        tiers = self._tiers(signals, relevance)
        clear = MATCH_CUT * max(relevance.values(), default=0.0)
        found = {
            each.memory.id: each
            for each in (*tiers.get_critical(), *tiers.get_related())
            if tiers.expected_use(each) >= MATCH_CUT
            and (each.memory.id not in relevance or relevance[each.memory.id] < clear)
        }
        order = sorted(found.values(), key=lambda each: (-tiers.expected_use(each), each.memory.id))
        return order[:PROMPT_MAX]

    def for_branch(self, branch: str) -> dict[str, str]:
        """Return the decisions and patterns of a feature, with the reason, by its branch's name."""
        relevance = self._resident.relevance(WorkSignals(branch=branch).question())
        best = max(relevance.values(), default=0.0)
        memories = self._resident.shortlist.memories
        fitting = [
            memories[memory_id]
            for memory_id, score in relevance.items()
            if score >= BRANCH_CUT * best
        ]
        found = [
            memory.id
            for memory in fitting
            if (memory.kind in _DECIDED or memory.type is MemoryType.PATTERN)
            and memory.holds_in(self._resident.project_id)
        ]
        return dict.fromkeys(found[:BRANCH_MAX], f"matches the branch {branch}")

    def _tiers(self, signals: WorkSignals, relevance: Mapping[str, float]) -> TierPredictions:
        """Return the memories that signals may call for, ready to be asked."""
        if signals.file_opened is not None:
            beside = self.related.beside(signals.file_opened, BESIDE_MAX)
            reasons = {each.path: each.why for each in beside if each.strength >= MATCH_CUT}
            signals = replace(signals, related={**reasons, **signals.related})
        shortlist = self._resident.shortlist
        project = self._resident.project_id
        memories: dict[str, Memory] = {}
        for memory_id in self._candidates(signals, relevance):
            memory = shortlist.memories.get(memory_id)
            if memory is not None and memory.holds_in(project):
                memories[memory_id] = memory
        return TierPredictions(memories, signals, relevance=relevance, usage=shortlist.usage)

    def _candidates(self, signals: WorkSignals, relevance: Mapping[str, float]) -> Iterable[str]:
        shortlist = self._resident.shortlist
        yield from relevance
        if signals.errors:
            yield from shortlist.error_fixes()
        for path in (*signals.imports, *signals.related):
            yield from shortlist.about(path)
        if signals.file_opened is not None:
            opened = signals.file_opened
            same = shortlist.about(opened)
            yield from same
            for memory_id in same:  # what memories name beside the file belongs to it
                for tag in shortlist.memories[memory_id].tags:
                    yield from islice(shortlist.about(tag), BESIDE_MAX)
            yield from shortlist.covering(opened)
            for folder in (opened.rpartition("/")[0], opened.partition("/")[0]):
                yield from shortlist.inside(folder, FOLDER_MAX)
        yield from islice(shortlist.background(), FOLDER_MAX)
        if signals.collaborator is not None or signals.hour is not None:
            for memory_id in shortlist.background():
                memory = shortlist.memories[memory_id]
                if memory.type is MemoryType.WORKFLOW or memory.kind is MemoryKind.PREFERENCE:
                    yield memory_id
