"""Facts that can be looked up later, for reference. No I/O."""

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
from ctxmgr.knowledge.lifecycle.extractors.knowledge_change import KnowledgeChange, slug
from ctxmgr.knowledge.lifecycle.extractors.sentences import sentences

_ASKED: Final = re.compile(
    r"\b(?:note that|remember(?: that|:)|fyi[,:]|for reference[,:]|keep in mind)", re.IGNORECASE
)
_STATES: Final = re.compile(
    r"^(?:the|our|my|this)\b.{2,80}?\b(?:is|are|lives? (?:at|in|on)|runs? on|listens? on|expires?"
    r"|is located (?:at|in)|points? to)\s+(?P<value>.+)$",
    re.IGNORECASE,
)
_CONCRETE: Final = re.compile(r"`[^`]+`|https?://\S+|\b\d[\d.,:]*\b|(?:^|\s)[~/][\w./-]+|\b\w+@\w+")
_PASSING: Final = re.compile(
    r"\b(?:now|currently|still|running|failing|done|passing|broken|step|line \d)\b", re.IGNORECASE
)


class FactExtractor:
    """Finds statements with a concrete value, and what somebody asks to remember."""

    name = "facts"
    version = 1

    def extract(self, source: ExtractionSource) -> Iterable[KnowledgeChange]:
        count = 0
        for sentence in sentences(source.transcript):
            states = _STATES.match(sentence.text)
            lasting = (
                states and _CONCRETE.search(states["value"]) and not _PASSING.search(sentence.text)
            )
            if (lasting or _ASKED.search(sentence.text)) and count < ENTRIES_MAX:
                count += 1
                yield change(
                    self,
                    source,
                    path=_path(source.project(sentence.text)),
                    section="Facts",
                    content=sentence.text,
                    turn=sentence.turn,
                )

    def ask(self, source: ExtractionSource) -> Flow[Extraction]:
        def read(entry: dict[str, str]) -> KnowledgeChange:
            return change(
                self,
                source,
                path=_path(source.project(entry["subject"])),
                section="Facts",
                content=entry["fact"],
                turn=turn_of(source, entry["fact"]),
            )

        return asked(
            self,
            source,
            wanted="List lasting facts worth looking up later (addresses, versions, limits,"
            ' names), each as an object with the texts "fact" and "subject".',
            fields=("fact", "subject"),
            read=read,
        )


def _path(project: str | None) -> str:
    return f"knowledge/reference/{slug(project or '') or 'facts'}.md"
