"""Decisions with their reasons. Pure.

    let's use SQLite for the cache, because nothing has to be installed
    we decided to drop Python 3.10

A user decides by saying so. Of a model's words only what it says it chose, with a reason, counts:
what it will do next is a plan. Such a decision is marked as the agent's.
"""

import re
from typing import Final

from ctxmgr.memory.extraction.exchange import Exchange
from ctxmgr.memory.extraction.findings import (
    ExtractorResult,
    LearntItem,
    RefusedItem,
    as_line,
    file_tags,
    refused,
)
from ctxmgr.memory.extraction.own_words import answer_sentences, own_sentences
from ctxmgr.memory.extraction.statements import (
    fact_from,
    split_reason,
    why_not,
    without_lead,
)
from ctxmgr.memory.extraction.tool_runs import changed_paths
from ctxmgr.memory.records.bodies import VALUE_CHARS_MAX, Fact
from ctxmgr.memory.records.memory import Author, MemoryKind

NAME: Final = "decisions"

_I: Final = re.IGNORECASE

_CHOICE: Final = (
    r"(?:use|go with|switch(?: over)?(?: from [^,]{1,40}?)? to|stick (?:with|to)"
    r"|keep(?! going| on | at it| it up| in mind| you| an eye)|drop"
    r"|avoid|adopt"
    r"|standardi[sz]e on|move to|migrate to|stay (?:with|on)|not use|stop using|rely on)"
)
_USER: Final = re.compile(
    r"^(?:i think\s+)?(?:let's|let us|we'll|we will|we shall|i'll|i will)\s+"
    rf"(?P<choice>{_CHOICE}\s+.+)$"
    r"|^(?:we|i)(?:'ve| have)?\s+(?:decided|agreed|chose|chosen|settled|opted)\s+"
    r"(?:that\s+|to\s+|on\s+|for\s+|upon\s+)*(?P<decided>.+)$"
    r"|^(?:the |our )?decision(?: is|:| was)\s+(?:that\s+|to\s+)*(?P<named>.+)$",
    _I,
)
_AGENT: Final = re.compile(
    r"\b(?:i|we)(?:'ve| have)?\s+(?:decided|chose|opted|settled|went)\s+"
    r"(?:to\s+|on\s+|for\s+|with\s+|not to\s+)+(?P<decided>.+)$"
    r"|^(?:the |my )?decision(?: is|:| was)\s+(?:to\s+)?(?P<named>.+)$",
    _I,
)
_NEXT_STEP: Final = re.compile(
    r"^(?:(?:first|now|also|just|simply|directly|then)\s+)*"
    r"(?:look|check|read|run|try|see|start|continue|search|examine|inspect|test|verify|explore"
    r"|investigate|create a (?:new )?(?:test|script|file|repro)"
    r"|use (?:sed|grep|cat|find|python|awk|the|a script)|view|list|open|print|debug|proceed|find"
    r"|focus|skip|rewrite|replace the|make the change|apply|fix|leave)\b",
    _I,
)
_FOR: Final = re.compile(rf"^{_CHOICE}\s+(?P<value>.+?)\s+(?:for|as)\s+(?P<key>.+)$", _I)
_FROM_TO: Final = re.compile(
    r"^(?:switch(?: over)?|move|migrate)\s+(?:from\s+(?P<old>.+?)\s+)?"
    r"to\s+(?P<new>.+?)(?:\s+for\s+(?P<key>.+))?$",
    _I,
)
_THANKS: Final = re.compile(r",?\s+(?:thanks|thank you|please|then|ok(?:ay)?)\b.*$", _I)
_CHOSEN: Final = re.compile(rf"^{_CHOICE}\s+(?P<value>.+)$", _I)


def extract_decisions(exchange: Exchange) -> ExtractorResult:
    """Return what was decided in an exchange."""
    learnt: list[LearntItem] = []
    turned_down: list[RefusedItem] = []
    said = [(sentence, exchange.first_turn, True) for sentence in own_sentences(exchange.user)]
    said += [
        (sentence, answer.turn, False)
        for answer in exchange.answers
        for sentence in answer_sentences(answer.text)
    ]
    tags = file_tags(changed_paths(exchange.runs))
    for sentence, turn, by_user in said:
        read = _read(without_lead(sentence), by_user=by_user)
        if isinstance(read, str):
            turned_down.append(refused(sentence, read, extractor=NAME, turn=turn))
        elif read is not None:
            learnt.append(
                LearntItem(
                    body=read,
                    kind=MemoryKind.DECISION,
                    original=as_line(sentence, VALUE_CHARS_MAX),
                    extractor=NAME,
                    turn=turn,
                    tags=tags,
                    author=Author.RULE if by_user else Author.AGENT,
                )
            )
    return ExtractorResult(learnt=tuple(learnt), refused=tuple(turned_down))


def _read(sentence: str, *, by_user: bool) -> Fact | str | None:
    """Return a decision; why it is refused; or None if the sentence does not look like one."""
    statement, reason = split_reason(sentence)
    found = _USER.match(statement) if by_user else _AGENT.search(statement)
    if found is None:
        return None
    decided = _THANKS.sub("", next(text for text in found.groupdict().values() if text)).strip()
    if sentence.rstrip().endswith("?"):
        return "a question"
    if not by_user and reason is None:
        return "the agent gives no reason"
    if not by_user and _NEXT_STEP.match(decided):
        return "a next step, not a decision"
    against = why_not(decided if by_user else statement, about_this=by_user)
    if against is not None and not (by_user and reason is not None and against.startswith("fewer")):
        return against
    key, value = _slot(decided)
    return fact_from(key, value, statement=statement, reason=reason)


def _slot(decided: str) -> tuple[str, str]:
    """Return what was decided about, and what was decided."""
    if (moved := _FROM_TO.match(decided)) is not None:
        return moved["key"] or moved["old"] or moved["new"], moved["new"]
    if (paired := _FOR.match(decided)) is not None:
        return paired["key"], _negated(decided, paired["value"])
    if (chosen := _CHOSEN.match(decided)) is not None:
        return chosen["value"], decided
    return decided, decided


def _negated(decided: str, value: str) -> str:
    dropped = re.match(r"(?:drop|avoid|not use|stop using)\b", decided, _I)
    return f"not {value}" if dropped else value
