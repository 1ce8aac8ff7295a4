"""How well notes fit a query, by the ranking of ``ctxmgr.search``. Needs NumPy; keeps an index.

    words     the lexical score of the note's best passage
    vectors   the similarity of its most similar passage: the cosines of the passage, with and
              without stop words, of the two on each side, and of its folder

Each is taken as its distance above the mean of all notes in standard deviations, divided by the
largest of both sides: what stands out by its words or by its meaning has 1, the average note 0.
Otherwise one rare word would outweigh every meaning, and a plain question every word. In the
question's vector for passages, a word counts as much as it tells them apart.

Notes of one folder are ranked as passages of one source, in the order of their names: what is
beside a note, and what its folder is about, counts for it, as turns of a session do. Notes of a
day, and those of large folders, stand alone.

The index is in memory. Notes that changed are added to it, so that a call costs what is new.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress, groupby
from typing import TYPE_CHECKING, Final

import numpy as np

from ctxmgr.knowledge.compiler.scoring import SNIPPET_CHARS_MAX, NoteRelevance
from ctxmgr.knowledge.notes.layout import day_of
from ctxmgr.search.embedder import WordEmbedder
from ctxmgr.search.piece_vectors import PieceVectors, content_words, embed_sources, join
from ctxmgr.search.pieces import Piece, SearchSource
from ctxmgr.search.ranking import RankWeights, rank
from ctxmgr.search.search_pool import PoolPart, SearchPool
from ctxmgr.search.segment import build, english_stem, merge, piece_slots

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ctxmgr.knowledge.compiler.compiled import KnowledgeFile
    from ctxmgr.search.embedder import Embedder
    from ctxmgr.search.segment import Floats, Ints

GROUP_NOTES_MAX: Final = 64
"""Notes of a folder that are ranked together; in a larger one, being near says nothing."""

MERGE_FACTOR: Final = 4
"""A part is joined with newer ones unless it has at least as many times their sources."""

RANKED_MAX: Final = 1_000
"""Passages that are looked at; many more than fit a prompt."""

WEIGHTS: Final = RankWeights(source=1.0)
"""Of words: notes of one folder are less alike than the turns of a session."""

UNRELATED_NOTES: Final = 10
"""Notes without any likeness that are added to the mean, so that a few notes have one, too."""

DEVIATION_MIN: Final = 0.05
"""Of either side: with less, the notes are alike."""

HEIGHT_FULL: Final = 3.0
"""Standard deviations above the mean that count as 1, if no note is higher."""

CONTENT, PLAIN, FOLDER, BESIDE = 0.45, 0.25, 0.15, 0.0375
"""What cosines are worth for a passage: its own without stop words and with them, that of its
folder, and that of each of four neighbours, in the proportions of ``ctxmgr.search.ranking``."""


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """Where a note is in the index."""

    path: str
    source: SearchSource
    pieces: range
    """Of the source."""
    start: int
    end: int
    """Of the note in the source's text."""


@dataclass(frozen=True, eq=False)
class _Part:
    pool: PoolPart
    places: list[_Place]
    """In the order of the pieces."""

    @cached_property
    def first(self) -> Ints:
        """The row of each note's first piece."""
        sizes = [0, *(len(place.pieces) for place in self.places)]
        return np.cumsum(sizes, dtype=np.int32)[:-1]

    @cached_property
    def paths(self) -> list[str]:
        return [place.path for place in self.places]

    @cached_property
    def live_sources(self) -> set[str]:
        """The sources that are still as they were."""
        return set(compress(self.pool.source_ids, self.pool.live.tolist()))

    @cached_property
    def live(self) -> list[bool]:
        """Whether each note is still as it was."""
        return [place.source.source_id in self.live_sources for place in self.places]

    @cached_property
    def live_numbers(self) -> dict[str, int]:
        """Where each note is among the places."""
        return {path: number for number, path in enumerate(self.paths) if self.live[number]}

    @cached_property
    def all_live(self) -> bool:
        return all(self.live)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _AskedVectors:
    """The vectors of a query."""

    telling: Floats
    """Without stop words; a word counts as much as it tells passages apart."""
    content: Floats
    """Without stop words."""
    plain: Floats


@dataclass(frozen=True, slots=True, eq=False)
class _Similar:
    """How similar a query is to passages."""

    parts: Sequence[_Part]
    rows: Sequence[Floats]
    """For each part, the similarity of every passage."""
    best: Mapping[str, float]
    """The highest of each note."""

    def passage(self, path: str) -> str:
        """Return the passage of a note that is most similar."""
        for part, similar in zip(self.parts, self.rows, strict=True):
            number = part.live_numbers.get(path)
            if number is not None:
                place, first = part.places[number], part.first[number]
                best = int(np.argmax(similar[first : first + len(place.pieces)]))
                return _snippet(place, place.pieces[best])
        raise AssertionError(path)


