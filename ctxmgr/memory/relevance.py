"""Which memories match a question, by the one ranking of ``search``. Needs NumPy."""

from collections.abc import Sequence
from typing import Final

from ctxmgr.memory.records.memory import Memory
from ctxmgr.search.build_pool import build_pool
from ctxmgr.search.pieces import SearchSource
from ctxmgr.search.ranking import best_sources, rank

MATCHES_MAX: Final = 200
"""Memories that are looked at because they match."""


def relevance(memories: Sequence[Memory], question: str) -> dict[str, float]:
    """Return the score of every memory that matches a question, by id."""
    if not question.strip() or not memories:
        return {}
    sources = [
        SearchSource.from_text(
            " ".join((memory.levels.full, *memory.tags)), source_id=memory.id, category="memory"
        )
        for memory in memories
    ]
    pieces = rank(build_pool(sources), question, limit=MATCHES_MAX)
    return {piece.source_id: piece.score for piece in best_sources(pieces, limit=MATCHES_MAX)}
