"""Tier 2: how similar a message is to a topic, without a model. No I/O.

    TF-IDF cosine   message and topic as weighted terms; topic vectors are computed once
    BM25            the part of what the message says that the topic covers
    Jaccard         shared terms of the message and the topic's short text
    MinHash         shared character 3-grams of the same, which endings and typos hardly change
    sentiment       for topics that name a mood: how strongly the message has it

The first four are averaged with ``WEIGHTS`` over those that are switched on; the mood, where it
counts, can only raise a score. All are 0 to 1.
"""

import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import Final

from ctxmgr.knowledge.topics.signals import mood
from ctxmgr.knowledge.topics.switches import ALL_ON, WatcherSwitches
from ctxmgr.knowledge.topics.topic import SIMILARITY_THRESHOLD, Topic
from ctxmgr.search.terms import terms

FEATURES_MAX: Final = 5_000
"""Terms of the vocabulary (002-R100)."""

MESSAGE_CHARS_MAX: Final = 4_000
"""Of a message that is scored. What it is about is said at its beginning."""

WEIGHTS: Final[Mapping[str, float]] = {"tfidf": 0.5, "bm25": 0.3, "jaccard": 0.1, "minhash": 0.1}
"""Chosen on the half of the labelled messages that is not used for testing."""

UNKNOWN_SHARE: Final = 0.25
"""The weight of a term that no topic has, as a part of the greatest weight: a message that is
mostly about something else scores lower, and a long one is not lost. Chosen as ``WEIGHTS``."""

KEYWORDS_DERIVED: Final = 8
"""Keywords of a topic that names none (002-A10)."""

BINS: Final = 128
"""Of a MinHash fingerprint: an error of about 0.04 for texts that share a tenth."""

