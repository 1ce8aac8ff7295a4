"""Facts that a user states: what something is, where it is, which number it has. Pure.

    our database is PostgreSQL 15          database = PostgreSQL 15
    the staging server runs on port 8443   staging server = port 8443

Only statements with a concrete value are read: a number, a name in code, a path, an address or a
version. How things go at the moment is not a fact.
"""

import re
from typing import Final

from ctxmgr.memory.extraction.exchange import Exchange
from ctxmgr.memory.extraction.findings import (
    ExtractorResult,
    LearntItem,
    RefusedItem,
    as_line,
    refused,
)
from ctxmgr.memory.extraction.own_words import own_sentences
from ctxmgr.memory.extraction.statements import (
    ASKED_TO_REMEMBER,
    fact_from,
    split_reason,
    why_not,
    without_lead,
)
from ctxmgr.memory.records.bodies import VALUE_CHARS_MAX, Fact
from ctxmgr.memory.records.memory import MemoryKind

NAME: Final = "stated_facts"

SUBJECT_WORDS_MAX: Final = 6

_STATES: Final = re.compile(
    r"^(?:the|our|my)\s+(?P<subject>[\w `./'-]{2,80}?)\s+"
    r"(?P<verb>is located (?:at|in)|is called|is|are|lives? (?:at|in|on)|runs? on|listens? on"
    r"|expires?|points? to|belongs? to|starts? (?:at|on))\s+(?P<value>.+)$",
    re.IGNORECASE,
)
_CONCRETE: Final = re.compile(
    r"`[^`]+`|https?://\S+|(?<!\w)\d[\d.,:]*\b|(?:^|\s)[~/][\w./-]+|\b\w+@\w+|#[0-9a-f]{3,8}\b"
    r"|\b[A-Z][a-zA-Z]+(?:SQL|DB|JS)\b|\b[A-Z]{2,}\b"
)
_PASSING: Final = re.compile(
    r"\b(?:now|currently|still|running|failing|failed|done|passing|broken|wrong|missing|too|not|fine|good"
    r"|ready|same|like|also|actually|only|always|never|probably)\b",
    re.IGNORECASE,
)


def extract_stated_facts(exchange: Exchange) -> ExtractorResult:
    """Return what the user's message states about the project."""
    learnt: list[LearntItem] = []
    turned_down: list[RefusedItem] = []
    for sentence in own_sentences(exchange.user):
        read = _read(without_lead(sentence))
        if isinstance(read, str):
            turned_down.append(refused(sentence, read, extractor=NAME, turn=exchange.first_turn))
        elif read is not None:
            learnt.append(
                LearntItem(
                    body=read,
                    kind=MemoryKind.NOTE,
                    original=as_line(sentence, VALUE_CHARS_MAX),
                    extractor=NAME,
                    turn=exchange.first_turn,
                )
            )
    return ExtractorResult(learnt=tuple(learnt), refused=tuple(turned_down))


def _read(sentence: str) -> Fact | str | None:
    statement, reason = split_reason(ASKED_TO_REMEMBER.sub("", sentence))
    found = _STATES.match(statement)
    if found is None or not _CONCRETE.search(found["value"]):
        return None
    if sentence.rstrip().endswith("?"):
        return "a question"
    if _PASSING.search(found["value"]):
        return "how things go at the moment"
    if len(found["subject"].split()) > SUBJECT_WORDS_MAX:
        return f"a subject of more than {SUBJECT_WORDS_MAX} words"
    against = why_not(statement)
    if against is not None:
        return against
    return fact_from(found["subject"], found["value"], statement=statement, reason=reason)
