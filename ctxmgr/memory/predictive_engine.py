"""The door of prediction: which memories the work at hand will need. Reads the store.

No model is called, and nothing is written. Memories are found by their files, words and kinds, so
that a question does not look at all of them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from ctxmgr.memory.prediction.context_prediction import (
    BESIDE_MAX,
    MATCH_CUT,
    ContextPrediction,
    TierPredictions,
    WorkSignals,
    is_preferred_by,
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

COLLABORATOR_MAX: Final = 8
"""Preferences of a collaborator in one prompt."""

ABOUT_MAX: Final = 50
"""Memories about one file that are looked at for a prompt."""

ABOUT_FILE: Final = 0.8
NEXT_FILE: Final = 0.6
NAMED_BESIDE: Final = 0.6
"""How likely it helps to know what is about the file at hand, the next one, and another one that
memories name with it."""

NAMED_MIN: Final = 2
NAMED_MAX: Final = 5

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

    def for_prompt(self, signals: WorkSignals, relevance: Mapping[str, float]) -> dict[str, str]:
        """Return what a prompt should get beyond what matches, with reasons, the likeliest first.

        Few memories, found by their files. One that was shown in vain is offered less and less, so
        that its lines do not cost more than they are worth.
        """
        shortlist, project = self._resident.shortlist, self._resident.project_id
        clear = MATCH_CUT * max(relevance.values(), default=0.0)
        found: dict[str, tuple[float, str]] = {}
        for path, strength, why in self._files_for_prompt(signals):
            for memory_id in islice(shortlist.about(path), ABOUT_MAX):
                matches = memory_id in relevance and relevance[memory_id] >= clear
                if matches or not shortlist.memories[memory_id].holds_in(project):
                    continue
                usage = shortlist.usage(memory_id)
                shown = usage.citation_count + usage.ignore_count
                expected = strength * (usage.citation_count + 1) / (shown + 1)
                if expected >= max(MATCH_CUT, found.get(memory_id, (0.0, ""))[0]):
                    found[memory_id] = expected, why
        order = sorted(found.items(), key=lambda entry: (-entry[1][0], entry[0]))
        return {memory_id: why for memory_id, (_, why) in order[:PROMPT_MAX]}

    def _files_for_prompt(self, signals: WorkSignals) -> Iterator[tuple[str, float, str]]:
        """Yield the files that memories should be about, how likely they help, and why."""
        opened = signals.file_opened
        if opened is not None:
            yield opened, ABOUT_FILE, f"about {opened}"
            for each in self.related.beside(opened, BESIDE_MAX):
                yield each.path, each.strength, f"about {each.path}: {each.why}"
            yield from self._named_beside(opened)
        for path, why in signals.related.items():
            yield path, NEXT_FILE, f"about {path}: {why}"

    def _named_beside(self, opened: str) -> Iterator[tuple[str, float, str]]:
        """Yield the files that several memories name beside one."""
        shortlist = self._resident.shortlist
        tags: Counter[str] = Counter()
        for memory_id in islice(shortlist.about(opened), ABOUT_MAX):
            tags.update(shortlist.memories[memory_id].tags)
        often = (each for each in tags.most_common(NAMED_MAX) if each[1] >= NAMED_MIN)
        for tag, times in often:
            yield tag, NAMED_BESIDE, f"about {tag}: {times} memories name it beside {opened}"

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

    def for_collaborator(self, person: str) -> dict[str, str]:
        """Return what somebody who works along prefers, with the reason, the most useful first."""
        shortlist, project = self._resident.shortlist, self._resident.project_id
        found = (
            memory.id
            for memory in map(shortlist.memories.__getitem__, shortlist.background())
            if is_preferred_by(person, memory) and memory.holds_in(project)
        )
        return dict.fromkeys(islice(found, COLLABORATOR_MAX), f"{person} prefers it")

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
            same = list(shortlist.about(opened))
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
