"""Immutable sequences for which appending costs only what is appended. Pure.

    AppendOnly   items; a longer sequence shares those of the shorter one
    OrderedIds   ids without duplicates; shared likewise
    TextHash     the SHA-256 of a text; existing text is not hashed again
    Rope         a text and its hash; existing text is not joined again

All are values that never change. If two sequences are made from the same shorter one, the second
copies it.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import count, islice
from operator import eq
from typing import Generic, Self, TypeVar, overload

Item = TypeVar("Item")


class AppendOnly(Sequence[Item], Generic[Item]):
    """Items in the order in which they were added."""

    __slots__ = ("_items", "_length")

    def __init__(self, items: Iterable[Item] = ()) -> None:
        # Shared with longer sequences: items beyond ``_length`` are not part of this one.
        self._items: list[Item] = list(items)
        self._length = len(self._items)

    def add(self, items: Iterable[Item]) -> Self:
        """Return a sequence with these items and the new ones."""
        is_longest = 0 < self._length == len(self._items)
        longer = object.__new__(type(self))
        longer._items = self._items if is_longest else self._items[: self._length]
        longer._items.extend(items)
        longer._length = len(longer._items)
        return longer

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Item]:
        return islice(self._items, self._length)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        if isinstance(index, slice):
            return self._items[: self._length][index]
        if not -self._length <= index < self._length:
            raise IndexError(index)
        return self._items[index % self._length]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AppendOnly):
            return NotImplemented
        return self._length == other._length and all(map(eq, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)!r})"


class OrderedIds(Collection[str]):
    """Ids without duplicates, in the order in which they were added."""

    __slots__ = ("_ids", "_positions")

    def __init__(self, ids: Iterable[str] = ()) -> None:
        self._ids = AppendOnly(dict.fromkeys(ids))
        # Shared with longer ones, as the ids are: positions beyond our length are not ours.
        self._positions = dict(zip(self._ids, count()))

    def add(self, ids: Iterable[str]) -> Self:
        """Return these with the new ones at the end; existing ids keep their position."""
        new = [object_id for object_id in dict.fromkeys(ids) if object_id not in self]
        if not new:
            return self
        longer = object.__new__(type(self))
        longer._ids = self._ids.add(new)
        is_longest = 0 < len(self._ids) == len(self._positions)
        longer._positions = self._positions if is_longest else dict(zip(self._ids, count()))
        longer._positions.update(zip(new, count(len(self._ids))))
        return longer

    def remove(self, ids: Collection[str]) -> Self:
        """Return these without those."""
        if not any(object_id in self for object_id in ids):
            return self
        return type(self)(object_id for object_id in self if object_id not in ids)

    def __contains__(self, object_id: object) -> bool:
        position = self._positions.get(object_id)  # type: ignore[call-overload]
        return position is not None and position < len(self._ids)

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


class TextHash:
    """SHA-256 of the UTF-8 bytes of a text that grows."""

    __slots__ = ("_state",)

    def __init__(self, text: str = "") -> None:
        self._state = hashlib.sha256(text.encode())

    def append(self, text: str) -> Self:
        """Return the hash of the text with more at its end."""
        longer = object.__new__(type(self))
        longer._state = self._state.copy()
        longer._state.update(text.encode())
        return longer

    def hexdigest(self) -> str:
        return self._state.hexdigest()


class Rope:
    """Text that grows at its end, and its SHA-256.

    Parts that are not longer than what follows are merged, so that a text of n pieces is kept in
    about log n parts, and joining them costs little more than one copy.
    """

    __slots__ = ("_hash", "_parts")

    def __init__(self, pieces: Iterable[str] = ()) -> None:
        text = "".join(pieces)
        self._parts: tuple[str, ...] = (text,) if text else ()
        self._hash = TextHash(text)

    def append(self, piece: str) -> Self:
        """Return this text followed by a piece."""
        longer = object.__new__(type(self))
        longer._parts = _merge(self._parts, piece)
        longer._hash = self._hash.append(piece)
        return longer

    @property
    def text(self) -> str:
        return "".join(self._parts)

    @property
    def parts(self) -> tuple[str, ...]:
        """The text in a few parts, for joining it with others."""
        return self._parts

    @property
    def hash(self) -> str:
        """SHA-256 of the UTF-8 bytes, in hex."""
        return self._hash.hexdigest()

    def __bool__(self) -> bool:
        return bool(self._parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rope) and self.hash == other.hash

    def __hash__(self) -> int:
        return hash(self.hash)

    def __repr__(self) -> str:
        return f"{type(self).__name__}([{self.text!r:.80}])"


def _merge(parts: tuple[str, ...], piece: str) -> tuple[str, ...]:
    if not piece:
        return parts
    kept, size = len(parts), len(piece)
    while kept and len(parts[kept - 1]) <= size:
        kept -= 1
        size += len(parts[kept])
    return (*parts[:kept], "".join((*parts[kept:], piece)))
