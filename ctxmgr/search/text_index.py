"""A search index in a file: sources, and segments for the ranking. Touches the file; needs NumPy.

    put, remove ─► source rows ─► a new segment ─► merged with the one before, if that is not larger
    search ──────► segments that are not loaded yet ─► rank ─► pieces with their text

The index is derived data and may be deleted at any time. Several processes may use one file: a
write is one transaction, and a search sees the index as of one moment. Segments do not change, so
a process loads each once. Scores do not depend on the segments: an index after any changes ranks
like one that was built from the same sources at once.

Vectors are added later (``embed_missing``), so that text can be found before it is embedded.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import orjson

from ctxmgr.errors import Corrupt, Incorrect
from ctxmgr.search.documents import SearchResult
from ctxmgr.search.piece_vectors import PieceVectors, embed_sources, join
from ctxmgr.search.pieces import Piece, SearchSource
from ctxmgr.search.ranking import (
    BEST_SOURCES,
    PoolPart,
    RankWeights,
    SearchPool,
    rank_sources,
)
from ctxmgr.search.segment import SPEAKER_NONE, PoolSegment, build, merge, piece_slots
from ctxmgr.stores.layer_file import LayerFile, LayerLayout
from ctxmgr.stores.sqlite.connection import statements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ctxmgr.search.embedder import Embedder
    from ctxmgr.stores.layer_file import SqlConnection

MERGE_FACTOR: Final = 4
"""A segment is merged with the one before unless that has at least as many times its pieces."""

EMBED_SOURCES: Final = 256
"""Sources that are embedded at once, which bounds the memory."""

RESULTS_MAX: Final = 1_000
"""In the result of one search."""

_LAYOUT: Final = LayerLayout(
    application_id=0x63747866,  # ``ctxf``
    migrations=Path(__file__).parent / "sql",
    what="search index",
)
_SQL: Final = "text_index.sql"


@dataclass(frozen=True, slots=True, eq=False)
class _Loaded:
    """The index as of one change."""

    change: int
    pool: SearchPool
    categories: Mapping[str, str]


class TextIndex:
    """An open index. May be used by several threads."""

    def __init__(self, file: LayerFile, embedder: Embedder | None) -> None:
        self._file, self._embedder = file, embedder
        self._sql = statements(_SQL)
        self._numbers: dict[str, int] = {}
        self._segments: dict[int, tuple[PoolSegment, PieceVectors | None]] = {}
        self._loaded: _Loaded | None = None
        self._lock = Lock()

    @classmethod
    async def open(cls, path: Path, *, embedder: Embedder | None = None) -> Self:
        """Open or create an index; ``Incorrect`` if the file is something else."""
        file = await asyncio.to_thread(
            lambda: LayerFile.open(path, _LAYOUT, prepare=_commit_without_waiting)
        )
        return cls(file, embedder)

    async def put(self, sources: Sequence[SearchSource]) -> None:
        """Add sources, each in place of an earlier one with the same path, in one transaction."""
        await self._file.write(lambda connection: self._put(connection, sources))

    async def remove(self, paths: Iterable[str]) -> int:
        """Remove sources; return how many there were."""
        wanted = tuple(paths)

        def change(connection: SqlConnection) -> int:
            removed = sum(len(self._select(connection, "remove_source", path)) for path in wanted)
            connection.execute(self._sql["count_change"])
            return removed

        return await self._file.write(change)

    async def rebuild(self, sources: Sequence[SearchSource]) -> None:
        """Replace everything in one transaction; searches see the old index until it is done."""

        def change(connection: SqlConnection) -> None:
            connection.execute(self._sql["remove_sources"])
            self._put(connection, sources)

        await self._file.write(change)

    async def embed_missing(self, *, replace: bool = False) -> int:
        """Add vectors to segments without; return how many segments there were.

        ``replace`` also embeds again what has vectors of another embedder.
        """
        embedder = self._embedder
        if embedder is None:
            raise Incorrect("the index was opened without an embedder; pass one to open")
        done = 0
        rows = await self._file.read(lambda c: self._select(c, "segments"))
        for segment_id, _, name, _ in rows:
            if name is None or (replace and name != embedder.name):
                done += await self._file.write(partial(self._embed, segment_id, embedder))
        return done

    async def search(
        self,
        question: str,
        *,
        limit: int = 10,
        category: str | None = None,
        now: date | None = None,
        weights: RankWeights = BEST_SOURCES,
        wanted: Callable[[str], bool] | None = None,
    ) -> list[SearchResult]:
        """Return the best sources, best first; ties by path."""
        if not 1 <= limit <= RESULTS_MAX:
            raise Incorrect(f"limit is {limit}; pass 1 to {RESULTS_MAX}")

        def run() -> list[SearchResult]:
            loaded = self._load()

            def accepts(path: str) -> bool:
                return (category is None or loaded.categories[path] == category) and (
                    wanted is None or wanted(path)
                )

            found = rank_sources(
                loaded.pool,
                question,
                limit=limit,
                now=now,
                embedder=self._embedder,
                weights=weights,
                wanted=None if category is None and wanted is None else accepts,
            )
            results = []
            with self._file.reading() as connection:
                for piece in found:
                    wanted_piece = (piece.source_id, piece.piece)
                    # Another process may have removed or shortened it since the ranking.
                    for kind, snippet in self._select(connection, "piece", *wanted_piece):
                        results.append(
                            SearchResult(
                                path=piece.source_id,
                                snippet=snippet,
                                score=piece.score,
                                category=kind,
                            )
                        )
            return results

        return await asyncio.to_thread(run)

    def close(self) -> None:
        self._file.close()

    def _put(self, connection: SqlConnection, sources: Sequence[SearchSource]) -> None:
        newest = {source.source_id: source for source in sources}
        for path in newest:
            connection.execute(self._sql["remove_source"], (path,))
        if newest:
            self._add(connection, list(newest.values()))
            self._merge(connection)
        connection.execute(self._sql["count_change"])

    def _add(self, connection: SqlConnection, sources: Sequence[SearchSource]) -> None:
        segment = build(sources, lambda terms: self._term_numbers(connection, terms))
        segment_id = self._store(connection, segment)
        connection.executemany(
            self._sql["add_source"],
            (
                (
                    source.source_id,
                    source.category,
                    source.day.toordinal() if source.day else None,
                    source.text,
                    orjson.dumps([(p.start, p.end, p.speaker) for p in source.pieces]).decode(),
                    segment_id,
                    ordinal,
                )
                for ordinal, source in enumerate(sources)
            ),
        )

    def _store(self, connection: SqlConnection, segment: PoolSegment) -> int:
        pieces = int(segment.pieces.sum())
        segment_id: int = connection.execute(self._sql["add_segment"], (pieces,)).get
        for name, body in segment.arrays().items():
            connection.execute(self._sql["add_array"], (segment_id, name, body))
        return segment_id

    def _term_numbers(self, connection: SqlConnection, terms: Iterable[str]) -> Mapping[str, int]:
        wanted = sorted(terms)
        connection.executemany(self._sql["add_term"], ((term,) for term in wanted))
        return {term: connection.execute(self._sql["term"], (term,)).get for term in wanted}

    def _merge(self, connection: SqlConnection) -> None:
        """Merge the newest segments until each has a fraction of the pieces of the one before."""
        rows = self._select(connection, "segments")
        count = 1
        total = rows[-1][1]
        while count < len(rows) and rows[-count - 1][1] < MERGE_FACTOR * total:
            count += 1
            total += rows[-count][1]
        if count == 1:
            return
        parts: list[tuple[PoolSegment, Any]] = []
        vectors: list[tuple[PieceVectors, Any, Any]] = []
        moved: list[int] = []
        for row in rows[-count:]:
            segment, own = self._read_segment(connection, row)
            places = self._select(connection, "segment_paths", row[0])
            kept = np.zeros(len(segment.first), dtype=np.bool_)
            kept[[ordinal for _, ordinal in places]] = True
            moved += [source_id for source_id, _ in places]
            parts.append((segment, kept))
            if own is not None:
                first = np.concatenate(([0], np.cumsum(segment.pieces)[:-1])).astype(np.int32)
                rows_kept = piece_slots(first[kept], segment.pieces[kept])
                vectors.append((own, rows_kept, np.flatnonzero(kept).astype(np.int32)))
        merged = self._store(connection, merge(parts))
        for ordinal, source_id in enumerate(moved):
            connection.execute(self._sql["move_source"], (merged, ordinal, source_id))
        if len({(own.embedder, own.dimension) for own, _, _ in vectors}) == 1 and len(
            vectors
        ) == len(parts):
            self._store_vectors(connection, merged, join(vectors))
        for row in rows[-count:]:
            connection.execute(self._sql["remove_segment"], (row[0],))

    def _embed(self, segment_id: int, embedder: Embedder, connection: SqlConnection) -> int:
        """Embed one segment; 0 if another process has merged it."""
        found = [row for row in self._select(connection, "segments") if row[0] == segment_id]
        if not found:
            return 0
        segment, _ = self._read_segment(connection, (*found[0][:2], None, None))
        live = {
            row[0]: _source(*row[1:])
            for row in self._select(connection, "segment_sources", segment_id)
        }
        sources = [
            live.get(ordinal) or _removed(int(count))
            for ordinal, count in enumerate(segment.pieces)
        ]
        parts = []
        for start in range(0, len(sources), EMBED_SOURCES):
            batch = embed_sources(sources[start : start + EMBED_SOURCES], embedder)
            rows = np.arange(len(batch.plain.scales), dtype=np.int32)
            parts.append((batch, rows, np.arange(len(batch.source.scales), dtype=np.int32)))
        self._store_vectors(connection, segment_id, join(parts))
        connection.execute(self._sql["count_change"])
        with suppress(KeyError):
            del self._segments[segment_id]
        return 1

    def _store_vectors(
        self, connection: SqlConnection, segment_id: int, vectors: PieceVectors
    ) -> None:
        for name, body in vectors.arrays().items():
            connection.execute(self._sql["add_array"], (segment_id, name, body))
        embedder = (vectors.embedder, vectors.dimension, segment_id)
        connection.execute(self._sql["set_embedder"], embedder)

    def _read_segment(
        self, connection: SqlConnection, row: Sequence[Any]
    ) -> tuple[PoolSegment, PieceVectors | None]:
        segment_id, pieces, embedder, dimension = row
        arrays = dict(self._select(connection, "arrays", segment_id))
        segment = PoolSegment.from_arrays(arrays)
        if int(segment.pieces.sum()) != pieces:
            raise Corrupt(f"segment {segment_id} of the search index has not {pieces} pieces")
        if embedder is None:
            return segment, None
        sources = len(segment.first)
        return segment, PieceVectors.from_arrays(
            arrays, embedder=embedder, dimension=dimension, pieces=pieces, sources=sources
        )

    def _select(self, connection: SqlConnection, statement: str, *bindings: str | int) -> list[Any]:
        return connection.execute(self._sql[statement], bindings).fetchall()

    def _load(self) -> _Loaded:
        """Return the index as it is now; only what has changed is read."""
        with self._lock:
            with self._file.reading() as connection:
                change = connection.execute(self._sql["change"]).get
                if self._loaded is None or self._loaded.change != change:
                    self._loaded = self._read(connection, change)
            return self._loaded

    def _read(self, connection: SqlConnection, change: int) -> _Loaded:
        rows = self._select(connection, "segments")
        segments = {}
        for row in rows:
            known = self._segments.get(row[0])
            has_vectors = known is not None and known[1] is not None
            current = known is not None and has_vectors == (row[2] is not None)
            if known is not None and has_vectors and current:
                current = known[1] is not None and known[1].embedder == row[2]
            segments[row[0]] = (
                known if known is not None and current else self._read_segment(connection, row)
            )
        self._segments = segments
        ids = {row[0]: [""] * len(segments[row[0]][0].first) for row in rows}
        live = {key: np.zeros(len(names), dtype=np.bool_) for key, names in ids.items()}
        categories = {}
        for segment_id, ordinal, path, category in self._select(connection, "places"):
            if segment_id not in ids or not 0 <= ordinal < len(ids[segment_id]):
                raise Corrupt(f"the search index has no place for {path}; rebuild it")
            ids[segment_id][ordinal], live[segment_id][ordinal] = path, True
            categories[path] = category
        parts = tuple(
            PoolPart(segment=segment, source_ids=ids[key], live=live[key], vectors=vectors)
            for key, (segment, vectors) in segments.items()
        )
        pool = SearchPool(
            parts=parts, number=self._number, speakers=self._speakers(connection, parts)
        )
        return _Loaded(change, pool, categories)

    def _speakers(self, connection: SqlConnection, parts: Iterable[PoolPart]) -> frozenset[str]:
        numbers: set[int] = set()
        for part in parts:
            segment = part.segment
            if not len(part.dead) or not segment.speaker_numbers:
                numbers |= segment.speaker_numbers
            else:
                slots = piece_slots(segment.first[part.live], segment.pieces[part.live])
                numbers |= set(np.unique(segment.speakers[slots]).tolist())
        rows = [
            connection.execute(self._sql["term_text"], (number,)).get
            for number in numbers - {SPEAKER_NONE}
        ]
        return frozenset(text.removeprefix("@") for text in rows if text is not None)

    def _number(self, term: str) -> int | None:
        """Numbers are never given to another term, so they are remembered."""
        if term not in self._numbers:
            with self._file.reading() as connection:
                number = connection.execute(self._sql["term"], (term,)).get
            if number is None:
                return None
            self._numbers[term] = number
        return self._numbers[term]


def _commit_without_waiting(connection: SqlConnection) -> None:
    """Derived data need not survive a power loss; the file stays consistent."""
    connection.execute("PRAGMA synchronous = NORMAL")


def _pieces(stored: str) -> tuple[Piece, ...]:
    return tuple(
        Piece(start=start, end=end, speaker=speaker) for start, end, speaker in orjson.loads(stored)
    )


def _source(path: str, category: str, day: int | None, text: str, pieces: str) -> SearchSource:
    return SearchSource(
        source_id=path,
        category=category,
        text=text,
        pieces=_pieces(pieces),
        day=date.fromordinal(day) if day else None,
    )


def _removed(pieces: int) -> SearchSource:
    """Stand for a source whose text is gone, until a merge drops its place."""
    nothing = tuple(Piece(start=0, end=0) for _ in range(pieces))
    return SearchSource(source_id="", category="", text="", pieces=nothing)
