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
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from ctxmgr.search.days import day_ranges
from ctxmgr.search.piece_vectors import content_words
from ctxmgr.search.search_pool import PoolPart, SearchPool, idf
from ctxmgr.search.segment import DAY_NONE, GAP, english_stem, piece_slots, speaker_term
from ctxmgr.search.terms import FUNCTION_WORDS, STOP_WORDS, words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ctxmgr.search.embedder import Embedder
    from ctxmgr.search.segment import Floats, Ints

K1: Final = 1.2
B: Final = 0.75

SOURCES_MAX: Final = 150
"""Sources whose pieces are scored: those with the best B and day."""

SIMILAR_SOURCES_MAX: Final = 10
"""Sources that are added because their vector is similar, whatever their words; more if fewer than
``SOURCES_MAX`` share a word with the question, so that all of a small pool are compared."""

COMPARED_PIECES_MAX: Final = 200
"""Pieces with the best lexical score whose vectors are compared, with two neighbours each side."""

EXACT_PIECES_MAX: Final = 1_000
"""Up to so many candidates, the vectors of all are compared."""

COMPARED_SOURCES_MAX: Final = 10_000
"""In a pool with more sources, only candidates' vectors are compared."""

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
    lexical_min: float | None = None,
) -> list[RankedPiece]:
    """Return the best pieces, best first; ties by source and place.

    Pieces that share nothing with the question are left out, unless their vectors are similar. With
    ``lexical_min`` a piece needs at least that lexical score, whatever its vectors.
    """
    search = _Search(pool, question, now=now, embedder=embedder, weights=weights, wanted=wanted)
    found = search.scored(lexical_min=lexical_min)
    return _ranked((_pieces(entry, limit) for entry in found), limit)


def rank_sources(
    pool: SearchPool,
    question: str,
    *,
    limit: int,
    now: date | None = None,
    embedder: "Embedder | None" = None,
    weights: RankWeights = BEST_SOURCES,
    wanted: Callable[[str], bool] | None = None,
) -> list[RankedPiece]:
    """Return the best piece of each of the best sources: ``best_sources`` of all that is ranked."""
    search = _Search(pool, question, now=now, embedder=embedder, weights=weights, wanted=wanted)
    return _ranked((_best_pieces(found, limit) for found in search.scored()), limit)


