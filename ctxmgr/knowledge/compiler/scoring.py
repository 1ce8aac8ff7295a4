"""The score of a note for a message: how well it fits, its age, and how often it is used. Pure.

    score = (0.4 · BM25 + 0.6 · similarity) · exp(-0.1 · days) · (1 + 0.1 · references)

The first factor is 0 to 1. A note that scores 0.05 or less is not shown.
"""

import heapq
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import exp
from typing import Final, NamedTuple, Protocol

from ctxmgr.core.store.contract import Instant
from ctxmgr.knowledge.compiler.compiled import ActiveTopic, KnowledgeFile, ScoredItem
from ctxmgr.knowledge.config import SearchConfig

DECAY_PER_DAY: Final = 0.1
"""Half is left after about a week."""

REFERENCE_BONUS: Final = 0.1

SCORE_MIN: Final = 0.05
"""A note is shown if it scores more."""

SNIPPET_CHARS_MAX: Final = 500

NOTES_MAX: Final = 256
"""Notes that can be shown for one message: more passages than 100 KB hold."""

QUERY_CHARS_MAX: Final = 4_000
"""Of a message, from its beginning: a pasted log is not a question."""

_DAY_MS: Final = 24 * 60 * 60 * 1000


class NoteRelevance(NamedTuple):
    """How well a note fits a query, each side from 0 to 1."""

    bm25: float
    vector: float | None
    """None: there are no vectors, and words alone decide."""
    passage: Callable[[str], str] | None = None
    """Returns the passage of a path that fits best; None: the beginning of the note."""


class Relevance(Protocol):
    """Compares a query with notes."""

    def __call__(self, query: str, files: Sequence[KnowledgeFile]) -> Mapping[str, NoteRelevance]:
        """Return the notes that fit, by path; the others are left out."""


def knowledge_query(message: str, topics: Iterable[ActiveTopic]) -> str:
    """Return what is searched for: the message and the keywords of the active topics."""
    keywords = dict.fromkeys(word for topic in topics for word in topic.keywords)
    return " ".join((message[:QUERY_CHARS_MAX], *keywords))


def note_score(
    file: KnowledgeFile, fit: NoteRelevance, *, now: Instant, weights: SearchConfig
) -> float:
    """Return the score of a note. The future is today; without vectors, words alone decide."""
    base = fit.bm25
    if fit.vector is not None:
        base = weights.bm25_weight * base + weights.vector_weight * fit.vector
    age = now - file.modified
    if age > 0:
        base *= exp(-DECAY_PER_DAY / _DAY_MS * age)
    return base * (1 + REFERENCE_BONUS * file.reference_count)


class ScoredNotes(NamedTuple):
    """The notes that can be shown for a message."""

    best: list[ScoredItem]
    """Best first; ties by path."""
    others: int
    """How many further notes there are: what comes after hundreds of notes is not shown."""


def score_notes(
    files: Sequence[KnowledgeFile],
    fits: Mapping[str, NoteRelevance],
    *,
    now: Instant,
    weights: SearchConfig,
) -> ScoredNotes:
    """Return the best notes with their scores."""
    scored: list[tuple[float, str, KnowledgeFile, NoteRelevance | None]] = []
    for file in files:
        fit = fits.get(file.path)
        if fit is None:
            scored.append((0.0, file.path, file, fit))
            continue
        score = note_score(file, fit, now=now, weights=weights)
        scored.append((-score, file.path, file, fit))
    best = heapq.nsmallest(NOTES_MAX, scored, key=operator.itemgetter(0, 1))
    items = [
        ScoredItem(path=path, score=-negative, snippet=_snippet(file, fit))
        for negative, path, file, fit in best
    ]
    return ScoredNotes(items, len(scored) - len(items))


def _snippet(file: KnowledgeFile, fit: NoteRelevance | None) -> str:
    text = file.snippet or file.text
    if not file.snippet and fit is not None and fit.passage is not None:
        text = fit.passage(file.path)
    return text[:SNIPPET_CHARS_MAX].strip()
