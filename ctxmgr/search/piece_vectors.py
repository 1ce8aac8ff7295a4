"""Vectors of the pieces and sources of a segment, as signed bytes. Needs NumPy.

Each text has two vectors: of its words without stop words, and of all of it. The first is better
for short statements, the second for long ones, and their sum for both. A vector is stored as 256
signed bytes and a scale, a quarter of its size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np

from ctxmgr.errors import Corrupt, Incorrect
from ctxmgr.search.pieces import SearchSource
from ctxmgr.search.terms import STOP_WORDS, words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ctxmgr.search.embedder import Embedder, Vectors
    from ctxmgr.search.segment import Floats, Ints


@dataclass(frozen=True, eq=False)
class ByteRows:
    """Vectors of one kind."""

    numbers: "NDArray[np.int8]"
    scales: "Floats"

    @classmethod
    def from_vectors(cls, vectors: "Vectors") -> Self:
        largest = np.abs(vectors.rows).max(axis=1, initial=0.0)
        scales = (largest / 127).astype(np.float32)
        divisors = np.where(scales > 0, scales, 1)[:, None]
        return cls(np.rint(vectors.rows / divisors).astype(np.int8), scales)

    def similarities(self, query: "Floats", rows: "Ints | None" = None) -> "Floats":
        """Return the cosine of some rows, or of all, with a vector."""
        # einsum, because a second BLAS thread on a busy machine waits longer than this takes.
        if rows is None:
            everything: Floats = np.einsum("ij,j->i", self.floats, query)
            return everything
        products: Floats = np.einsum("ij,j->i", self.numbers[rows].astype(np.float32), query)
        return products * self.scales[rows]

    @cached_property
    def floats(self) -> "Floats":
        """All rows as numbers; for few, since they take four times the memory."""
        return self.numbers.astype(np.float32) * self.scales[:, None]

    def taken(self, rows: "Ints") -> Self:
        return type(self)(self.numbers[rows], self.scales[rows])


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PieceVectors:
    """The vectors of one segment, all of one embedder."""

    embedder: str
    dimension: int
    content: ByteRows
    """Of each piece, without stop words."""
    plain: ByteRows
    """Of each piece."""
    source: ByteRows
    """Of each source, without stop words."""

    def require(self, embedder: str, dimension: int) -> None:
        """Refuse to compare vectors of two embedders."""
        if (self.embedder, self.dimension) != (embedder, dimension):
            raise Incorrect(
                f"the index has vectors of {self.embedder} ({self.dimension} numbers), not of "
                f"{embedder} ({dimension}): embed its texts again"
            )

    def arrays(self) -> dict[str, bytes]:
        parts = {}
        for kind in ("content", "plain", "source"):
            rows: ByteRows = getattr(self, kind)
            parts[f"{kind}_numbers"] = rows.numbers.tobytes()
            parts[f"{kind}_scales"] = rows.scales.astype("<f4").tobytes()
        return parts

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, bytes],
        *,
        embedder: str,
        dimension: int,
        pieces: int,
        sources: int,
    ) -> Self:
        """Read what ``arrays`` returned; ``Corrupt`` if it does not fit the segment."""
        found = {}
        for kind, count in (("content", pieces), ("plain", pieces), ("source", sources)):
            try:
                numbers = np.frombuffer(arrays[f"{kind}_numbers"], dtype=np.int8)
                scales = np.frombuffer(arrays[f"{kind}_scales"], dtype="<f4")
                rows = ByteRows(numbers.reshape(count, dimension), scales)
            except (KeyError, ValueError) as error:
                raise Corrupt(f"the search index has damaged vectors: {error}") from error
            if len(scales) != count:
                raise Corrupt(f"the search index has {len(scales)} vectors for {count} texts")
            found[kind] = rows
        return cls(embedder=embedder, dimension=dimension, **found)


def embed_sources(sources: Sequence[SearchSource], embedder: "Embedder") -> PieceVectors:
    """Embed the pieces of sources in their order."""
    texts = [text for source in sources for text in source.piece_texts()]
    return PieceVectors(
        embedder=embedder.name,
        dimension=embedder.dimension,
        content=ByteRows.from_vectors(embedder.embed([content_words(text) for text in texts])),
        plain=ByteRows.from_vectors(embedder.embed(texts)),
        source=ByteRows.from_vectors(
            embedder.embed([content_words(source.text) for source in sources])
        ),
    )


def join(parts: "Sequence[tuple[PieceVectors, Ints, Ints]]") -> PieceVectors:
    """Join vectors, each with the pieces and sources that are kept."""
    first = parts[0][0]
    for vectors, _, _ in parts:
        vectors.require(first.embedder, first.dimension)
    return PieceVectors(
        embedder=first.embedder,
        dimension=first.dimension,
        content=_joined([vectors.content.taken(pieces) for vectors, pieces, _ in parts]),
        plain=_joined([vectors.plain.taken(pieces) for vectors, pieces, _ in parts]),
        source=_joined([vectors.source.taken(sources) for vectors, _, sources in parts]),
    )


def _joined(rows: Sequence[ByteRows]) -> ByteRows:
    return ByteRows(
        np.concatenate([part.numbers for part in rows]),
        np.concatenate([part.scales for part in rows]),
    )


def content_words(text: str, leave_out: frozenset[str] = frozenset()) -> str:
    """Return a text's words in lower case, without stop words."""
    return " ".join(
        word for word in words(text) if word not in STOP_WORDS and word not in leave_out
    )
