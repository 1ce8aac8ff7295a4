"""The ranking of pieces for a question: one for recall, notes, transcripts and memories.

    t(i)        BM25 of piece i, divided by the sum of the question's idf
    B(s)        the same of the whole source s as one document
    lexical(i)  t(i) + 0.2·t(i±1) + 0.1·t(i±2…4) + 0.2·speaker(i) + 1.75·B(s) + 1.0·day(s)
    static(i)   0.75·z(c·q) + 0.2·z(c·q at i±1, i±2) + 0.5·z(p·q) + 0.3·z(source's c·q)

c and p are the vectors of a piece without and with stop words; z(x) = 0.1·(x - mean)/deviation in
the pool. A source is worth as much as its best piece. The weights come from half of the LoCoMo
questions; docs/search.md has the figures. idf, lengths, mean and deviation are taken over the whole
pool, never over the candidates. Needs NumPy; reads and writes nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from ctxmgr.search.days import day_ranges
from ctxmgr.search.piece_vectors import PieceVectors, content_words, join
from ctxmgr.search.segment import (
    DAY_NONE,
    GAP,
    PoolSegment,
    english_stem,
    piece_slots,
    slot_sources,
    speaker_term,
)
from ctxmgr.search.terms import STOP_WORDS, words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ctxmgr.search.embedder import Embedder
    from ctxmgr.search.segment import Floats, Ints

K1: Final = 1.2
B: Final = 0.75

SOURCES_MAX: Final = 150
"""Sources whose pieces are scored. 60 lost nothing on a pool of 940."""

SIMILAR_SOURCES_MAX: Final = 10
"""Sources that are added because their vector is similar, whatever their words."""

COMPARED_PIECES_MAX: Final = 120
"""Pieces with the best lexical score whose vectors are compared, with two neighbours each side."""

EXACT_PIECES_MAX: Final = 1_000
"""Up to so many candidates, the vectors of all are compared."""

COMPARED_SOURCES_MAX: Final = 10_000
"""In a pool with more sources, only candidates' vectors are compared."""

SAMPLE_MAX: Final = 256
"""Pieces from which the mean and deviation of similarities are taken."""

TERMS_MAX: Final = 64
"""Terms of a question that count, from its beginning."""

_NEAR: Final = ((1, 0.2), (2, 0.1), (3, 0.1), (4, 0.1))
_Z: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class RankWeights:
    """What each part of the score is worth."""

    source: float = 1.75
    speaker: float = 0.2
    day: float = 1.0
    content: float = 0.75
    content_near: float = 0.2
    plain: float = 0.5
    source_vector: float = 0.3


BEST_SOURCES: Final = RankWeights()
"""For a list of sources."""

