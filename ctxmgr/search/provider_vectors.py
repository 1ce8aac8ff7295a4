"""Vectors of a provider's model, as an ``Embedder``. Calls the function that it is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctxmgr.search.embedder import Vectors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderEmbedder:
    """An ``Embedder`` whose vectors are computed elsewhere."""

    name: str
    dimension: int
    vectors: Callable[[Sequence[str]], list[list[float]]]
    mask: Callable[[str], str]
    """Returns a text without its secrets: what is embedded leaves this machine."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np  # noqa: PLC0415 -- only with vectors

        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        # An empty text has no meaning, and the API refuses it.
        told = [number for number, text in enumerate(texts) if text.strip()]
        if told:
            rows[told] = self.vectors([self.mask(texts[number]) for number in told])
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        rows /= np.where(lengths > 0, lengths, np.float32(1))
        return Vectors(embedder=self.name, rows=rows)
