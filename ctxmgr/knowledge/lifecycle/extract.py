"""Run extractors over transcripts, and draft what they find. Reads transcripts; asks a model.

    transcripts ─► extractors ─► changes ─► draft of the notes
                                        └─► identity and topics: proposals, which wait (002-A35)

The store records which versions of which extractors read a transcript, so that nothing is extracted
twice by itself; by request everything is, which changes nothing that is there already.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ctxmgr.core.model import Ledger, Model, follow, to_value
from ctxmgr.core.store.contract import Put, Store
from ctxmgr.core.store.documents import ID, KIND
from ctxmgr.errors import CtxmgrError, Incorrect
from ctxmgr.knowledge.lifecycle.draft import NotesDraft
from ctxmgr.knowledge.lifecycle.extractors.decisions import DecisionExtractor
from ctxmgr.knowledge.lifecycle.extractors.extractor import (
    Extraction,
    ExtractionSource,
    Extractor,
)
from ctxmgr.knowledge.lifecycle.extractors.facts import FactExtractor
from ctxmgr.knowledge.lifecycle.extractors.journal import JournalExtractor
from ctxmgr.knowledge.lifecycle.extractors.knowledge_change import KnowledgeChange, changed_text
from ctxmgr.knowledge.lifecycle.extractors.lessons import LessonExtractor
from ctxmgr.knowledge.lifecycle.extractors.people import PeopleExtractor
from ctxmgr.knowledge.lifecycle.extractors.procedures import ProcedureExtractor
from ctxmgr.knowledge.notes.layout import Category, category_of
from ctxmgr.knowledge.notes.notes_folder import NotesFolder
from ctxmgr.knowledge.transcripts.transcript import SessionTranscript, parse_transcript

EXTRACTORS: Final[tuple[Extractor, ...]] = (
    DecisionExtractor(),
    LessonExtractor(),
    PeopleExtractor(),
    ProcedureExtractor(),
    FactExtractor(),
    JournalExtractor(),
)
"""The registered extractors, in the order in which they run."""

EXTRACTION: Final = "knowledge_extraction"
"""The kind of the record that a transcript was extracted from."""
REJECTED_CHARS_MAX: Final = 8_000
"""Of a model's answer that could not be read, which is kept."""

WAITING: Final = frozenset({Category.IDENTITY, Category.TOPIC})
"""What extractors and agents may not change without a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedTranscript:
    """What was found in one transcript."""

    path: str
    versions: Mapping[str, int]
    """The extractors that ran."""
    changes: tuple[KnowledgeChange, ...] = field(repr=False)
    waiting: tuple[KnowledgeChange, ...] = field(default=(), repr=False)
    """Changes of identity or topics, which are not in the draft."""
    rejected: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Answers of a model that could not be read, by extractor."""
    ledger: Ledger = field(default_factory=Ledger)
    model: str | None = None


