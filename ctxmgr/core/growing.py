"""Values that grow at their end and cost only what is added. Pure.

    Growing      items; a longer one shares those of the shorter
    OrderedIds   ids, each once; likewise
    Rope         text; what is there already is neither joined piece by piece nor hashed again

All are values: nothing that was read from one ever changes. Two may grow from the same shorter
one; the second of them copies it.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import count, islice
from typing import Generic, Self, TypeVar, overload

Item = TypeVar("Item")


class Growing(Sequence[Item], Generic[Item]):
    """Items in the order they were added."""

    __slots__ = ("_items", "_length")

    def __init__(self, items: Iterable[Item] = ()) -> None:
        # Shared with every longer one; beyond ``_length`` it is not ours to look at.
        self._items: list[Item] = list(items)
        self._length = len(self._items)

    def add(self, items: Iterable[Item]) -> Self:
        """Return these and the new ones."""
        newest = 0 < self._length == len(self._items)
        longer = object.__new__(type(self))
        longer._items = self._items if newest else self._items[: self._length]
        longer._items.extend(items)
        longer._length = len(longer._items)
        return longer

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Item]:
        return islice(self._items, self._length)

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Item]: ...
    def __getitem__(self, place: int | slice) -> Item | Sequence[Item]:
        if isinstance(place, slice):
            return self._items[: self._length][place]
        if not -self._length <= place < self._length:
            raise IndexError(place)
        return self._items[place % self._length]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Growing):
            return NotImplemented
        return self._length == other._length and all(map(_same, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)!r})"


class OrderedIds(Collection[str]):
    """Ids in the order of arrival, each once. Adding costs what is added, whatever is there."""

    __slots__ = ("_ids", "_places")

    def __init__(self, ids: Iterable[str] = ()) -> None:
        self._ids = Growing(dict.fromkeys(ids))
        # Shared with longer ones, as the ids are: a place beyond our length is not one of ours.
        self._places = dict(zip(self._ids, count()))

    def add(self, ids: Iterable[str]) -> Self:
        """Return these with the new ones at the end; what is there keeps its place."""
        new = [object_id for object_id in dict.fromkeys(ids) if object_id not in self]
        if not new:
            return self
        longer = object.__new__(type(self))
        longer._ids = self._ids.add(new)
        newest = 0 < len(self._ids) == len(self._places)
        longer._places = self._places if newest else dict(zip(self._ids, count()))
        longer._places.update(zip(new, count(len(self._ids))))
        return longer

    def remove(self, ids: Collection[str]) -> Self:
        """Return these without those."""
        if not any(object_id in self for object_id in ids):
            return self
        return type(self)(object_id for object_id in self if object_id not in ids)

    def __contains__(self, object_id: object) -> bool:
        place = self._places.get(object_id)  # type: ignore[call-overload]
        return place is not None and place < len(self._ids)

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def __le__(self, other: "OrderedIds") -> bool:
        return all(object_id in other for object_id in self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OrderedIds) and self._ids == other._ids

    def __hash__(self) -> int:
        return hash(self._ids)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)!r})"


class Rope:
    """Text and its SHA-256.

    Pieces are merged once they are no longer than what follows, so that a text of n pieces lies in
    about log n parts, and joining them is little more than one copy.
    """

    __slots__ = ("_parts", "_state")

    def __init__(self, pieces: Iterable[str] = ()) -> None:
        text = "".join(pieces)
        self._parts: tuple[str, ...] = (text,) if text else ()
        self._state = hashlib.sha256(text.encode())

    def append(self, piece: str) -> Self:
        """Return this text with one piece more."""
        longer = object.__new__(type(self))
        longer._parts = _merged(self._parts, piece)
        longer._state = self._state.copy()
        longer._state.update(piece.encode())
        return longer

    @property
    def text(self) -> str:
        return "".join(self._parts)

    @property
    def parts(self) -> tuple[str, ...]:
        """The text in a few parts, for whoever joins it with more."""
        return self._parts

    @property
    def hash(self) -> str:
        """SHA-256 of the UTF-8 bytes, in hex."""
        return self._state.hexdigest()

    def __bool__(self) -> bool:
        return bool(self._parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rope) and self.hash == other.hash

    def __hash__(self) -> int:
        return hash(self.hash)

    def __repr__(self) -> str:
        return f"{type(self).__name__}([{self.text!r:.80}])"


def _merged(parts: tuple[str, ...], piece: str) -> tuple[str, ...]:
    if not piece:
        return parts
    kept, size = len(parts), len(piece)
    while kept and len(parts[kept - 1]) <= size:
        kept -= 1
        size += len(parts[kept])
    return (*parts[:kept], "".join((*parts[kept:], piece)))


def _same(one: object, other: object) -> bool:
    return one == other
