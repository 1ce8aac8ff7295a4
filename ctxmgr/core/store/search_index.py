"""The interface of a full-text index, which finds objects by their text. Contract.

A search index is derived data: a separate file, keyed by object and sequence, that is rebuilt from
the store's feed if it is deleted.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchEntry:
    """The text of an object's newest version."""

    object_id: str
    sequence: int
    """The transaction that wrote it."""
    text: str | None = field(repr=False)
    """None: the object has no text any more."""


@dataclass(frozen=True, slots=True)
class IndexPosition:
    """How far an index has followed its store."""

    origin: str
    """Identifies the store: the key of its first transaction."""
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """An object that was found."""

    object_id: str
    score: float
    """Higher is better; comparable only within one result."""


class ObjectIndex(Protocol):
    """A full-text index.

    Several processes may fill one index from the store's feed: each ``put`` continues from a
    position and fails if another process has moved it, so that no transaction is skipped.
    """

    async def position(self) -> IndexPosition | None:
        """Return how far the index has followed the store; None: it is empty."""
        ...

    async def put(
        self,
        entries: Iterable[SearchEntry],
        *,
        after: IndexPosition | None,
        position: IndexPosition,
    ) -> bool:
        """Store entries and the new position in one transaction.

        Returns False and stores nothing if the index is no longer at ``after``.
        """
        ...

    async def search(
        self, query: str, *, limit: int, wanted: Callable[[str], bool] = lambda _: True
    ) -> Sequence[SearchHit]:
        """Return the best matches among the wanted objects, best first.

        The query is plain words without a syntax, so every query is valid.
        """
        ...

    async def clear(self) -> None:
        """Remove everything, so that the index can be filled again."""
        ...

    async def close(self) -> None: ...
