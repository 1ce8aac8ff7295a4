"""What a user lays down: rules, preferences, conventions, corrections. Pure.

    always run the tests before you commit        instruction
    no console logs!                              instruction, if the agent had answered before
    we use pnpm for packages                      convention
    I prefer short functions over comments        preference

Only the user's own words are read. A rule is general: what is about "this" or "it" holds once.
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

NAME: Final = "instructions"

_I: Final = re.IGNORECASE
_VERB: Final = r"[a-z]+(?:\s+(?:up|out|off|on|in|to))?"

_RULE: Final = re.compile(
    r"^(?:(?:from now on|going forward|in (?:the )?future|whenever|every time)\b[^,]{0,80},?\s+)?"
    r"(?:you (?:should|must|need to|have to)\s+|make sure (?:to|you)\s+|remember to\s+|we\s+)?"
    r"(?P<modal>always|never(?: ever)?|do not ever|don't ever)\s+"
    rf"(?P<verb>{_VERB})\b\s*(?P<object>.*)$",
    _I,
)
_MUST: Final = re.compile(
    r"^(?P<object>(?!(?:i|i'm|if|when|you know|he|she|they)\b).{2,100}?)\s+"
    r"(?P<rest>(?:must|should)\s+(?:never|always)\b.*|must not\b.*)$",
    _I,
)
_FROM_NOW_ON: Final = re.compile(
    r"^(?:from now on|going forward|in (?:the )?future|for the future)\b[,:]?\s+(?P<rule>.+)$"
    r"|^(?P<before>.+?),?\s+(?:from now on|going forward)$",
    _I,
)
_WE_USE: Final = re.compile(
    r"^(?:(?:in|for|on) [^,]{2,60},\s+)?we\s+(?:only\s+|always\s+|usually\s+)?"
    r"(?P<negated>don't\s+|do not\s+|never\s+)?"
    r"(?P<verb>use|write|run|deploy|format|name|follow|store|keep|test|build|publish|release)\s+"
    r"(?P<object>.+)$",
    _I,
)
_PREFER: Final = re.compile(
    r"^(?:(?:i|we)(?:'d| would| do)?\s+(?:much |strongly |really |generally )?)?"
    r"prefer\s+(?P<object>.+)$",
    _I,
)
_INSTEAD: Final = re.compile(
    r"^use\s+(?P<wanted>.+?)\s*(?:,\s*(?:not|no|never)\s+|\s+(?:instead of|rather than|over)\s+)"
    r"(?P<unwanted>.+)$",
    _I,
)
_BAN: Final = re.compile(
    r"^(?:no(?:\s+more)?|stop|avoid|don't|do not)\s+"
    r"(?P<object>(?!(?:need|idea|problem|worries|worry|matter|longer|one|way|it|you|we|i|know|think"
    r"|see|understand|care|forget|the|my|your)\b)[a-z].*)$",
    _I,
)
_DEFINITE: Final = re.compile(r"\b(?:the|my|your|his|her|their)\b", _I)
"""Something particular: to leave it alone is an instruction for now."""
_FOR: Final = re.compile(r"^(?P<value>.+?)\s+(?:for|to)\s+(?P<key>.+)$", _I)
_NARRATIVE: Final = re.compile(
    r"^(?:mind|been|had|worked|works|did|was|were|saw|heard|happens?)\b", _I
)


def extract_instructions(exchange: Exchange) -> ExtractorResult:
    """Return the rules that the user's message lays down."""
    learnt: list[LearntItem] = []
    turned_down: list[RefusedItem] = []
    for sentence in own_sentences(exchange.user):
        for clause in _clauses(sentence):
            read = _read(clause, corrects=exchange.follows_answer)
            if isinstance(read, str):
                turned_down.append(refused(clause, read, extractor=NAME, turn=exchange.first_turn))
            elif read is not None:
                kind, body = read
                learnt.append(
                    LearntItem(
                        body=body,
                        kind=kind,
                        original=as_line(sentence, VALUE_CHARS_MAX),
                        extractor=NAME,
                        turn=exchange.first_turn,
                    )
                )
    return ExtractorResult(learnt=tuple(learnt), refused=tuple(turned_down))


def _clauses(sentence: str) -> list[str]:
    """Return the parts of a sentence that may each hold a rule."""
    parts = re.split(
        r";\s+|,?\s+(?:and|but)\s+(?=(?:always|never|don't|we (?:use|never|always))\b)", sentence
    )
    return [without_lead(part) for part in parts if part.strip()]


def _read(clause: str, *, corrects: bool) -> tuple[MemoryKind, Fact] | str | None:
    """Return a rule; why it is refused; or None if the clause does not look like one."""
    statement, reason = split_reason(clause)
    remembered = ASKED_TO_REMEMBER.match(statement)
    if remembered is not None:
        statement = statement[remembered.end() :]
    found = _matched(statement, corrects=corrects)
    if found is None and remembered is None:
        return None
    found = found or (MemoryKind.INSTRUCTION, statement, statement)
    kind, key, value = found
    if clause.rstrip().endswith("?"):
        return "a question"
    against = why_not(statement, about_this=True)
    if against is not None:
        return against
    fact = fact_from(key, value, statement=statement, reason=reason)
    return fact if isinstance(fact, str) else (kind, fact)


def _matched(statement: str, *, corrects: bool) -> tuple[MemoryKind, str, str] | None:
    """Return kind, key and value of what looks like a rule."""
    if (rule_found := _RULE.match(statement)) is not None:
        if _NARRATIVE.match(rule_found["verb"]):
            return None
        return MemoryKind.INSTRUCTION, rule_found["object"] or rule_found["verb"], statement
    if (later := _FROM_NOW_ON.match(statement)) is not None:
        rule = later["rule"] or later["before"]
        inner = _matched(rule, corrects=False)
        return inner or (MemoryKind.INSTRUCTION, rule, rule)
    if (used := _WE_USE.match(statement)) is not None:
        pair = _FOR.match(used["object"])
        negation = "not " if used["negated"] else ""
        if pair is not None and used["verb"].lower() == "use":
            return MemoryKind.CONVENTION, pair["key"], f"{negation}{pair['value']}"
        return MemoryKind.CONVENTION, used["object"], statement
    if (preferred := _PREFER.match(statement)) is not None:
        return MemoryKind.PREFERENCE, preferred["object"], f"prefer {preferred['object']}"
    if (instead := _INSTEAD.match(statement)) is not None:
        return MemoryKind.INSTRUCTION, instead["unwanted"], statement
    if (must := _MUST.match(statement)) is not None:
        return MemoryKind.INSTRUCTION, must["object"], statement
    if corrects and (ban := _BAN.match(statement)) and not _DEFINITE.search(ban["object"]):
        return MemoryKind.INSTRUCTION, ban["object"], statement
    return None
