"""A pool of sources in memory, without an index file. Needs NumPy; reads and writes nothing."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ctxmgr.search.piece_vectors import embed_sources
from ctxmgr.search.pieces import SearchSource
from ctxmgr.search.ranking import PoolPart, SearchPool
from ctxmgr.search.segment import build

if TYPE_CHECKING:
    from ctxmgr.search.embedder import Embedder


def build_pool(
    sources: Sequence[SearchSource], *, embedder: "Embedder | None" = None
) -> SearchPool:
    """Index sources with different ids, with vectors if there is an embedder."""
    numbers: dict[str, int] = {}

    def term_ids(terms: Iterable[str]) -> Mapping[str, int]:
        for term in sorted(terms):
            numbers.setdefault(term, len(numbers) + 1)
        return numbers

    part = PoolPart(
        segment=build(sources, term_ids),
        source_ids=[source.source_id for source in sources],
        live=np.ones(len(sources), dtype=np.bool_),
        vectors=None if embedder is None else embed_sources(sources, embedder),
    )
    speakers = (piece.speaker for source in sources for piece in source.pieces)
    return SearchPool(
        parts=(part,),
        number=numbers.get,
        speakers=frozenset(speaker.lower() for speaker in speakers if speaker is not None),
    )
