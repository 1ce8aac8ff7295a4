"""What one search ranks: segments with the state of their sources. Needs NumPy; no I/O.

``build_pool`` makes one of sources in memory, without an index file.

A pool is made of parts: a segment never changes, and which of its sources are still valid is
kept beside it. Totals, years and the sample of vectors are taken over all live sources, so they do
not depend on how the pool is divided.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from math import log1p
from typing import TYPE_CHECKING, Final

import numpy as np

from ctxmgr.search.piece_vectors import PieceVectors, embed_sources, join
from ctxmgr.search.pieces import SearchSource
from ctxmgr.search.segment import DAY_NONE, GAP, PoolSegment, build
from ctxmgr.search.terms import words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ctxmgr.search.embedder import Embedder
    from ctxmgr.search.segment import Ints

SAMPLE_MAX: Final = 256
"""Pieces from which the mean and deviation of similarities are taken."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PoolPart:
    """A segment with what is known about its sources."""

    segment: PoolSegment
    source_ids: Sequence[str]
    live: "NDArray[np.bool_]"
    """Sources that have been neither removed nor replaced."""
    vectors: PieceVectors | None = None

    @cached_property
    def dead(self) -> "Ints":
        """Sources that have been removed or replaced."""
        return np.flatnonzero(~self.live).astype(np.int32)

    def pieces_with(self, place: int) -> int:
        """Return how many live pieces have a term."""
        slots, _ = self.segment.postings(place)
        if not len(self.dead):
            return len(slots)
        first, last = self._dead_slots
        removed = np.searchsorted(slots, last) - np.searchsorted(slots, first)
        return len(slots) - int(removed.sum())

    def sources_with(self, place: int) -> int:
        """Return how many live sources have a term."""
        sources, _ = self.segment.source_postings(place)
        return int(self.live[sources].sum()) if len(self.dead) else len(sources)

    @cached_property
    def _dead_slots(self) -> "tuple[Ints, Ints]":
        first = self.segment.first[self.dead]
        return first, first + self.segment.pieces[self.dead]


@dataclass(frozen=True, eq=False, kw_only=True)
class SearchPool:
    """Everything that one search ranks."""

    parts: tuple[PoolPart, ...]
    number: Callable[[str], int | None]
    """Returns the number of a term; None if no piece ever had it."""
    speakers: frozenset[str] = frozenset()
    """The names of the speakers, in lower case."""
    earlier_sample: PieceVectors | None = None
    """A sample of the pool before small changes, which is as good and saves taking another."""

    @cached_property
    def totals(self) -> tuple[int, int, int]:
        """The number of sources, of pieces, and of words."""
        sources = pieces = terms = 0
        for part in self.parts:
            sources += int(part.live.sum())
            pieces += int(part.segment.pieces[part.live].sum())
            terms += int(part.segment.source_lengths[part.live].sum())
        return sources, pieces, terms

    def stem_idf(self, stem: str) -> float:
        """Return how rare a stem is among all pieces, and so how well it tells them apart."""
        number = self.number(stem)
        found = 0
        if number is not None:
            places = [(part, part.segment.place(number)) for part in self.parts]
            found = sum(part.pieces_with(place) for part, place in places if place is not None)
        return idf(found, self.totals[1])

    @cached_property
    def speaker_words(self) -> Mapping[str, frozenset[str]]:
        return {name: frozenset(words(name)) for name in self.speakers}

    @cached_property
    def years(self) -> frozenset[int]:
        found: set[int] = set()
        for part in self.parts:
            days = np.unique(part.segment.days[part.live & (part.segment.days != DAY_NONE)])
            found |= {date.fromordinal(int(day)).year for day in days}
        return frozenset(found)

    @cached_property
    def sample(self) -> PieceVectors | None:
        """Vectors of some pieces and sources, the same however the pool is divided."""
        if self.earlier_sample is not None:
            return self.earlier_sample
        keys, ids, places = [], [], []
        for number, part in enumerate(self.parts):
            chosen = np.flatnonzero(part.live & (part.segment.pieces > 0))
            chosen = chosen[np.argsort(part.segment.keys[chosen], kind="stable")][:SAMPLE_MAX]
            for source in chosen.tolist():
                keys.append(int(part.segment.keys[source]))
                ids.append(part.source_ids[source])
                places.append((number, int(source)))
        order = sorted(range(len(keys)), key=lambda entry: (keys[entry], ids[entry]))[:SAMPLE_MAX]
        each = -(-SAMPLE_MAX // max(1, len(order)))
        sample: list[tuple[PieceVectors, Ints, Ints]] = []
        for entry in order:
            part = self.parts[places[entry][0]]
            if part.vectors is None:
                continue
            source = places[entry][1]
            start = int(part.segment.first[source]) - GAP * (source + 1)
            count = int(part.segment.pieces[source])
            pieces = np.unique(np.linspace(0, count - 1, min(each, count)).astype(np.int32))
            sample.append(
                (
                    part.vectors,
                    (start + pieces).astype(np.int32),
                    np.array([source], dtype=np.int32),
                )
            )
        return join(sample) if sample else None


def idf(found: int, total: int) -> float:
    """Return the inverse document frequency of a term that some of the documents have."""
    return log1p((total - found + 0.5) / (found + 0.5))


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
