"""Everything that the rules find in one exchange. Pure."""

from dataclasses import dataclass
from typing import Final

from ctxmgr.memory.extraction.decisions import extract_decisions
from ctxmgr.memory.extraction.episodes import extract_episode
from ctxmgr.memory.extraction.error_fixes import OpenFailure, extract_error_fixes
from ctxmgr.memory.extraction.exchange import Exchange
from ctxmgr.memory.extraction.findings import LearntItem, RefusedItem
from ctxmgr.memory.extraction.instructions import extract_instructions
from ctxmgr.memory.extraction.stated_facts import extract_stated_facts
from ctxmgr.memory.extraction.workflows import CommandSequence, extract_workflows

LEARNT_MAX: Final = 50
"""Memories from one exchange; a message with more is a document."""
REFUSED_MAX: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeLessons:
    """What one exchange teaches, and what the next exchange of the session has to know."""

    learnt: tuple[LearntItem, ...]
    refused: tuple[RefusedItem, ...]
    failures: tuple[OpenFailure, ...]
    sequences: tuple[CommandSequence, ...] = ()


def lessons_of(
    exchange: Exchange,
    *,
    failures: tuple[OpenFailure, ...] = (),
    sequences: tuple[CommandSequence, ...] = (),
) -> ExchangeLessons:
    """Run every extractor.

    ``failures`` are those that earlier exchanges of the session left open, ``sequences`` the
    commands of earlier exchanges in the project.
    """
    fixes, still_open = extract_error_fixes(exchange, failures)
    habits, compared = extract_workflows(exchange, sequences)
    results = (
        extract_stated_facts(exchange),
        extract_instructions(exchange),
        extract_decisions(exchange),
        fixes,
        habits,
        extract_episode(exchange),
    )
    once: dict[object, LearntItem] = {}
    by: dict[str, str] = {}
    for result in results:
        for item in result.learnt:
            # A sentence that two extractors read says one thing: the first one's reading counts.
            if by.setdefault(item.original, item.extractor) == item.extractor:
                once.setdefault((item.kind, item.body), item)
    refused = [item for result in results for item in result.refused]
    return ExchangeLessons(
        learnt=tuple(once.values())[:LEARNT_MAX],
        refused=tuple(refused)[:REFUSED_MAX],
        failures=still_open,
        sequences=compared,
    )