@dataclass(eq=False)
class NotePool:
    """A ``Relevance`` that remembers the notes of the last call."""

    embedder: Embedder | None = None
    _numbers: dict[str, int] = field(default_factory=dict)
    _texts: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """By source: the paths and texts of its notes."""
    _parts: list[_Part] = field(default_factory=list)
    _files: Sequence[KnowledgeFile] = ()
    _pool: SearchPool | None = None
    _places: dict[tuple[str, int], _Place] = field(default_factory=dict)
    """By source and piece."""

    def __call__(self, query: str, files: Sequence[KnowledgeFile]) -> Mapping[str, NoteRelevance]:
        self._update(files)
        assert self._pool is not None
        lexical: dict[str, float] = {}
        passages: dict[str, tuple[_Place, int]] = {}
        for found in rank(self._pool, query, limit=RANKED_MAX, weights=WEIGHTS):
            place = self._places[found.source_id, found.piece]
            if place.path not in lexical:
                lexical[place.path] = found.score
                passages[place.path] = (place, found.piece)
        if self.embedder is None:
            best = max(lexical.values(), default=0.0) or 1.0

            def passage(path: str) -> str:
                return _snippet(*passages[path])

            return {
                path: NoteRelevance(score / best, None, passage) for path, score in lexical.items()
            }
        similar = self._similar(query, self.embedder)

        def similar_passage(path: str) -> str:
            found = passages.get(path)
            return _snippet(*found) if found is not None else similar.passage(path)

        by_words = _heights(lexical.get(path, 0.0) for path in similar.best)
        by_meaning = _heights(similar.best.values())
        full = max(HEIGHT_FULL, *by_words, *by_meaning)
        return {
            path: NoteRelevance(words / full, meaning / full, similar_passage)
            for path, words, meaning in zip(similar.best, by_words, by_meaning, strict=True)
        }

    def _similar(self, query: str, embedder: Embedder) -> _Similar:
        """Compare the query with every passage."""
        asked = self._embedded(query, embedder)
        rows: list[Floats] = []
        best: dict[str, float] = {}
        for part in self._parts:
            similar = _similarities(part.pool, asked)
            rows.append(similar)
            highest = np.maximum.reduceat(similar, part.first).tolist()
            if part.all_live:
                best.update(zip(part.paths, highest, strict=True))
            else:
                best.update(compress(zip(part.paths, highest, strict=True), part.live))
        return _Similar(self._parts, rows, best)

    def _embedded(self, query: str, embedder: Embedder) -> _AskedVectors:
        words = content_words(query)
        content, plain = embedder.embed([words, query]).rows
        if not isinstance(embedder, WordEmbedder):
            return _AskedVectors(telling=content, content=content, plain=plain)
        assert self._pool is not None
        weights = {word: self._pool.stem_idf(english_stem(word)) for word in words.split()}
        return _AskedVectors(
            telling=embedder.embed_words(weights).rows[0], content=content, plain=plain
        )

    def _update(self, files: Sequence[KnowledgeFile]) -> None:
        """Index what changed since the last call."""
        if len(files) == len(self._files) and all(map(operator.is_, files, self._files)):
            return
        self._files = tuple(files)  # the caller may change its list
        wanted = dict(_grouped(files))
        changed = {key for key, notes in wanted.items() if self._texts.get(key) != notes}
        stale = changed | (self._texts.keys() - wanted.keys())
        if not stale and self._pool is not None:
            return
        self._parts = [_without(part, stale) for part in self._parts]
        self._texts = wanted
        if changed:
            newest = [self._built({key: wanted[key] for key in sorted(changed)})]
            count = len(changed)
            while self._parts and len(self._parts[-1].live_sources) < MERGE_FACTOR * count:
                newest.insert(0, self._parts.pop())
                count += len(newest[0].live_sources)
            self._parts.append(_joined([part for part in newest if part.live_sources]))
        self._pool = SearchPool(
            parts=tuple(part.pool for part in self._parts), number=self._numbers.get
        )
        self._places = {
            (place.source.source_id, piece): place
            for part in self._parts
            for place in compress(part.places, part.live)
            for piece in place.pieces
        }

    def _built(self, groups: Mapping[str, tuple[tuple[str, str], ...]]) -> _Part:
        def term_ids(terms: Iterable[str]) -> Mapping[str, int]:
            for term in sorted(terms):
                self._numbers.setdefault(term, len(self._numbers) + 1)
            return self._numbers

        sources: list[SearchSource] = []
        places: list[_Place] = []
        for key, notes in groups.items():
            source, its_places = _source(key, notes)
            sources.append(source)
            places += its_places
        pool = PoolPart(
            segment=build(sources, term_ids),
            source_ids=[source.source_id for source in sources],
            live=np.ones(len(sources), dtype=np.bool_),
            vectors=None if self.embedder is None else embed_sources(sources, self.embedder),
        )
        return _Part(pool, places)


