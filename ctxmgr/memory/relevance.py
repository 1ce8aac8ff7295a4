"""Which memories match a question, by the one ranking of ``search``. Needs NumPy; touches nothing.

    a fact, pattern or workflow       a source of its own
    episodes of one session           one source, in which each episode is a piece: an episode next
                                      to a match, or in a session about the question, ranks higher

``@name`` among the tags of an episode is who spoke. A memory that changes is indexed again with the
next question; small segments are merged, so that there are never many.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Final

import numpy as np

from ctxmgr.memory.records.bodies import MemoryType
from ctxmgr.memory.records.memory import Memory
from ctxmgr.search.piece_vectors import embed_sources, join
from ctxmgr.search.pieces import SearchSource
from ctxmgr.search.ranking import FILL_BUDGET, rank
from ctxmgr.search.search_pool import PoolPart, SearchPool
from ctxmgr.search.segment import build, merge, piece_slots

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ctxmgr.search.embedder import Embedder
    from ctxmgr.search.piece_vectors import PieceVectors

MATCHES_MAX: Final = 200
"""Memories that are looked at because they match."""

MATCH_MIN: Final = 0.08
"""What a match is worth at least: this share of the question's information, or as much nearby.
Vectors alone do not make a match, since something is always nearest, and do not undo one: among a
few memories half of the matches are less like the question than the mean."""

MERGE_FACTOR: Final = 4
"""A segment is merged with the one before unless that has as many times its sources."""

SOURCES_AT_ONCE: Final = 4_096
"""Sources that are indexed and embedded at once, which bounds the memory."""

SAMPLED_AGAIN: Final = 1.2
"""By so much a pool grows or shrinks before mean and deviation of its vectors are taken again."""

CATEGORY: Final = "memory"


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """An indexed part of the pool, and which memory each piece is of."""

    pool: PoolPart
    places: Mapping[str, int]
    """Source → its place."""


class MemoryPool:
    """Memories that can be searched."""

    def __init__(self, embedder: "Embedder | None" = None) -> None:
        self._embedder = embedder
        self._groups: dict[str, dict[str, Memory]] = {}
        """Source → its memories."""
        self._group_of: dict[str, str] = {}
        self._pieces: dict[str, tuple[str, ...]] = {}
        """Source → the memory of each piece."""
        self._pending: dict[str, None] = {}
        self._parts: list[_Part] = []
        self._where: dict[str, int] = {}
        self._numbers: dict[str, int] = {}
        self._speakers: set[str] = set()
        self._pool: SearchPool | None = None
        self._sampled: tuple[PieceVectors | None, int] | None = None
        """The sample of vectors, and of how many sources it was taken."""

    def put(self, memory: Memory) -> None:
        """Add a memory, or replace it."""
        group = _group(memory)
        if self._group_of.get(memory.id, group) != group:
            self.remove(memory.id)
        known = self._groups.setdefault(group, {}).get(memory.id)
        if known is not None and _searched(known) == _searched(memory):
            self._groups[group][memory.id] = memory
            return
        self._groups[group][memory.id] = memory
        self._group_of[memory.id] = group
        self._pending[group] = None

    def remove(self, memory_id: str) -> None:
        group = self._group_of.pop(memory_id, None)
        if group is not None:
            del self._groups[group][memory_id]
            self._pending[group] = None

    def relevance(self, question: str, *, now: date | None = None) -> dict[str, float]:
        """Return the score of every memory that matches a question, by id, best first."""
        if not question.strip():
            return {}
        pool = self._indexed()
        if not pool.parts:
            return {}
        found = rank(
            pool,
            question,
            limit=MATCHES_MAX,
            now=now,
            embedder=self._embedder,
            weights=FILL_BUDGET,
            lexical_min=MATCH_MIN,
        )
        scores: dict[str, float] = {}
        for piece in found:
            pieces = self._pieces[piece.source_id]
            memory_id = pieces[piece.piece] if len(pieces) > 1 else pieces[0]
            scores.setdefault(memory_id, max(piece.score, MATCH_MIN))
        return scores

    def rarity(self, stem: str) -> float:
        """Return how rare a stem is among all pieces: its idf."""
        return self._indexed().stem_idf(stem)

    def group_of(self, memory_id: str) -> str:
        """Return the source that a memory is searched in."""
        return self._group_of[memory_id]

    def rehearse(self, memory: Memory) -> None:
        """Search another pool for a memory, so that what a search needs is loaded."""
        trial = MemoryPool(self._embedder)
        trial.put(memory)
        trial.relevance(memory.levels.summary)

    def _indexed(self) -> SearchPool:
        """Return the pool with all changes in it."""
        if self._pending:
            self._leave(self._pending)
            fresh = [group for group in self._pending if self._groups.get(group)]
            for group in self._pending:
                if not self._groups.get(group):
                    self._groups.pop(group, None)
            for start in range(0, len(fresh), SOURCES_AT_ONCE):
                self._add([self._source(group) for group in fresh[start : start + SOURCES_AT_ONCE]])
            self._pending.clear()
            self._pool = None
        if self._pool is None:
            self._pool = SearchPool(
                parts=tuple(part.pool for part in self._parts),
                number=self._numbers.get,
                speakers=frozenset(self._speakers),
                earlier_sample=self._sample_of(len(self._where)),
            )
            if self._embedder is not None and self._sampled is None:
                self._sampled = self._pool.sample, len(self._where)
        return self._pool

    def _sample_of(self, sources: int) -> "PieceVectors | None":
        """Return the last sample, unless the pool has grown or shrunk by much since."""
        if self._sampled is None or not self._sampled[1]:
            return None
        sample, before = self._sampled
        if not 1 / SAMPLED_AGAIN < sources / before < SAMPLED_AGAIN:
            self._sampled = None
            return None
        return sample

    def _leave(self, groups: Iterable[str]) -> None:
        """Mark the sources of groups as gone from the parts that have them."""
        gone: dict[int, list[int]] = {}
        for group in groups:
            number = self._where.pop(group, None)
            if number is not None:
                gone.setdefault(number, []).append(self._parts[number].places[group])
        for number, places in gone.items():
            part = self._parts[number]
            live = part.pool.live.copy()
            live[places] = False
            self._parts[number] = _Part(replace(part.pool, live=live), part.places)

    def _source(self, group: str) -> SearchSource:
        memories = sorted(self._groups[group].values(), key=_order)
        day = datetime.fromtimestamp(memories[0].valid_from / 1_000, tz=UTC).date()
        if memories[0].id == group:
            self._pieces[group] = (group,)
            return SearchSource.from_text(
                _searched(memories[0]), source_id=group, category=CATEGORY, day=day
            )
        self._pieces[group] = tuple(memory.id for memory in memories)
        turns = [(_speaker(memory), _searched(memory)) for memory in memories]
        self._speakers |= {speaker.lower() for speaker, _ in turns if speaker is not None}
        return SearchSource.from_turns(turns, source_id=group, category=CATEGORY, day=day)

    def _add(self, sources: Sequence[SearchSource]) -> None:
        part = PoolPart(
            segment=build(sources, self._term_ids),
            source_ids=[source.source_id for source in sources],
            live=np.ones(len(sources), dtype=np.bool_),
            vectors=None if self._embedder is None else embed_sources(sources, self._embedder),
        )
        self._append(part)
        while len(self._parts) > 1 and _size(self._parts[-2]) < MERGE_FACTOR * _size(
            self._parts[-1]
        ):
            self._append(_merged(self._parts.pop(-2).pool, self._parts.pop().pool))

    def _append(self, part: PoolPart) -> None:
        places = {source_id: place for place, source_id in enumerate(part.source_ids)}
        for place in np.flatnonzero(part.live).tolist():
            self._where[part.source_ids[place]] = len(self._parts)
        self._parts.append(_Part(part, places))

    def _term_ids(self, terms: Iterable[str]) -> Mapping[str, int]:
        for term in sorted(terms):
            self._numbers.setdefault(term, len(self._numbers) + 1)
        return self._numbers


def _merged(one: PoolPart, other: PoolPart) -> PoolPart:
    parts = (one, other)
    kept = [(part.segment, part.live) for part in parts]
    live = [place for part in parts for place in _live_ids(part)]
    vectors = None
    if one.vectors is not None and other.vectors is not None:
        vectors = join(
            [
                (part.vectors, _live_pieces(part), np.flatnonzero(part.live).astype(np.int32))
                for part in parts
                if part.vectors is not None
            ]
        )
    return PoolPart(
        segment=merge(kept),
        source_ids=live,
        live=np.ones(len(live), dtype=np.bool_),
        vectors=vectors,
    )


def _live_ids(part: PoolPart) -> list[str]:
    return [part.source_ids[place] for place in np.flatnonzero(part.live).tolist()]


def _live_pieces(part: PoolPart) -> "NDArray[np.int32]":
    """Return the rows of the vectors of live pieces."""
    pieces = part.segment.pieces
    first = np.concatenate(([0], np.cumsum(pieces)[:-1])).astype(np.int32)
    return piece_slots(first[part.live], pieces[part.live])


def _size(part: _Part) -> int:
    return int(part.pool.live.sum())


def _group(memory: Memory) -> str:
    """Return the source of a memory: episodes of a session are searched together."""
    if memory.type is MemoryType.EPISODE and memory.origin.session_id is not None:
        return f"session:{memory.origin.session_id}"
    return memory.id


def _order(memory: Memory) -> tuple[int, int, str]:
    return memory.origin.turn or 0, memory.created_at, memory.id


def _speaker(memory: Memory) -> str | None:
    return next((tag[1:] for tag in memory.tags if tag.startswith("@") and len(tag) > 1), None)


def _searched(memory: Memory) -> str:
    return " ".join((memory.levels.full, *(tag for tag in memory.tags if tag[0] != "@")))
