"""Lessons, for MEMORY.md. No I/O."""

import re
from collections.abc import Iterable
from typing import Final

from ctxmgr.core.model import Flow
from ctxmgr.knowledge.lifecycle.extractors.extractor import (
    ENTRIES_MAX,
    Extraction,
    ExtractionSource,
    asked,
    change,
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
        def read(entry: dict[str, str]) -> KnowledgeChange:
            return change(
                self,
                source,
                path=MEMORY_FILE,
                section=LESSONS_LEARNED,
                content=entry["lesson"],
                turn=turn_of(source, entry["lesson"]),
            )

        return asked(
            self,
            source,
            wanted="List what was learned that will help next time, each as an object with the"
            ' text "lesson".',
            fields=("lesson",),
            read=read,
        )
