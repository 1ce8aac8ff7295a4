"""Lessons, for MEMORY.md. No I/O."""

import re
from collections.abc import Iterable
from typing import Final

from ctxmgr.core.model import Flow
from ctxmgr.errors import Incorrect
from ctxmgr.knowledge.lifecycle.extractors.extractor import (
    ENTRIES_MAX,
    Extraction,
    ExtractionSource,
    change,
    question,
    read_entries,
    turn_of,
)
from ctxmgr.knowledge.lifecycle.extractors.knowledge_change import KnowledgeChange
from ctxmgr.knowledge.lifecycle.extractors.sentences import sentences
from ctxmgr.knowledge.notes.layout import MEMORY_FILE

LESSONS_LEARNED: Final = "Lessons Learned"

_LEARNT: Final = re.compile(
    r"\b(?:it )?turns out\b|\bturned out\b"
    r"|\bthe (?:fix|solution|culprit|root cause|real problem|actual problem|trick)"
    r" (?:was|is|turned)\b"
    r"|\blessons?(?: learn(?:ed|t))?:|\bnever again\b|\bnext time\b"
    r"|\b(?:we|i)(?:'ve| have)? learn(?:ed|t) (?:that|to|not)\b"
    r"|\bthe (?:mistake|problem) was (?:that|to|a|an|the|in)\b",
    re.IGNORECASE,
)


class LessonExtractor:
    """Finds what somebody says they learned."""

    name = "lessons"
    version = 1

    def extract(self, source: ExtractionSource) -> Iterable[KnowledgeChange]:
        found = [each for each in sentences(source.transcript) if _LEARNT.search(each.text)]
        for sentence in found[:ENTRIES_MAX]:
            yield change(
                self,
                source,
                path=MEMORY_FILE,
                section=LESSONS_LEARNED,
                content=sentence.text,
                turn=sentence.turn,
            )

    def ask(self, source: ExtractionSource) -> Flow[Extraction]:
        answer = yield question(
            self,
            source,
            wanted="List what was learned that will help next time, each as an object with the"
            ' text "lesson".',
        )
        try:
            entries = read_entries(answer, fields=("lesson",))
        except Incorrect:
            return Extraction((), rejected=answer)
        return Extraction(
            tuple(
                change(
                    self,
                    source,
                    path=MEMORY_FILE,
                    section=LESSONS_LEARNED,
                    content=entry["lesson"],
                    turn=turn_of(source, entry["lesson"]),
                )
                for entry in entries
            )
        )