def best_sources(pieces: Iterable[RankedPiece], *, limit: int) -> list[RankedPiece]:
    """Return the best piece of each source, best first."""
    found: dict[str, RankedPiece] = {}
    for piece in pieces:
        found.setdefault(piece.source_id, piece)
        if len(found) == limit:
            break
    return list(found.values())


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _AskedTerm:
    """A term of the question."""

    idf: float
    source_idf: float
    places: tuple[int | None, ...]
    """Where each part has its postings."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Candidates:
    """Pieces of one part. They have slots of their own, with gaps as in a segment."""

    part: PoolPart
    chosen: "Ints"
    """The sources."""
    first: "Ints"
    """The first slot of each chosen source."""
    slots: "Ints"
    owners: "Ints"
    """For each piece, the place of its source in ``chosen``."""
    scores: "Floats"
    every: "tuple[Ints, Ints]"
    """Slots and owners of all pieces of the sources, also of those that were left out."""

    def taken(self, kept: "NDArray[np.bool_]") -> "_Candidates":
        return replace(
            self, slots=self.slots[kept], owners=self.owners[kept], scores=self.scores[kept]
        )

    def rows(self, slots: "Ints", owners: "Ints") -> "Ints":
        """Return the rows of the vectors of pieces."""
        sources = self.chosen[owners]
        moved: Ints = slots - self.first[owners] + self.part.segment.first[sources]
        return moved - GAP * (sources + 1)


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
        named = [name for name, parts in pool.speaker_words.items() if parts.intersection(asked)]
        names = frozenset().union(*pool.speaker_words.values())
        self._speaker = pool.number(speaker_term(named[0])) if len(named) == 1 else None
        kept = [word for word in asked if word not in STOP_WORDS and word not in names]
        # A question of nothing else is asked with them: texts are indexed with these words.
        telling = [word for word in kept if word not in FUNCTION_WORDS] or kept
        stems = list(dict.fromkeys(english_stem(word) for word in telling))[:TERMS_MAX]
        self._terms = [self._asked(stem) for stem in stems]
        self._idf_sum = sum(term.idf for term in self._terms)
        self._days = day_ranges(question, now=now, years=pool.years)
        self._vectors = None
        if embedder is not None and any(part.vectors is not None for part in pool.parts):
            for part in pool.parts:
                if part.vectors is not None:
                    part.vectors.require(embedder.name, embedder.dimension)
            self._vectors = embedder.embed([content_words(question, names), question]).rows

    def scored(self, *, lexical_min: float | None = None) -> list[_Candidates]:
        """Return what may be shown, with scores, part by part."""
        days = [self._day_worth(part) for part in self._pool.parts]
        whole = [self._whole(number) for number in range(len(self._pool.parts))]
        chosen = self._chosen_sources(
            [np.float32(BEST_SOURCES.source) * b + day for b, day in zip(whole, days, strict=True)]
        )
        found = [
            self._candidates(number, sources, whole[number], days[number])
            for number, sources in enumerate(chosen)
            if len(sources)
        ]
        if lexical_min is not None:
            found = [entry.taken(entry.scores >= lexical_min) for entry in found]
        if self._vectors is None:
            return [entry.taken(entry.scores > 0) for entry in found]
        return [self._compared(entry) for entry in _best_candidates(found)]

    def _asked(self, stem: str) -> _AskedTerm:
        sources, pieces, _ = self._pool.totals
        number = self._pool.number(stem)
        places = tuple(
            part.segment.place(number) if number is not None else None for part in self._pool.parts
        )
        known = [
            (part, place)
            for part, place in zip(self._pool.parts, places, strict=True)
            if place is not None
        ]
        return _AskedTerm(
            idf=idf(sum(part.pieces_with(place) for part, place in known), pieces),
            source_idf=idf(sum(part.sources_with(place) for part, place in known), sources),
            places=places,
        )

    def _whole(self, number: int) -> "Floats":
        """Return B of each source of a part."""
        segment = self._pool.parts[number].segment
        sources, _, terms = self._pool.totals
        average = max(terms, 1) / max(sources, 1)
        b = np.zeros(len(segment.first), dtype=np.float32)
        for term in self._terms:
            place = term.places[number]
            if place is not None:
                found, counts = segment.source_postings(place)
                lengths = segment.source_lengths[found]
                b[found] += _bm25(counts, lengths, average, term.source_idf)
        return b / np.float32(self._idf_sum) if self._idf_sum else b

    def _day_worth(self, part: PoolPart) -> "Floats":
        days = part.segment.days
        worth = np.zeros(len(days), dtype=np.float32)
        for span in self._days:
            inside = (days >= span.first.toordinal()) & (days <= span.last.toordinal())
            inside &= days != DAY_NONE
            worth[inside] = np.maximum(worth[inside], np.float32(span.worth))
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
        room = SOURCES_MAX - sum(map(len, chosen))
        more = _largest(similar, self._live, max(SIMILAR_SOURCES_MAX, room))
        return [np.union1d(*pair) for pair in zip(chosen, more, strict=True)]

    def _candidates(
        self, number: int, chosen: "Ints", whole: "Floats", days: "Floats"
    ) -> _Candidates:
        """Return the pieces of some sources with their lexical scores."""
        part = self._pool.parts[number]
        segment = part.segment
        counts = segment.pieces[chosen]
        first = (GAP + np.concatenate(([0], np.cumsum(counts + GAP)[:-1]))).astype(np.int32)
        t = self._piece_bm25(number, chosen, first)
        slots = piece_slots(first, counts)
        owners = np.arange(len(chosen), dtype=np.int32).repeat(counts)
        sources = np.float32(self._weights.source) * whole[chosen] + days[chosen]
        scores = _with_neighbours(t)[slots] + sources[owners]
        if self._speaker is not None:
            speakers = segment.speakers[piece_slots(segment.first[chosen], counts)]
            scores += np.float32(self._weights.speaker) * (speakers == self._speaker)
        return _Candidates(
            part=part,
            chosen=chosen,
            first=first,
            slots=slots,
            owners=owners,
            scores=scores,
            every=(slots, owners),
        )

    def _piece_bm25(self, number: int, chosen: "Ints", first: "Ints") -> "Floats":
        """Return t of each slot of the candidates."""
        segment = self._pool.parts[number].segment
        _, pieces, terms = self._pool.totals
        average = max(terms, 1) / max(pieces, 1)
        begin = segment.first[chosen]
        end = begin + segment.pieces[chosen]
        t = np.zeros(int(first[-1] + segment.pieces[chosen[-1]]) + GAP, dtype=np.float32)
        for term in self._terms:
            place = term.places[number]
            if place is None:
                continue
            slots, counts = segment.postings(place)
            # Postings are in the order of slots, so those of a source are neighbours.
            left = slots.searchsorted(begin).astype(np.int32)
            found = slots.searchsorted(end).astype(np.int32) - left
            here = piece_slots(left, found)
            hits = slots[here]
            score = _bm25(counts[here], segment.lengths[hits], average, term.idf)
            t[hits + (first - begin).repeat(found)] += score
        return t / np.float32(self._idf_sum) if self._idf_sum else t

    def _compared(self, found: _Candidates) -> _Candidates:
        """Add what the vectors of the candidates are worth."""
        vectors = found.part.vectors
        if vectors is None or not len(found.slots):
            return found.taken(found.scores > 0)
        assert self._vectors is not None
        content_query, plain_query = self._vectors[0], self._vectors[1]
        means, counts = self._means, found.part.segment.pieces[found.chosen]
        is_near = np.zeros(int(found.first[-1] + counts[-1]) + GAP, dtype=np.bool_)
        for shift in (-2, -1, 0, 1, 2):
            is_near[found.slots + shift] = True
        every, every_owner = found.every
        is_taken = is_near[every]
        near, owners = every[is_taken], every_owner[is_taken]
        content = np.zeros(len(is_near), dtype=np.float32)
        similar = vectors.content.similarities(content_query, found.rows(near, owners))
        content[near] = _z(similar, *means["content"])
        scores = found.scores + np.float32(self._weights.content) * content[found.slots]
        for distance in (1, 2):
            beside = content[found.slots - distance] + content[found.slots + distance]
            scores += np.float32(self._weights.content_near) * beside
        rows = found.rows(found.slots, found.owners)
        plain = vectors.plain.similarities(plain_query, rows)
        scores += np.float32(self._weights.plain) * _z(plain, *means["plain"])
        whole = vectors.source.similarities(content_query, found.chosen)
        z = _z(whole, *means["source"])
        scores += np.float32(self._weights.source_vector) * z[found.owners]
        return replace(found, scores=scores)

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
        return {kind: _mean_and_deviation(values) for kind, values in similar.items()}


def _with_neighbours(t: "Floats") -> "Floats":
    """Add what the neighbours are worth; the gaps are as wide as neighbours count."""
    scores = t.copy()
    inner = slice(GAP, len(t) - GAP)
    for distance, weight in _NEAR:
        before = t[GAP - distance : len(t) - GAP - distance]
        after = t[GAP + distance : len(t) - GAP + distance]
        scores[inner] += np.float32(weight) * (before + after)
    return scores


def _best_candidates(found: Sequence[_Candidates]) -> list[_Candidates]:
    """Keep those whose vectors are compared, whichever part they are in; ties are all kept."""
    total = sum(len(entry.scores) for entry in found)
    if total <= EXACT_PIECES_MAX:
        return list(found)
    together = np.concatenate([entry.scores for entry in found])
    least = np.partition(together, total - COMPARED_PIECES_MAX)[total - COMPARED_PIECES_MAX]
    return [entry.taken(entry.scores >= least) for entry in found]


_Entry: TypeAlias = tuple[float, str, int]
"""The negative score, the source and the piece: entries sort as they are shown."""


def _ranked(parts: Iterable[Iterable[_Entry]], limit: int) -> list[RankedPiece]:
    entries = sorted(entry for part in parts for entry in part)
    return [
        RankedPiece(source_id=source_id, piece=piece, score=-score)
        for score, source_id, piece in entries[:limit]
    ]


def _pieces(found: _Candidates, limit: int) -> Iterable[_Entry]:
    scores = _rounded(found.scores)
    return _entries(found, scores, _at_least_best(scores, limit))


def _best_pieces(found: _Candidates, limit: int) -> Iterable[_Entry]:
    """Return the first of the best pieces of each source, for the best sources."""
    scores = _rounded(found.scores)
    if not len(scores):
        return []
    is_first = np.ones(len(scores), dtype=np.bool_)
    is_first[1:] = found.owners[1:] != found.owners[:-1]
    begins = is_first.nonzero()[0]
    best = np.maximum.reduceat(scores, begins)
    groups = is_first.cumsum() - 1
    firsts = (scores == best[groups]).nonzero()[0]
    places = groups[firsts].searchsorted(_at_least_best(best, limit))
    return _entries(found, scores, firsts[places])


def _rounded(scores: "Floats") -> "NDArray[np.float64]":
    """Sums of floats depend on their order in the last digits, which must not decide."""
    return scores.astype(np.float64).round(5)


def _at_least_best(scores: "NDArray[np.float64]", limit: int) -> "NDArray[np.int64]":
    """Return the places of the largest scores; ties are all taken."""
    if len(scores) <= limit:
        return np.arange(len(scores))
    least = np.partition(scores, len(scores) - limit)[len(scores) - limit]
    return np.flatnonzero(scores >= least)


def _entries(
    found: _Candidates, scores: "NDArray[np.float64]", places: "NDArray[np.int64]"
) -> Iterable[_Entry]:
    owners = found.owners[places]
    sources = found.chosen[owners].tolist()
    pieces = (found.slots[places] - found.first[owners]).tolist()
    source_ids = found.part.source_ids
    for score, source, piece in zip(scores[places].tolist(), sources, pieces, strict=True):
        yield -score, source_ids[source], piece


def _wanted_sources(part: PoolPart, wanted: Callable[[str], bool] | None) -> "NDArray[np.bool_]":
    if wanted is None:
        return part.live
    accepted = [
        bool(live) and wanted(source_id)
        for live, source_id in zip(part.live, part.source_ids, strict=True)
    ]
    return np.array(accepted, dtype=np.bool_)


def _bm25(counts: "Ints", lengths: "Ints", average: float, idf: float) -> "Floats":
    count = counts.astype(np.float32)
    norm = np.float32(K1 * (1 - B)) + np.float32(K1 * B / average) * lengths
    score = np.float32(idf * (K1 + 1)) * count / (count + norm)
    single: Floats = score.astype(np.float32)
    return single


def _mean_and_deviation(values: "Floats") -> tuple[float, float]:
    mean = float(values.sum()) / len(values)
    distance = values - np.float32(mean)
    return mean, (float(distance @ distance) / len(values)) ** 0.5


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
