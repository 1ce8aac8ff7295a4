"""The merge of a text search and a vector search over documents. Pure.

    score = 0.4 · BM25 / best BM25 + 0.6 · (1 - cosine distance / 2)

A document that only one side has found counts 0 on the other. If there are no vectors at all, the
score is the BM25 side alone, so that scores have the same range with and without an embedder.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

from ctxmgr.errors import Incorrect


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridWeights:
    """What each side is worth."""

    bm25: float = 0.4
    vector: float = 0.6

    def __post_init__(self) -> None:
        sides = (self.bm25, self.vector)
        if not all(isfinite(side) and side >= 0 for side in sides) or not any(sides):
            raise Incorrect(
                f"the weights of a search are {self.bm25} and {self.vector}; "
                "pass numbers from 0, not both 0"
            )


def merge_sides(
    bm25: Mapping[str, float],
    distances: Mapping[str, float] | None,
    weights: HybridWeights,
) -> list[tuple[str, float]]:
    """Return paths with scores, each path once, best first; ties by path.

    ``distances`` are cosine distances, 0 to 2; None: there are no vectors.
    """
    best = max(bm25.values(), default=0.0)
    text = {path: score / best if best > 0 else 1.0 for path, score in bm25.items()}
    if distances is None:
        scores = text
    else:
        scores = {
            path: weights.bm25 * text.get(path, 0.0)
            + weights.vector * (_similarity(distances[path]) if path in distances else 0.0)
            for path in {*text, *distances}
        }
    return sorted(scores.items(), key=lambda entry: (-entry[1], entry[0]))


def _similarity(distance: float) -> float:
    return min(1.0, max(0.0, 1 - distance / 2))