def _joined(parts: Sequence[_Part]) -> _Part:
    """Make one part of several, of what is live in them. Nothing is embedded again."""
    if len(parts) == 1:
        return parts[0]
    vectors: list[tuple[PieceVectors, Ints, Ints]] = []
    for part in parts:
        segment, live = part.pool.segment, part.pool.live
        if part.pool.vectors is not None:
            first = (np.cumsum(segment.pieces) - segment.pieces).astype(np.int32)
            rows = piece_slots(first[live], segment.pieces[live])
            vectors.append((part.pool.vectors, rows, np.flatnonzero(live).astype(np.int32)))
    source_ids = [
        source for part in parts for source in compress(part.pool.source_ids, part.pool.live)
    ]
    pool = PoolPart(
        segment=merge([(part.pool.segment, part.pool.live) for part in parts]),
        source_ids=source_ids,
        live=np.ones(len(source_ids), dtype=np.bool_),
        vectors=join(vectors) if vectors else None,
    )
    return _Part(pool, [place for part in parts for place in compress(part.places, part.live)])


def _heights(values: Iterable[float]) -> list[float]:
    """Return how far each value is above the mean, in standard deviations; 0 if it is below."""
    heights = np.fromiter(values, dtype=np.float64)
    count = len(heights) + UNRELATED_NOTES
    mean = heights.sum() / count
    deviation = max(DEVIATION_MIN, ((heights @ heights) / count - mean * mean) ** 0.5)
    above: list[float] = np.maximum((heights - mean) / deviation, 0.0).tolist()
    return above


def _similarities(part: PoolPart, asked: _AskedVectors) -> Floats:
    """Return how similar each passage is to a query."""
    assert part.vectors is not None
    cosines = part.vectors.content.similarities(asked.telling)
    folders = part.vectors.source.similarities(asked.content)
    owners = np.repeat(np.arange(len(part.segment.pieces)), part.segment.pieces)
    similar: Floats = np.float32(CONTENT) * cosines + np.float32(FOLDER) * folders[owners]
    similar += np.float32(PLAIN) * part.vectors.plain.similarities(asked.plain)
    worth = np.full(len(similar), CONTENT + FOLDER + PLAIN, dtype=np.float32)
    for distance in (1, 2):
        beside = np.float32(BESIDE) * (owners[distance:] == owners[:-distance])
        similar[distance:] += beside * cosines[:-distance]
        similar[:-distance] += beside * cosines[distance:]
        worth[distance:] += beside
        worth[:-distance] += beside
    similar /= worth  # a note that stands alone is not worth less
    return similar


def _without(part: _Part, stale: set[str]) -> _Part:
    """Return a part in which some sources are not live any more."""
    live = np.array(
        [
            alive and source_id not in stale
            for source_id, alive in zip(part.pool.source_ids, part.pool.live, strict=True)
        ],
        dtype=np.bool_,
    )
    return _Part(replace(part.pool, live=live), part.places)


def _grouped(files: Iterable[KnowledgeFile]) -> Iterable[tuple[str, tuple[tuple[str, str], ...]]]:
    """Yield the sources, each with the paths and texts of its notes."""
    for folder, group in groupby(sorted(files, key=_place), key=_folder):
        notes = [(file.path, file.text) for file in group]
        if len(notes) > GROUP_NOTES_MAX or any(day_of(path) for path, _ in notes):
            yield from ((path, ((path, text),)) for path, text in notes)
        else:
            yield f"{folder}/", tuple(notes)


def _place(file: KnowledgeFile) -> tuple[str, str]:
    return _folder(file), file.path


def _folder(file: KnowledgeFile) -> str:
    return file.path.rpartition("/")[0]


def _source(key: str, notes: Sequence[tuple[str, str]]) -> tuple[SearchSource, list[_Place]]:
    """Join notes to one source, and say which pieces belong to which note."""
    pieces: list[Piece] = []
    extents: list[tuple[str, range, int, int]] = []
    start = 0
    for path, text in notes:
        cut: Sequence[Piece] = (Piece(start=0, end=len(text)),)
        if len(text) > SNIPPET_CHARS_MAX:
            cut = SearchSource.from_text(text, source_id=path, category="").pieces
        numbers = range(len(pieces), len(pieces) + len(cut))
        pieces += (Piece(start=start + each.start, end=start + each.end) for each in cut)
        extents.append((path, numbers, start, start + len(text)))
        start += len(text) + 1
    source = SearchSource(
        source_id=key,
        category="",
        text="\n".join(text for _, text in notes),
        pieces=tuple(pieces),
        day=day_of(notes[0][0]) if len(notes) == 1 else None,
    )
    places = [_Place(path, source, numbers, begin, end) for path, numbers, begin, end in extents]
    return source, places


def _snippet(place: _Place, piece: int) -> str:
    """Return the note from its best passage on; a short note whole."""
    start = place.start
    if place.end - start > SNIPPET_CHARS_MAX:
        begin = place.source.pieces[piece].start
        start = max(start, min(begin, place.end - SNIPPET_CHARS_MAX))
    return place.source.text[start : min(place.end, start + SNIPPET_CHARS_MAX)]
