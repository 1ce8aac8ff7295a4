"""The score of a note for a message: how well it fits, its age, and how often it is used. Pure.

    score = (0.4 · BM25 + 0.6 · similarity) · exp(-0.1 · days) · (1 + 0.1 · references)

The first factor is 0 to 1. A note that scores 0.05 or less is not shown.
"""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp
from typing import Final, Protocol

from ctxmgr.core.store.contract import Instant
from ctxmgr.knowledge.compiler.compiled import ActiveTopic, KnowledgeFile, ScoredItem
from ctxmgr.knowledge.config import SearchConfig

DECAY_PER_DAY: Final = 0.1
"""Half is left after about a week."""

REFERENCE_BONUS: Final = 0.1

SCORE_MIN: Final = 0.05
"""A note is shown if it scores more."""

SNIPPET_CHARS_MAX: Final = 500

SNIPPETS_MAX: Final = 400
"""Notes that can be shown for one message: twice what 100 KB hold of passages."""

QUERY_CHARS_MAX: Final = 4_000
"""Of a message, from its beginning: a pasted log is not a question."""

_DAY_MS: Final = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteRelevance:
    """How well a note fits a query, each side from 0 to 1."""

    bm25: float
    vector: float | None
    """None: there are no vectors, and words alone decide."""
    passage: Callable[[], str] | None = field(default=None, repr=False)
    """Returns the passage that fits best; None: the beginning of the note."""


class Relevance(Protocol):
    """Compares a query with notes."""

    def __call__(self, query: str, files: Sequence[KnowledgeFile]) -> Mapping[str, NoteRelevance]:
        """Return the notes that fit, by path; the others are left out."""


def knowledge_query(message: str, topics: Iterable[ActiveTopic]) -> str:
    """Return what is searched for: the message and the keywords of the active topics."""
    keywords = dict.fromkeys(word for topic in topics for word in topic.keywords)
    return " ".join((message[:QUERY_CHARS_MAX], *keywords))


def base_score(fit: NoteRelevance, weights: SearchConfig) -> float:
    """Return 0.4 · BM25 + 0.6 · similarity, or BM25 if there are no vectors."""
    if fit.vector is None:
        return fit.bm25
    return weights.bm25_weight * fit.bm25 + weights.vector_weight * fit.vector


def recency_factor(modified: Instant, *, now: Instant) -> float:
    """Return 1 for a note of today, and half of it for one of last week; the future is today."""
    return exp(-DECAY_PER_DAY * max(0, now - modified) / _DAY_MS)


def frequency_factor(reference_count: int) -> float:
    return 1 + REFERENCE_BONUS * max(0, reference_count)


def score_notes(
    files: Iterable[KnowledgeFile],
    fits: Mapping[str, NoteRelevance],
    *,
    now: Instant,
    weights: SearchConfig,
) -> list[ScoredItem]:
    """Return all notes with their scores, best first; ties by path.

    Only the best have a snippet: what comes after hundreds of notes is not shown.
    """
    scored = []
    for file in files:
        fit = fits.get(file.path)
        score = 0.0
        if fit is not None:
            score = (
                base_score(fit, weights)
                * recency_factor(file.modified, now=now)
                * frequency_factor(file.reference_count)
            )
        scored.append((-score, file.path, file, fit))
    scored.sort(key=operator.itemgetter(0, 1))
    return [
        ScoredItem(
            path=path,
            score=-negative,
            snippet=_snippet(file, fit) if fit and place < SNIPPETS_MAX else "",
        )
        for place, (negative, path, file, fit) in enumerate(scored)
    ]


def _snippet(file: KnowledgeFile, fit: NoteRelevance) -> str:
    text = file.snippet or (fit.passage() if fit.passage is not None else file.text)
    return text[:SNIPPET_CHARS_MAX].strip()