class KnowledgeExtractor:
    """Runs the registered extractors."""

    def __init__(
        self,
        notes: NotesFolder,
        *,
        store: Store,
        model: Model | None = None,
        extractors: Sequence[Extractor] = EXTRACTORS,
    ) -> None:
        self._notes = notes
        self._store = store
        self._model = model
        self._extractors = {extractor.name: extractor for extractor in extractors}

    def transcripts(self) -> list[tuple[str, SessionTranscript]]:
        """Return the closed transcripts that can be read, in the order of their sessions."""
        found = []
        for path in self._notes.paths(Category.CONVERSATION):
            transcript = self._transcript(path)
            if transcript is not None and transcript.head.ended is not None:
                found.append((path, transcript))
        return sorted(found, key=lambda each: (each[1].head.started, each[0]))

    def unreadable(self) -> list[str]:
        """Return why some transcripts cannot be read."""
        problems = []
        for path in self._notes.paths(Category.CONVERSATION):
            try:
                parse_transcript(self._notes.read(path).text, path=path)
            except CtxmgrError as error:
                problems.append(str(error))
        return problems

    async def pending(self) -> list[str]:
        """Return the transcripts that the registered versions have not read, oldest first."""
        wanted = {name: each.version for name, each in self._extractors.items()}
        paths = [path for path, _ in self.transcripts()]
        return [path for path in paths if await self._read_versions(path) != wanted]

    async def extract_from_session(
        self,
        path: str,
        extractors: Iterable[str] | None = None,
        *,
        draft: NotesDraft,
        projects: tuple[str, ...] | None = None,
    ) -> ExtractedTranscript:
        """Run all or the named extractors over a transcript, and draft their changes.

        ``projects`` are the names of known projects, by default those that have notes.
        """
        chosen = self.require(extractors)
        text = self._notes.read(path).text
        source = ExtractionSource(
            path=path,
            transcript=parse_transcript(text, path=path),
            projects=project_names(draft) if projects is None else projects,
        )
        found: list[KnowledgeChange] = []
        rejected: dict[str, str] = {}
        ledger = Ledger()
        for extractor in chosen:
            if self._model is None:
                extraction = Extraction(tuple(extractor.extract(source)))
            else:
                extraction, spent = await follow(extractor.ask(source), model=self._model)
                ledger = _added(ledger, spent)
            found += extraction.changes
            if extraction.rejected is not None:
                rejected[extractor.name] = extraction.rejected[:REJECTED_CHARS_MAX]
        waiting = tuple(each for each in found if category_of(each.path) in WAITING)
        changes = tuple(each for each in found if each not in waiting)
        for change in changes:
            text_before = draft.get(change.path)
            draft.put(change.path, changed_text(text_before, change), reason=_reason(change))
        return ExtractedTranscript(
            path=path,
            versions={extractor.name: extractor.version for extractor in chosen},
            changes=changes,
            waiting=waiting,
            rejected=rejected,
            ledger=ledger,
            model=self._model.name if self._model else None,
        )

    async def replay_all(
        self, names: Iterable[str] | None = None, *, draft: NotesDraft
    ) -> list[ExtractedTranscript]:
        """Extract from all transcripts, in the order of their sessions."""
        names = None if names is None else tuple(names)
        return [
            await self.extract_from_session(path, names, draft=draft)
            for path, _ in self.transcripts()
        ]

    async def record(self, extracted: ExtractedTranscript) -> None:
        """Record that a transcript was extracted from, what it cost, and unreadable answers."""
        versions = {**await self._read_versions(extracted.path), **extracted.versions}
        costs = [
            {"purpose": cost.purpose, "model": cost.model, "calls": cost.calls}
            | to_value(cost.usage)
            for cost in extracted.ledger.costs
        ]
        document: dict[str, Any] = {
            ID: _record_id(extracted.path),
            KIND: EXTRACTION,
            "transcript": extracted.path,
            "versions": versions,
            "changes": len(extracted.changes),
            "rejected": dict(extracted.rejected),
            "model": extracted.model,
            "costs": costs,
        }
        await self._store.commit([Put(document)])

    async def _read_versions(self, path: str) -> dict[str, int]:
        version = await self._store.get(_record_id(path))
        versions = None if version is None else version.document.get("versions")
        if not isinstance(versions, dict):
            return {}
        return {str(name): int(number) for name, number in versions.items()}

    def require(self, names: Iterable[str] | None) -> list[Extractor]:
        """Return the extractors of these names, by default all; ``Incorrect`` if one is unknown."""
        if names is None:
            return list(self._extractors.values())
        unknown = [name for name in names if name not in self._extractors]
        if unknown:
            known = ", ".join(self._extractors)
            raise Incorrect(f"unknown extractor {unknown[0]!r:.80} (one of: {known})")
        return [self._extractors[name] for name in names]

    def _transcript(self, path: str) -> SessionTranscript | None:
        try:
            return parse_transcript(self._notes.read(path).text, path=path)
        except CtxmgrError:
            return None  # `ctxmgr lifecycle check` names it


def project_names(draft: NotesDraft) -> tuple[str, ...]:
    """Return the names of the projects that have a folder of notes."""
    folder = "knowledge/projects/"
    names = (path.removeprefix(folder) for path in draft.paths(Category.PROJECT))
    return tuple(dict.fromkeys(name.split("/")[0] for name in names if "/" in name))


def _reason(change: KnowledgeChange) -> str:
    origin = change.origin
    return f"{origin.extractor}/{origin.version} from {origin.transcript}, turn {origin.turn}"


def _added(ledger: Ledger, spent: Ledger) -> Ledger:
    return Ledger((*ledger.costs, *spent.costs))


def _record_id(path: str) -> str:
    return f"{EXTRACTION}:{hashlib.sha256(path.encode()).hexdigest()[:32]}"
