"""How useful a memory has proved, from its counters and its age. Pure.

    score     = max(FLOOR, quality · freshness)
    quality   = (1 + 2·cited) / (2 + 2·cited + 0.25·ignored)       0.5 while nothing is known
    freshness = 0.5 + 0.5 · 2^(-days since the last use / 30)

The score is computed from the counters each time and never stored: nothing decays twice, and what
was passed over often comes back with one citation.
"""

from typing import Final

from ctxmgr.core.store.contract import Instant
from ctxmgr.memory.records.memory import Author, Memory
from ctxmgr.memory.records.usage import MemoryUsage

FLOOR: Final = 0.05
HALF_LIFE_DAYS: Final = 30.0
CITED_WEIGHT: Final = 2.0
IGNORED_WEIGHT: Final = 0.25
DAY_MS: Final = 86_400_000


def usefulness(memory: Memory, usage: MemoryUsage, *, now: Instant) -> float:
    """Return a score from ``FLOOR`` to 1. What a person wrote does not become stale."""
    cited = CITED_WEIGHT * usage.citation_count
    quality = (1 + cited) / (2 + cited + IGNORED_WEIGHT * usage.ignore_count)
    if memory.author is Author.PERSON:
        return max(FLOOR, quality)
    days = max(0, now - (usage.last_accessed or memory.created_at)) / DAY_MS
    freshness = 0.5 + 0.5 * 2 ** (-days / HALF_LIFE_DAYS)
    return max(FLOOR, quality * freshness)
