"""Finding objects by what they say: the index that a layer searches, and joined rankings. Contract.

A search index is derived: it lies in a file of its own beside whichever store, keyed by object and
sequence, and is made again from the store's feed when it is deleted.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

FUSION_CONSTANT: Final = 60
"""Of reciprocal rank fusion: how little the first places count for more than the next ones. 60 is
the number of the paper that proposed it, and nobody has found a better one for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The newest version of an object, as it is searched."""

    object_id: str
    sequence: int
    """Of the transaction that wrote it."""
    text: str | None = field(repr=False)
    """None: there is nothing to find any more."""


@dataclass(frozen=True, slots=True)
class Position:
    """How far an index follows its store."""

    origin: str
    """Names the store: the key of its first transaction."""
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """An object that was found."""

    object_id: str
    sequence: int
    score: float
    """The larger the better; comparable within one answer only."""


class SearchIndex(Protocol):
    """A file that is searched.

    Several processes may use one and follow the store with it: what is put goes on from a position,
    and whoever was slower learns that it has moved. So nothing is left out in between.
    """

    async def position(self) -> Position | None:
        """Return how far it is; None: it is empty."""
        ...

    async def put(
        self, entries: Iterable[Entry], *, after: Position | None, position: Position
    ) -> bool:
        """Take entries and the new position, together or not at all.

        False, and nothing taken, if the index is not at ``after`` any more.
        """
        ...

    async def search(
        self, query: str, *, limit: int, wanted: Callable[[str], bool] = lambda _: True
    ) -> Sequence[Hit]:
        """Return the best objects that are wanted, best first; ties by id.

        The query is plain words, never a language: nothing in it is an error.
        """
        ...

    async def clear(self) -> None:
        """Forget everything, to be filled again."""
        ...

    async def close(self) -> None: ...


def fused(
    rankings: Iterable[Sequence[Hit]], *, limit: int, constant: int = FUSION_CONSTANT
) -> list[Hit]:
    """Join rankings whose scores cannot be compared: a place gives ``1 / (constant + place)``."""
    scores: dict[str, float] = {}
    hits: dict[str, Hit] = {}
    for ranking in rankings:
        for place, hit in enumerate(ranking, start=1):
            scores[hit.object_id] = scores.get(hit.object_id, 0.0) + 1 / (constant + place)
            hits.setdefault(hit.object_id, hit)
    best = sorted(scores, key=lambda object_id: (-scores[object_id], object_id))[:limit]
    return [replace(hits[object_id], score=scores[object_id]) for object_id in best]
