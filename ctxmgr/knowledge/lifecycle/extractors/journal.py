"""The summary of a session, for the journal of its day. No I/O."""

from collections.abc import Iterable
from typing import Final

from ctxmgr.core.model import Flow
from ctxmgr.errors import Incorrect
from ctxmgr.knowledge.lifecycle.extractors.extractor import (
    Extraction,
    ExtractionSource,
    change,
    question,
    read_entries,
    turn_of,
)
from ctxmgr.knowledge.lifecycle.extractors.knowledge_change import KnowledgeChange
from ctxmgr.knowledge.lifecycle.extractors.sentences import sentences
from ctxmgr.knowledge.notes.layout import journal_path
from ctxmgr.knowledge.notes.sections import one_line
from ctxmgr.knowledge.transcripts.transcript import Role, moment

SESSIONS: Final = "Sessions"
SUMMARY_CHARS_MAX: Final = 300


class JournalExtractor:
    """Writes one line for a session: what was asked, and how it ended."""

    name = "journal"
    version = 1

    def extract(self, source: ExtractionSource) -> Iterable[KnowledgeChange]:
        if not source.transcript.turns:
            return
        head, title = source.transcript.head, source.transcript.title
        said = [each for each in sentences(source.transcript) if each.role is Role.AGENT]
        outcome = f": {said[-1].text}" if said else ""
        changed = f" Changed {len(head.knowledge_changes)} notes." if head.knowledge_changes else ""
        summary = one_line(f"{title}{outcome}")[:SUMMARY_CHARS_MAX]
        yield change(
            self,
            source,
            path=journal_path(moment(head.started).date()),
            section=source.project(title) or SESSIONS,
            content=f"{moment(head.started):%H:%M} {summary}{changed}",
            turn=said[-1].turn if said else 1,
        )

    def ask(self, source: ExtractionSource) -> Flow[Extraction]:
        answer = yield question(
            self,
            source,
            wanted="Summarise what is worth remembering of it in one to three sentences, each as"
            ' an object with the text "summary".',
        )
        try:
            entries = read_entries(answer, fields=("summary",))
        except Incorrect:
            return Extraction(tuple(self.extract(source)), rejected=answer)
        started = moment(source.transcript.head.started)
        return Extraction(
            tuple(
                change(
                    self,
                    source,
                    path=journal_path(started.date()),
                    section=source.project(source.transcript.title) or SESSIONS,
                    content=f"{started:%H:%M} {entry['summary'][:SUMMARY_CHARS_MAX]}",
                    turn=turn_of(source, entry["summary"]),
                )
                for entry in entries[:3]
            )
        )
