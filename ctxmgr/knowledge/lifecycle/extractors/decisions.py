"""Decisions, for the project that they are about, or MEMORY.md. No I/O."""

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
    project_path,
    turn_of,
)
from ctxmgr.knowledge.lifecycle.extractors.knowledge_change import KnowledgeChange
from ctxmgr.knowledge.lifecycle.extractors.sentences import sentences

KEY_DECISIONS: Final = "Key Decisions"

_DECIDED: Final = re.compile(
    r"\b(?:we|i)(?:'ve| have)? (?:decided|agreed|chose|settled)\b"
    r"|\blet['\u2019]?s (?:use|go with|switch to|keep|stick (?:with|to)|drop|avoid)\b"
    r"|\b(?:we|i)(?:['\u2019]ll| will| shall) (?:use|go with|switch to|keep|stick (?:with|to)"
    r"|drop|not use)\b"
    r"|\b(?:the )?decision(?: is|:)"
    r"|\bfrom now on\b",
    re.IGNORECASE,
)
_UNDECIDED: Final = re.compile(
    r"\b(?:if|should|could|might|maybe|perhaps|unless|whether|not sure|haven't|have not|before)"
    r" (?:we|i|you|it|decided|agreed)\b|\bor should\b",
    re.IGNORECASE,
)


class DecisionExtractor:
    """Finds decisions that somebody states."""

    name = "decisions"
    version = 1

    def extract(self, source: ExtractionSource) -> Iterable[KnowledgeChange]:
        found = [
            sentence
            for sentence in sentences(source.transcript)
            if _DECIDED.search(sentence.text) and not _UNDECIDED.search(sentence.text)
        ]
        for sentence in found[:ENTRIES_MAX]:
            path = project_path(source.project(sentence.text))
            yield change(
                self,
                source,
                path=path,
                section=KEY_DECISIONS,
                content=sentence.text,
                turn=sentence.turn,
            )

    def ask(self, source: ExtractionSource) -> Flow[Extraction]:
        def read(entry: dict[str, str]) -> KnowledgeChange:
            context = f" ({entry['context']})" if entry["context"] else ""
            named = entry["project"] if entry["project"].casefold() != "general" else ""
            return change(
                self,
                source,
                # A model may name a project that does not exist: it gets no folder.
                path=project_path(source.project(named) if named else None),
                section=KEY_DECISIONS,
                content=entry["decision"] + context,
                turn=turn_of(source, entry["decision"]),
            )

        return asked(
            self,
            source,
            wanted="List the decisions that were made, each as an object with the texts"
            ' "decision", "context" (why) and "project" (its name, or "general").',
            fields=("decision", "context", "project"),
            read=read,
        )
