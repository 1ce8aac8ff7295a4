"""What turns text into vectors, and vectors that remember what made them.

Vectors of two embedders cannot be compared, even if they have the same length: ``Vectors`` refuses
to. An embedder's name therefore changes with its weights. NumPy is imported when vectors are made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ctxmgr.errors import Incorrect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy import float32
    from numpy.typing import NDArray


class Embedder(Protocol):
    """Turns texts into vectors of one length."""

    @property
    def name(self) -> str:
        """Identifies the weights: vectors with another name are not comparable."""

    @property
    def dimension(self) -> int:
        """Numbers per vector."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one vector per text, of length 1, or all zeros for a text without words.

        The same texts give the same vectors in every process.
        """


@runtime_checkable
class WordEmbedder(Embedder, Protocol):
    """An embedder whose vector of a text is the mean of its words' vectors."""

    def embed_words(self, weights: Mapping[str, float]) -> Vectors:
        """Return one vector of words, in which each counts as much as its weight."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Vectors:
    """Rows of one embedder."""

    embedder: str
    rows: NDArray[float32]

    @property
    def dimension(self) -> int:
        return int(self.rows.shape[1])

    def similarities(self, query: Vectors) -> NDArray[float32]:
        """Return the cosine of each row with the first row of ``query``."""
        self._require_same_embedder(query)
        similarity: NDArray[float32] = self.rows @ query.rows[0]
        return similarity

    def _require_same_embedder(self, other: Vectors) -> None:
        if (self.embedder, self.dimension) != (other.embedder, other.dimension):
            raise Incorrect(
                f"vectors of {self.embedder} ({self.dimension} numbers) cannot be compared with "
                f"those of {other.embedder} ({other.dimension}): embed the texts again"
            )
