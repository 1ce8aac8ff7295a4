"""Score text against the names and glosses of a concept pack. Reads the pack once.

No model runs. Three signals, each 0 to 1, are combined as independent evidence:

    name     a word or phrase for the concept is in the text: the share of that word's uses
    gloss    words of the concept's definition are in the text: their part of its weight
    vector   the static vectors of text and definition point the same way (needs an embedder)

    score = 1 - (1 - NAME·name)(1 - GLOSS·gloss)(1 - VECTOR·vector)

Rare words weigh more (inverse document frequency over the pack's glosses).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from ctxmgr.errors import Corrupt
from ctxmgr.experience.concepts.write_pack import lens_text
from ctxmgr.experience.lenses.lens import Moment, highest
from ctxmgr.search.embedder import Vectors
from ctxmgr.search.terms import STOP_WORDS, stem, terms, words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctxmgr.experience.concepts.graph import ConceptGraph, LensEntry
    from ctxmgr.search.embedder import Embedder

NAME: Final = 0.9
GLOSS: Final = 0.4
VECTOR: Final = 0.8
VECTOR_ALONE: Final = 0.2
"""How certain each signal is. A vector counts less for a concept that the text does not name.
Chosen on half of WordNet's example sentences."""

GLOSS_EXTRA_TERMS: Final = 2
"""Rare words that each gloss has beyond its own, so that two words do not fulfil a definition of
two words."""

SIMILARITY_MIN: Final = 0.25
SIMILARITY_FULL: Final = 0.75
"""Cosines of unrelated texts are below the first; the signal is 1 from the second on."""

COMMON_TERM_SHARE: Final = 0.02
"""A term in more of the glosses than this says nothing about any of them."""

SCORE_MIN: Final = 0.05
"""Lower scores are left out."""

SCORES_MAX: Final = 200
"""Concepts per moment: the highest."""

WINDOW_WORDS: Final = 48
"""Words of a text that count, from its end: what was said long ago is another moment's concern."""

TEXT_CHARS_MAX: Final = 4_000
"""Characters before the end in which those words are looked for."""

PHRASE_WORDS_MAX: Final = 4
"""Longer names are found by their gloss only."""


class GlossLens:
    """A ``Lens`` that needs no model weights."""

    def __init__(self, graph: ConceptGraph, *, embedder: Embedder | None = None) -> None:
        entries = graph.primaries()
        self.name = f"gloss:{graph.manifest.name}"
        self._ids = [entry.concept.concept_id for entry in entries]
        self._names = _index_names(entries)
        self._glosses = _index_glosses(entries)
        self._embedder = embedder
        self._vectors = None if embedder is None else _vectors(graph, entries, embedder)

    def score(self, moment: Moment) -> Mapping[str, float]:
        window = words(moment.text[-TEXT_CHARS_MAX:])[-WINDOW_WORDS:]
        if not window:
            return {}
        text = " ".join(window)
        missing: defaultdict[int, float] = defaultdict(lambda: 1.0)
        named = self._named(window)
        for concept, share in named.items():
            missing[concept] *= 1 - NAME * share
        for concept, part in self._described(window).items():
            missing[concept] *= 1 - GLOSS * min(part, 1.0)
        for concept, closeness in self._similar(text).items():
            weight = VECTOR if concept in named else VECTOR_ALONE
            missing[concept] *= 1 - weight * closeness
        scores = {
            self._ids[concept]: round(1 - rest, 4)
            for concept, rest in missing.items()
            if 1 - rest >= SCORE_MIN
        }
        return highest(scores, SCORES_MAX)

    def _named(self, window: Sequence[str]) -> dict[int, float]:
        found: dict[int, float] = {}
        stems = [stem(word) for word in window]
        for start in range(len(stems)):
            for length in range(1, PHRASE_WORDS_MAX + 1):
                phrase = tuple(stems[start : start + length])
                for concept, share in self._names.get(phrase, ()):
                    found[concept] = max(share, found.get(concept, 0.0))
        return found

    def _described(self, window: Sequence[str]) -> dict[int, float]:
        found: defaultdict[int, float] = defaultdict(float)
        for term in {stem(word): None for word in window if word not in STOP_WORDS}:
            for concept, part in self._glosses.get(term, ()):
                found[concept] += part
        return found

    def _similar(self, text: str) -> dict[int, float]:
        if self._embedder is None or self._vectors is None:
            return {}
        similarity = self._vectors.similarities(self._embedder.embed([text]))
        close = (similarity > SIMILARITY_MIN).nonzero()[0]
        scaled = (similarity[close] - SIMILARITY_MIN) / (SIMILARITY_FULL - SIMILARITY_MIN)
        return {
            int(concept): min(float(value), 1.0)
            for concept, value in zip(close, scaled, strict=True)
        }


def _index_names(entries: Sequence[LensEntry]) -> dict[tuple[str, ...], list[tuple[int, float]]]:
    index: defaultdict[tuple[str, ...], list[tuple[int, float]]] = defaultdict(list)
    for number, entry in enumerate(entries):
        for name, share in entry.names:
            parts = words(name)
            if 1 <= len(parts) <= PHRASE_WORDS_MAX and not STOP_WORDS.issuperset(parts):
                index[tuple(stem(part) for part in parts)].append((number, share))
    return dict(index)


def _index_glosses(entries: Sequence[LensEntry]) -> dict[str, list[tuple[int, float]]]:
    """Return for each term the concepts whose gloss has it, and its part of the gloss's weight."""
    glosses = [dict.fromkeys(terms(entry.concept.gloss)) for entry in entries]
    counts = Counter(term for gloss in glosses for term in gloss)
    common = max(1, int(COMMON_TERM_SHARE * len(entries)))
    idf = {
        term: math.log(1 + len(entries) / count)
        for term, count in counts.items()
        if count <= common or len(entries) < 1 / COMMON_TERM_SHARE
    }
    extra = GLOSS_EXTRA_TERMS * math.log(1 + len(entries))
    index: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for number, gloss in enumerate(glosses):
        total = extra + sum(idf.get(term, 0.0) for term in gloss)
        for term in gloss:
            if term in idf:
                index[term].append((number, idf[term] / total))
    return dict(index)


def _vectors(graph: ConceptGraph, entries: Sequence[LensEntry], embedder: Embedder) -> Vectors:
    """Return the concepts' vectors: those stored with the pack if this embedder made them."""
    import numpy as np  # noqa: PLC0415 -- an embedder needs it, a lens without one does not

    rows = graph.primary_vectors()
    if not rows or any(row[1] != embedder.name for row in rows) or len(rows) != len(entries):
        texts = [lens_text(entry.concept.name, entry.concept.gloss) for entry in entries]
        return embedder.embed(texts)
    matrix = np.zeros((len(entries), embedder.dimension), dtype=np.float32)
    for index, (entry, (number, _, dimension, body)) in enumerate(zip(entries, rows, strict=True)):
        if (
            number != entry.number
            or dimension != embedder.dimension
            or not isinstance(body, bytes)
            or len(body) != 2 * embedder.dimension
        ):
            raise Corrupt(f"the pack {graph.manifest.name} has an invalid vector for {number!r}")
        matrix[index] = np.frombuffer(body, dtype="<f2")
    if not np.isfinite(matrix).all():
        raise Corrupt(f"the pack {graph.manifest.name} has vectors that are not finite")
    return Vectors(embedder=embedder.name, rows=matrix)
