"""How well notes fit a query, by the ranking of ``ctxmgr.search``. Needs NumPy; keeps an index.

    words     the lexical score of the note's best passage, divided by that of the best note
    vectors   the cosine of its most similar passage, 0 if that is negative

Notes of one folder are ranked as passages of one source, in the order of their names: what is
beside a note, and what its folder is about, counts for it, as turns of a session do. Notes of a
day, and those of large folders, stand alone.

The index is in memory. Notes that changed are added to it, so that a call costs what is new.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Final

import numpy as np

from ctxmgr.knowledge.compiler.scoring import SNIPPET_CHARS_MAX, NoteRelevance
from ctxmgr.knowledge.notes.layout import day_of
from ctxmgr.search.piece_vectors import content_words, embed_sources
from ctxmgr.search.pieces import Piece, SearchSource
from ctxmgr.search.ranking import FILL_BUDGET, PoolPart, SearchPool, rank
from ctxmgr.search.segment import build

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ctxmgr.knowledge.compiler.compiled import KnowledgeFile
    from ctxmgr.search.embedder import Embedder

GROUP_NOTES_MAX: Final = 64
"""Notes of a folder that are ranked together; in a larger one, being near says nothing."""

PARTS_MAX: Final = 16
"""Parts of the index; with more, it is built again."""

RANKED_MAX: Final = 2_000
"""Passages that are looked at; many more than fit a prompt."""


@dataclass(slots=True, eq=False)
class _Part:
    pool: PoolPart
    sources: list[SearchSource]
    places: list[list[str]]
    """For each source, the note of each piece."""


@dataclass(eq=False)
class NotePool:
    """A ``Relevance`` that remembers the notes of the last call."""

    embedder: Embedder | None = None
    _numbers: dict[str, int] = field(default_factory=dict)
    _texts: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """By source: the paths and texts of its notes."""
    _parts: list[_Part] = field(default_factory=list)

    def __call__(self, query: str, files: Sequence[KnowledgeFile]) -> Mapping[str, NoteRelevance]:
        self._update(files)
        wanted = {file.path for file in files}
        pool = SearchPool(parts=tuple(part.pool for part in self._parts), number=self._numbers.get)
        where = {
            source.source_id: (source, places)
            for part in self._parts
            for source, places, live in zip(
                part.sources, part.places, part.pool.live.tolist(), strict=True
            )
            if live
        }
        lexical: dict[str, float] = {}
        passages: dict[str, tuple[SearchSource, Piece]] = {}
        for found in rank(pool, query, limit=RANKED_MAX, weights=FILL_BUDGET):
            source, places = where[found.source_id]
            path = places[found.piece]
            if path in wanted and path not in lexical:
                lexical[path] = found.score
                passages[path] = (source, source.pieces[found.piece])
        similar = self._similar(query, wanted, passages)
        best = max(lexical.values(), default=0.0)
        return {
            path: NoteRelevance(
                bm25=lexical.get(path, 0.0) / best if best > 0 else 0.0,
                vector=similar.get(path, 0.0) if self.embedder is not None else None,
                snippet=self._snippet(path, *passages[path]),
            )
            for path in passages
        }

    def _similar(
        self,
        query: str,
        wanted: set[str],
        passages: dict[str, tuple[SearchSource, Piece]],
    ) -> dict[str, float]:
        """Return the similarity of each note; note the passage of those without a common word."""
        if self.embedder is None:
            return {}
        vector = self.embedder.embed([content_words(query, frozenset())]).rows[0]
        similar: dict[str, float] = {}
        for part in self._parts:
            assert part.pool.vectors is not None
            cosines = part.pool.vectors.content.similarities(vector).tolist()
            row = 0
            for source, places, live in zip(
                part.sources, part.places, part.pool.live.tolist(), strict=True
            ):
                for piece, path in zip(source.pieces, places, strict=True):
                    cosine = cosines[row]
                    row += 1
                    if live and path in wanted and cosine > similar.get(path, 0.0):
                        similar[path] = cosine
                        passages.setdefault(path, (source, piece))
        return similar

    def _snippet(self, path: str, source: SearchSource, piece: Piece) -> str:
        """Return the note from its best passage on; a short note whole."""
        start, end = self._extent(path, source)
        if end - start > SNIPPET_CHARS_MAX:
            start = max(start, min(piece.start, end - SNIPPET_CHARS_MAX))
        return source.text[start : min(end, start + SNIPPET_CHARS_MAX)]

    def _extent(self, path: str, source: SearchSource) -> tuple[int, int]:
        start = 0
        for each, text in self._texts[source.source_id]:
            if each == path:
                return start, start + len(text)
            start += len(text) + 1
        raise AssertionError(path)

    def _update(self, files: Iterable[KnowledgeFile]) -> None:
        """Index what changed since the last call."""
        wanted = dict(_grouped(files))
        if len(self._parts) >= PARTS_MAX:
            self._texts, self._parts, self._numbers = {}, [], {}
        changed = [key for key, notes in wanted.items() if self._texts.get(key) != notes]
        stale = {*changed, *(self._texts.keys() - wanted.keys())}
        if not stale:
            return
        for part in self._parts:
            for index, source_id in enumerate(part.pool.source_ids):
                if source_id in stale:
                    part.pool.live[index] = False
            part.pool = _copied(part.pool)
        self._texts = wanted
        if changed:
            self._parts.append(self._built({key: wanted[key] for key in changed}))

    def _built(self, groups: Mapping[str, tuple[tuple[str, str], ...]]) -> _Part:
        def term_ids(terms: Iterable[str]) -> Mapping[str, int]:
            for term in sorted(terms):
                self._numbers.setdefault(term, len(self._numbers) + 1)
            return self._numbers

        sources, places = [], []
        for key, notes in groups.items():
            source, whose = _source(key, notes)
            sources.append(source)
            places.append(whose)
        pool = PoolPart(
            segment=build(sources, term_ids),
            source_ids=[source.source_id for source in sources],
            live=np.ones(len(sources), dtype=np.bool_),
            vectors=None if self.embedder is None else embed_sources(sources, self.embedder),
        )
        return _Part(pool, sources, places)


def _copied(part: PoolPart) -> PoolPart:
    """Return a part without what it has cached about its live sources."""
    return PoolPart(
        segment=part.segment, source_ids=part.source_ids, live=part.live, vectors=part.vectors
    )


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


def _source(key: str, notes: Sequence[tuple[str, str]]) -> tuple[SearchSource, list[str]]:
    """Join notes to one source, and say which piece belongs to which note."""
    texts: list[str] = []
    pieces: list[Piece] = []
    whose: list[str] = []
    start = 0
    for path, text in notes:
        note = SearchSource.from_text(text, source_id=path, category="")
        if len(text) <= SNIPPET_CHARS_MAX:
            cut = [Piece(start=0, end=len(text))]
        else:
            cut = list(note.pieces)
        for piece in cut:
            pieces.append(Piece(start=start + piece.start, end=start + piece.end))
            whose.append(path)
        texts.append(text)
        start += len(text) + 1
    day = day_of(notes[0][0]) if len(notes) == 1 else None
    source = SearchSource(
        source_id=key, category="", text="\n".join(texts), pieces=tuple(pieces), day=day
    )
    return source, whose