_K1: Final = 1.2
_B: Final = 0.75
_MIX: Final = 0x9E3779B1
_SPACES: Final = re.compile(r"[^\w]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarityDetails:
    """The score of each algorithm; None for one that was not used."""

    tfidf: float | None
    bm25: float | None
    jaccard: float | None
    minhash: float | None
    sentiment: float | None


class SimilarityScorer:
    """The texts of all topics, prepared once."""

    def __init__(
        self,
        topics: Sequence[Topic],
        *,
        threshold: float = SIMILARITY_THRESHOLD,
        switches: WatcherSwitches = ALL_ON,
    ) -> None:
        self._topics = {topic.name: topic for topic in topics}
        self._threshold = threshold
        self._switches = switches
        used = [weight for name, weight in WEIGHTS.items() if getattr(switches, name)]
        self._weight = sum(used) or 1.0
        """Of all algorithms that are switched on."""
        counts = {topic.name: Counter(terms(topic.text)) for topic in topics}
        self._weights = term_weights(counts.values())
        self._unknown = UNKNOWN_SHARE * (log(1 + len(topics)) + 1)
        self._short = {topic.name: frozenset(terms(topic.short_text)) for topic in topics}
        self._places: dict[str, int] = {}
        self._bins: dict[int, list[str]] = defaultdict(list)
        """Bins of fingerprints, and the topics that have them."""
        for topic in topics:
            printed = fingerprint(topic.short_text)
            self._places[topic.name] = _places(printed)
            for each in printed:
                self._bins[each].append(topic.name)
        self._cosine: dict[str, list[tuple[str, float]]] = defaultdict(list)
        self._coverage: dict[str, list[tuple[str, float]]] = defaultdict(list)
        """Terms, and what they add to the score of each topic that has them."""
        for name, counted in counts.items():
            for term, weight in self._vector(counted).items():
                self._cosine[term].append((name, weight))
        for name, weighted in self._bm25_weights(counts).items():
            for term, weight in weighted.items():
                self._coverage[term].append((name, weight))

    def threshold_of(self, topic: Topic) -> float:
        own = topic.similarity_threshold
        return self._threshold if own is None else own

    def score(self, text: str, candidates: Collection[str]) -> list[tuple[Topic, float]]:
        """Return the candidates that reach their threshold, best first. No candidates: nothing."""
        scored = self.scores_of(self.details(text, candidates))
        passed = [
            (self._topics[name], score)
            for name, score in scored.items()
            if score >= self.threshold_of(self._topics[name])
        ]
        return sorted(passed, key=lambda each: (-each[1], each[0].name))

    def scores_of(self, details: Mapping[str, SimilarityDetails]) -> dict[str, float]:
        """Combine the scores of the algorithms."""
        return {name: self._combined(each) for name, each in details.items()}

    def details(self, text: str, candidates: Collection[str]) -> dict[str, SimilarityDetails]:
        """Return the scores of every algorithm."""
        names = [name for name in candidates if name in self._topics]
        if not names:
            return {}
        text = text[:MESSAGE_CHARS_MAX]
        counted = Counter(terms(text))
        use = self._switches
        cosine = self._cosines(counted) if use.tfidf else {}
        covered = self._covered(counted) if use.bm25 else {}
        said = frozenset(counted)
        shared = self._shared_bins(text) if use.minhash else {}
        moods = use.sentiment and any(self._topics[name].sentiment for name in names)
        felt = mood(text) if moods else 0.0
        return {
            name: SimilarityDetails(
                tfidf=cosine.get(name, 0.0) if use.tfidf else None,
                bm25=covered.get(name, 0.0) if use.bm25 else None,
                jaccard=_overlap(said, self._short[name]) if use.jaccard else None,
                minhash=shared.get(name, 0.0) if use.minhash else None,
                sentiment=_intensity(felt, self._topics[name].sentiment) if moods else None,
            )
            for name in names
        }

    def _cosines(self, counted: Mapping[str, int]) -> dict[str, float]:
        found: dict[str, float] = defaultdict(float)
        for term, weight in self._vector(counted).items():
            for name, other in self._cosine.get(term, ()):
                found[name] += weight * other
        return found

    def _covered(self, counted: Mapping[str, int]) -> dict[str, float]:
        """Return BM25 as a share of what a topic that says everything would reach."""
        most = sum(self._weights.get(term, self._unknown) * (_K1 + 1) for term in counted)
        found: dict[str, float] = defaultdict(float)
        for term in counted:
            for name, weight in self._coverage.get(term, ()):
                found[name] += weight / most
        return found

    def _shared_bins(self, text: str) -> dict[str, float]:
        """Estimate the Jaccard index of 3-grams: bins that agree, of those that either text has."""
        printed = fingerprint(text)
        agreeing = Counter(name for each in printed for name in self._bins.get(each, ()))
        places = _places(printed)
        return {
            name: count / (places | self._places[name]).bit_count()
            for name, count in agreeing.items()
        }

    def _combined(self, details: SimilarityDetails) -> float:
        mean = (
            WEIGHTS["tfidf"] * (details.tfidf or 0.0)
            + WEIGHTS["bm25"] * (details.bm25 or 0.0)
            + WEIGHTS["jaccard"] * (details.jaccard or 0.0)
            + WEIGHTS["minhash"] * (details.minhash or 0.0)
        ) / self._weight
        return max(mean, details.sentiment or 0.0)

    def _vector(self, counted: Mapping[str, int]) -> dict[str, float]:
        """Return terms with weights, of length 1; terms of no topic only make it longer."""
        length = 0.0
        found: dict[str, float] = {}
        for term, times in counted.items():
            weight = (1 + log(times)) * self._weights.get(term, self._unknown)
            length += weight * weight
            if term in self._weights:
                found[term] = weight
        norm = sqrt(length) or 1.0
        return {term: weight / norm for term, weight in found.items()}

    def _bm25_weights(self, counts: Mapping[str, Counter[str]]) -> dict[str, dict[str, float]]:
        sizes = {name: sum(counted.values()) for name, counted in counts.items()}
        mean = sum(sizes.values()) / len(sizes) if sizes else 1.0
        weighted: dict[str, dict[str, float]] = {}
        for name, counted in counts.items():
            longer = _K1 * (1 - _B + _B * sizes[name] / (mean or 1.0))
            weighted[name] = {
                term: self._weights[term] * times * (_K1 + 1) / (times + longer)
                for term, times in counted.items()
                if term in self._weights
            }
        return weighted


def term_weights(counts: Collection[Mapping[str, int]]) -> dict[str, float]:
    """Return the inverse document frequency of the most frequent terms."""
    holding: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for counted in counts:
        holding.update(counted.keys())
        total.update(counted)
    kept = sorted(total, key=lambda term: (-total[term], term))[:FEATURES_MAX]
    return {term: log((1 + len(counts)) / (1 + holding[term])) + 1 for term in kept}


def derived_keywords(topics: Sequence[Topic]) -> dict[str, tuple[str, ...]]:
    """Return the terms of the highest TF-IDF for each topic without keywords, by name."""
    counts = {topic.name: Counter(terms(topic.text)) for topic in topics}
    weights = term_weights(counts.values())
    return {
        topic.name: tuple(_highest(counts[topic.name], weights)[:KEYWORDS_DERIVED])
        for topic in topics
        if not topic.keywords
    }


def fingerprint(text: str) -> frozenset[int]:
    """Return the MinHash of a text's character 3-grams: the least hash of each bin.

    One hash function with bins estimates the same as one function per bin, and takes one pass.
    """
    plain = f" {_SPACES.sub(' ', text.lower()).strip()} "
    least: dict[int, int] = {}
    for gram in {plain[start : start + 3] for start in range(len(plain) - 2)}:
        hashed = zlib.crc32(gram.encode(errors="replace")) * _MIX & 0xFFFF_FFFF
        place = hashed % BINS
        if hashed < least.get(place, 1 << 32):
            least[place] = hashed
    return frozenset(least.values())


def _places(printed: frozenset[int]) -> int:
    """Return the bins that a fingerprint has, as bits; a hash says which bin it is of."""
    bits = 0
    for hashed in printed:
        bits |= 1 << hashed % BINS
    return bits


def _highest(counted: Mapping[str, int], weights: Mapping[str, float]) -> list[str]:
    def weight(term: str) -> tuple[float, str]:
        return -counted[term] * weights.get(term, 0.0), term

    return sorted(counted, key=weight)


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared) if shared else 0.0


def _intensity(felt: float, wanted: str | None) -> float:
    if wanted is None:
        return 0.0
    return max(0.0, -felt if wanted == "negative" else felt)
