"""A search index in a file: sources, and segments for the ranking. Touches the file; needs NumPy.

    put, remove ─► source rows ─► a new segment ─► merged with those before that are not much larger
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
from dataclasses import dataclass, replace
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
from ctxmgr.search.ranking import BEST_SOURCES, RankWeights, rank_sources
from ctxmgr.search.search_pool import PoolPart, SearchPool
from ctxmgr.search.segment import SPEAKER_NONE, PoolSegment, build, merge, piece_slots
from ctxmgr.stores.fts5 import PIECES_ID
from ctxmgr.stores.layer_file import LayerFile, LayerLayout
from ctxmgr.stores.sqlite.connection import statements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from ctxmgr.search.embedder import Embedder
    from ctxmgr.stores.layer_file import SqlConnection

MERGE_FACTOR: Final = 4
"""A segment is merged with the one before unless that has at least as many times its pieces."""

EMBED_SOURCES: Final = 256
"""Sources that are embedded at once, which bounds the memory."""

RESULTS_MAX: Final = 1_000
"""In the result of one search."""

_LAYOUT: Final = LayerLayout(
    application_id=PIECES_ID,
    migrations=Path(__file__).parent / "sql",
    what="search index",
)
_SQL: Final = "text_index.sql"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _LoadedSegment:
    """A segment, and which of its sources are left. Sources leave a segment, but never enter."""

    segment: PoolSegment
    vectors: PieceVectors | None
    source_ids: Sequence[str]
    categories: Sequence[str]
    live: NDArray[np.bool_]
    count: int

    @property
    def embedder(self) -> str | None:
        return None if self.vectors is None else self.vectors.embedder


@dataclass(frozen=True, slots=True, eq=False)
class _Loaded:
    """The index as of one change."""

    change: int
    pool: SearchPool
    segments: Sequence[_LoadedSegment]

    def in_category(self, category: str) -> frozenset[str]:
        """Return the paths of a category."""
        return frozenset(
            path
            for segment in self.segments
            for path, own in zip(segment.source_ids, segment.categories, strict=True)
            if own == category
        )


class TextIndex:
    """An open index. May be used by several threads."""

    def __init__(self, file: LayerFile, embedder: Embedder | None, *, keeps_text: bool) -> None:
        self._file, self._embedder, self._keeps_text = file, embedder, keeps_text
        self._sql = statements(_SQL)
        self._numbers: dict[str, int] = {}
        self._segments: dict[int, _LoadedSegment] = {}
        self._loaded: _Loaded | None = None
        self._lock = Lock()

    @classmethod
    async def open(
        cls, path: Path, *, embedder: Embedder | None = None, keeps_text: bool = True
    ) -> Self:
        """Open or create an index; ``Incorrect`` if the file is something else.

        Without ``keeps_text`` the file has words and where they are, but no text: results have
        empty extracts, and there are no vectors.
        """
        file = await asyncio.to_thread(
            lambda: LayerFile.open(path, _LAYOUT, prepare=_commit_without_waiting)
        )
        return cls(file, embedder, keeps_text=keeps_text)

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

    async def mark(self) -> str | None:
        """Return how far the index has followed what it is derived from; None: it is empty."""
        found: str | None = await self._file.read(lambda c: c.execute(self._sql["mark"]).get)
        return found

    async def follow(
        self,
        sources: Sequence[SearchSource],
        *,
        removed: Iterable[str],
        after: str | None,
        mark: str,
    ) -> bool:
        """Add and remove sources and move the mark, in one transaction.

        Returns False and changes nothing if the mark is no longer ``after``.
        """
        gone = tuple(removed)

        def change(connection: SqlConnection) -> bool:
            if connection.execute(self._sql["mark"]).get != after:
                return False
            connection.executemany(self._sql["remove_source"], ((path,) for path in gone))
            self._put(connection, sources)
            connection.execute(self._sql["set_mark"], (mark,))
            return True

        return await self._file.write(change)

    async def clear(self) -> None:
        """Remove everything, and the mark."""

        def change(connection: SqlConnection) -> None:
            connection.execute(self._sql["remove_sources"])
            connection.execute(self._sql["set_mark"], (None,))
            connection.execute(self._sql["count_change"])

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
        if done:
            await self._file.write(self._merge)
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

            inside = None if category is None else loaded.in_category(category)

            def accepts(path: str) -> bool:
                return (inside is None or path in inside) and (wanted is None or wanted(path))

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
                    rows = self._select(connection, "piece", *wanted_piece)
                    for kind, snippet in rows if self._keeps_text else [("", "")]:
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
                    source.text if self._keeps_text else "",
                    _stored_pieces(source.pieces) if self._keeps_text else "[]",
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
        wanted = set(terms)
        known = {term: self._numbers[term] for term in wanted & self._numbers.keys()}
        new = sorted(wanted - known.keys())
        connection.executemany(self._sql["add_term"], ((term,) for term in new))
        return known | {term: connection.execute(self._sql["term"], (term,)).get for term in new}

    def _merge(self, connection: SqlConnection) -> None:
        """Merge the newest segments until each has a fraction of the pieces of the one before.

        One that has no vectors yet stays apart from those that have: a merged segment would have
        to be embedded again as a whole.
        """
        rows = self._select(connection, "segments")
        if not rows:
            return
        count = 1
        total = rows[-1][1]
        while (
            count < len(rows)
            and rows[-count - 1][1] < MERGE_FACTOR * total
            and rows[-count - 1][2:] == rows[-1][2:]
        ):
            count += 1
            total += rows[-count][1]
        if count == 1:
            return
        parts: list[tuple[PoolSegment, Any]] = []
        vectors: list[tuple[PieceVectors, Any, Any]] = []
        moved: list[int] = []
        for row in rows[-count:]:
            loaded = self._segments.get(row[0])
            if loaded is not None and loaded.embedder == row[2]:
                segment, own = loaded.segment, loaded.vectors
            else:
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
        if vectors:
            self._store_vectors(connection, merged, join(vectors))
        for row in rows[-count:]:
            connection.execute(self._sql["remove_segment"], (row[0],))
        connection.execute(self._sql["count_change"])

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
        counts = dict(self._select(connection, "segment_counts"))
        segments = {}
        for row in self._select(connection, "segments"):
            known, count = self._segments.get(row[0]), counts.pop(row[0], 0)
            if known is None or known.embedder != row[2]:
                segments[row[0]] = self._loaded_segment(connection, row)
            elif known.count != count:
                ordinals = [row[0] for row in self._select(connection, "ordinals", row[0])]
                live = _places(ordinals, len(known.live))
                segments[row[0]] = replace(known, live=live, count=count)
            else:
                segments[row[0]] = known
        if counts:
            raise Corrupt("the search index has sources without a place; rebuild it")
        self._segments = segments
        parts = tuple(
            PoolPart(
                segment=loaded.segment,
                source_ids=loaded.source_ids,
                live=loaded.live,
                vectors=loaded.vectors,
            )
            for loaded in segments.values()
        )
        pool = SearchPool(
            parts=parts, number=self._number, speakers=self._speakers(connection, parts)
        )
        return _Loaded(change, pool, tuple(segments.values()))

    def _loaded_segment(self, connection: SqlConnection, row: Sequence[Any]) -> _LoadedSegment:
        segment, vectors = self._read_segment(connection, row)
        rows = self._select(connection, "places", row[0])
        live = _places([ordinal for ordinal, _, _ in rows], len(segment.first))
        source_ids, categories = [""] * len(live), [""] * len(live)
        for ordinal, path, category in rows:
            source_ids[ordinal], categories[ordinal] = path, category
        return _LoadedSegment(
            segment=segment,
            vectors=vectors,
            source_ids=source_ids,
            categories=categories,
            live=live,
            count=len(rows),
        )

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


def _places(ordinals: Sequence[int], count: int) -> NDArray[np.bool_]:
    if ordinals and not (min(ordinals) >= 0 and max(ordinals) < count):
        raise Corrupt("the search index has a source outside of its segment; rebuild it")
    live = np.zeros(count, dtype=np.bool_)
    live[ordinals] = True
    return live


def _commit_without_waiting(connection: SqlConnection) -> None:
    """Derived data need not survive a power loss; the file stays consistent."""
    connection.execute("PRAGMA synchronous = NORMAL")


def _stored_pieces(pieces: Iterable[Piece]) -> str:
    return orjson.dumps([(piece.start, piece.end, piece.speaker) for piece in pieces]).decode()


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