FILL_BUDGET: Final = RankWeights(source=0.5, speaker=0.6)
"""For filling a budget with pieces: otherwise one source leaves no room for others."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PoolPart:
    """A segment with what is known about its sources."""

    segment: PoolSegment
    source_ids: Sequence[str]
    live: "NDArray[np.bool_]"
    """Sources that have been neither removed nor replaced."""
    vectors: PieceVectors | None = None

    @cached_property
    def owners(self) -> "Ints":
        return slot_sources(self.segment)

    @cached_property
    def source_lengths(self) -> "Ints":
        return self.segment.source_lengths

    @cached_property
    def all_live(self) -> bool:
        return bool(self.live.all())

    @cached_property
    def live_slots(self) -> "NDArray[np.bool_]":
        live: NDArray[np.bool_] = (self.owners >= 0) & self.live[self.owners]
        return live


@dataclass(frozen=True, eq=False, kw_only=True)
class SearchPool:
    """Everything that one search ranks."""

    parts: tuple[PoolPart, ...]
    number: Callable[[str], int | None]
    """Returns the number of a term; None if no piece ever had it."""
    speakers: frozenset[str] = frozenset()
    """The names of the speakers, in lower case."""

    @cached_property
    def totals(self) -> tuple[int, int, int]:
        """The number of sources, of pieces, and of words."""
        sources = pieces = terms = 0
        for part in self.parts:
            sources += int(part.live.sum())
            pieces += int(part.segment.pieces[part.live].sum())
            terms += int(part.source_lengths[part.live].sum())
        return sources, pieces, terms

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedPiece:
    """A piece and its score; comparable only within one result."""

    source_id: str
    piece: int
    score: float


def rank(
    pool: SearchPool,
    question: str,
    *,
    limit: int,
    now: date | None = None,
    embedder: "Embedder | None" = None,
    weights: RankWeights = BEST_SOURCES,
    wanted: Callable[[str], bool] | None = None,
) -> list[RankedPiece]:
    """Return the best pieces, best first; ties by source and place.

    Pieces that share nothing with the question are left out, unless their vectors are similar.
    """
    search = _Search(pool, question, now=now, embedder=embedder, weights=weights, wanted=wanted)
    return search.best(limit)


def best_sources(pieces: Iterable[RankedPiece], *, limit: int) -> list[RankedPiece]:
    """Return the best piece of each source, best first."""
    found: dict[str, RankedPiece] = {}
    for piece in pieces:
        found.setdefault(piece.source_id, piece)
        if len(found) == limit:
            break
    return list(found.values())


class _Search:
    """One question to one pool."""

    def __init__(
        self,
        pool: SearchPool,
        question: str,
        *,
        now: date | None,
        embedder: "Embedder | None",
        weights: RankWeights,
        wanted: Callable[[str], bool] | None,
    ) -> None:
        self._pool, self._weights = pool, weights
        self._live = [_wanted_sources(part, wanted) for part in pool.parts]
        asked = words(question)
        named = [name for name in pool.speakers if set(words(name)) & set(asked)]
        names = frozenset(word for name in pool.speakers for word in words(name))
        self._speaker = pool.number(speaker_term(named[0])) if len(named) == 1 else None
        kept = [word for word in asked if word not in STOP_WORDS and word not in names]
        self._terms = list(dict.fromkeys(english_stem(word) for word in kept))[:TERMS_MAX]
        self._days = day_ranges(question, now=now, years=pool.years)
        self._vectors = None
        if embedder is not None and any(part.vectors is not None for part in pool.parts):
            for part in pool.parts:
                if part.vectors is not None:
                    part.vectors.require(embedder.name, embedder.dimension)
            self._vectors = embedder.embed([content_words(question, names), question]).rows

    def best(self, limit: int) -> list[RankedPiece]:
        scored = self._lexical()
        worth = [self._source_worth(part, *score) for part, score in self._parts(scored)]
        chosen = self._chosen_sources(worth)
        entries: list[tuple[float, str, int]] = []
        for index, part in enumerate(self._pool.parts):
            if len(chosen[index]):
                slots, scores = self._piece_scores(part, chosen[index], *scored[index])
                entries += self._entries(part, slots, scores, limit)
        entries.sort()
        return [
            RankedPiece(source_id=source_id, piece=piece, score=-score)
            for score, source_id, piece in entries[:limit]
        ]

    def _parts(
        self, values: Sequence[tuple["Floats", "Floats"]]
    ) -> Iterable[tuple[PoolPart, tuple["Floats", "Floats"]]]:
        return zip(self._pool.parts, values, strict=True)

    def _lexical(self) -> list[tuple["Floats", "Floats"]]:
        """Return t of each slot and B of each source, part by part."""
        sources, pieces, terms = self._pool.totals
        found = [
            (
                np.zeros(len(part.segment.lengths), dtype=np.float32),
                np.zeros(len(part.segment.first), dtype=np.float32),
            )
            for part in self._pool.parts
        ]
        average, source_average = max(terms, 1) / max(pieces, 1), max(terms, 1) / max(sources, 1)
        idf_sum = 0.0
        for term in self._terms:
            number = self._pool.number(term)
            lists = [
                _live_postings(part, number) if number is not None else None
                for part in self._pool.parts
            ]
            idf = _idf(sum(len(entry[0]) for entry in lists if entry), pieces)
            source_idf = _idf(sum(len(entry[2]) for entry in lists if entry), sources)
            idf_sum += idf
            for (t, b), part, entry in zip(found, self._pool.parts, lists, strict=True):
                if entry is None or not len(entry[0]):
                    continue
                slots, counts, whole, whole_counts = entry
                t[slots] += _bm25(counts, part.segment.lengths[slots], average, idf)
                b[whole] += _bm25(
                    whole_counts, part.source_lengths[whole], source_average, source_idf
                )
        if idf_sum:
            for scores in (scores for pair in found for scores in pair):
                np.divide(scores, np.float32(idf_sum), out=scores)
        return found

    def _source_worth(self, part: PoolPart, t: "Floats", b: "Floats") -> "Floats":
        """Return what each source is worth before neighbours and vectors are looked at."""
        first, pieces = part.segment.first, part.segment.pieces
        best = np.zeros(len(first), dtype=np.float32)
        filled = np.flatnonzero(pieces)
        if len(filled):
            best[filled] = np.maximum.reduceat(t, first[filled])
        return best + np.float32(self._weights.source) * b + self._day_worth(part)

    def _day_worth(self, part: PoolPart) -> "Floats":
        days = part.segment.days
        worth = np.zeros(len(days), dtype=np.float32)
        for span in self._days:
            inside = (days >= span.first.toordinal()) & (days <= span.last.toordinal())
            worth[inside & (days != DAY_NONE)] = np.maximum(worth, np.float32(span.worth))[
                inside & (days != DAY_NONE)
            ]
        return worth * np.float32(self._weights.day)

    def _chosen_sources(self, worth: Sequence["Floats"]) -> list["Ints"]:
        chosen = _largest(worth, self._live, SOURCES_MAX)
        if self._vectors is None or self._pool.totals[0] > COMPARED_SOURCES_MAX:
            return chosen
        similar = [
            part.vectors.source.similarities(self._vectors[0])
            if part.vectors is not None
            else np.zeros(len(part.segment.first), dtype=np.float32)
            for part in self._pool.parts
        ]
        more = _largest(similar, self._live, SIMILAR_SOURCES_MAX)
        return [np.union1d(*pair) for pair in zip(chosen, more, strict=True)]

    def _piece_scores(
        self, part: PoolPart, chosen: "Ints", t: "Floats", b: "Floats"
    ) -> tuple["Ints", "Floats"]:
        """Return the slots of the pieces that may be shown, and their scores."""
        segment = part.segment
        slots = piece_slots(segment.first[chosen], segment.pieces[chosen])
        owners = part.owners[slots]
        scores = t[slots] + np.float32(self._weights.source) * b[owners]
        for distance, weight in _NEAR:
            scores += np.float32(weight) * (t[slots - distance] + t[slots + distance])
        scores += self._day_worth(part)[owners]
        if self._speaker is not None:
            scores += np.float32(self._weights.speaker) * (segment.speakers[slots] == self._speaker)
        if self._vectors is None or part.vectors is None:
            kept = scores > 0
            return slots[kept], scores[kept]
        if len(slots) > EXACT_PIECES_MAX:
            best = np.argpartition(-scores, COMPARED_PIECES_MAX)[:COMPARED_PIECES_MAX]
            slots, scores = slots[best], scores[best]
        return slots, scores + self._static(part, part.vectors, slots)

    def _static(self, part: PoolPart, vectors: PieceVectors, slots: "Ints") -> "Floats":
        assert self._vectors is not None
        content_query, plain_query = self._vectors[0], self._vectors[1]
        owners = part.owners[slots]
        near = np.unique(np.concatenate([slots + shift for shift in (-2, -1, 0, 1, 2)]))
        near = near[part.owners[near] >= 0]
        content = np.zeros(len(part.segment.lengths), dtype=np.float32)
        means = self._means
        rows = near - GAP * (part.owners[near] + 1)
        content[near] = _z(vectors.content.similarities(content_query, rows), *means["content"])
        score = np.float32(self._weights.content) * content[slots]
        for distance in (1, 2):
            beside = content[slots - distance] + content[slots + distance]
            score += np.float32(self._weights.content_near) * beside
        own = slots - GAP * (owners + 1)
        plain = vectors.plain.similarities(plain_query, own)
        score += np.float32(self._weights.plain) * _z(plain, *means["plain"])
        sources, places = np.unique(owners, return_inverse=True)
        whole = vectors.source.similarities(content_query, sources)
        z = _z(whole, *means["source"])
        score += np.float32(self._weights.source_vector) * z[places]
        return score

    @cached_property
    def _means(self) -> Mapping[str, tuple[float, float]]:
        """The mean and deviation of similarities in the pool."""
        assert self._vectors is not None
        content_query, plain_query = self._vectors[0], self._vectors[1]
        sample = self._pool.sample
        assert sample is not None
        similar = {
            "content": sample.content.similarities(content_query),
            "plain": sample.plain.similarities(plain_query),
            "source": sample.source.similarities(content_query),
        }
        return {kind: (float(x.mean()), float(x.std())) for kind, x in similar.items()}

    def _entries(
        self, part: PoolPart, slots: "Ints", scores: "Floats", limit: int
    ) -> Iterable[tuple[float, str, int]]:
        owners = part.owners[slots]
        rounded = np.round(scores.astype(np.float64), 5)
        if len(rounded) > limit:
            least = np.partition(rounded, len(rounded) - limit)[len(rounded) - limit]
            kept = rounded >= least
            slots, owners, rounded = slots[kept], owners[kept], rounded[kept]
        for slot, owner, score in zip(slots, owners, rounded, strict=True):
            yield -float(score), part.source_ids[owner], int(slot - part.segment.first[owner])


def _wanted_sources(part: PoolPart, wanted: Callable[[str], bool] | None) -> "NDArray[np.bool_]":
    if wanted is None:
        return part.live
    accepted = [
        bool(live) and wanted(source_id)
        for live, source_id in zip(part.live, part.source_ids, strict=True)
    ]
    return np.array(accepted, dtype=np.bool_)


def _live_postings(part: PoolPart, number: int) -> "tuple[Ints, Ints, Ints, Ints]":
    slots, counts, sources, source_counts = part.segment.postings(number)
    if part.all_live or not len(slots):
        return slots, counts, sources, source_counts
    kept, whole = part.live_slots[slots], part.live[sources]
    return slots[kept], counts[kept], sources[whole], source_counts[whole]


def _idf(found: int, total: int) -> float:
    return float(np.log1p((total - found + 0.5) / (found + 0.5)))


def _bm25(counts: "Ints", lengths: "Ints", average: float, idf: float) -> "Floats":
    count = counts.astype(np.float32)
    norm = np.float32(K1 * (1 - B)) + np.float32(K1 * B / average) * lengths
    score = np.float32(idf * (K1 + 1)) * count / (count + norm)
    single: Floats = score.astype(np.float32)
    return single


def _z(values: "Floats", mean: float, deviation: float) -> "Floats":
    if deviation == 0:
        return np.zeros(len(values), dtype=np.float32)
    return np.float32(_Z / deviation) * (values - np.float32(mean))


def _largest(
    worth: Sequence["Floats"], live: "Sequence[NDArray[np.bool_]]", count: int
) -> list["Ints"]:
    """Return the sources with the largest worth above zero, part by part; ties are all taken."""
    masked = [
        np.where(alive, values, np.float32(0)) for values, alive in zip(worth, live, strict=True)
    ]
    together = np.concatenate(masked) if masked else np.zeros(0, dtype=np.float32)
    least = 0.0
    if len(together) > count:
        least = float(np.partition(together, len(together) - count)[len(together) - count])
    return [np.flatnonzero((values >= least) & (values > 0)).astype(np.int32) for values in masked]
