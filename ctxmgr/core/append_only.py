"""Immutable sequences for which appending costs only what is appended. Pure.

    AppendOnly   items; a longer sequence shares those of the shorter one
    Fold         a value computed from items; existing items are not read again
    OrderedIds   ids without duplicates; shared likewise
    TextHash     the SHA-256 of a text; existing text is not hashed again
    Rope         a text and its hash; existing text is not joined again

All are values that never change. If two sequences are made from the same shorter one, the second
copies it.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import count, islice
from operator import eq
from typing import Any, AnyStr, Generic, Self, TypeVar, overload

Item = TypeVar("Item")
State = TypeVar("State")


class _Trunk(Generic[Item]):
    """What sequences that grew from one another share."""

    __slots__ = ("folds", "items")

    def __init__(self, items: list[Item]) -> None:
        self.items = items
        self.folds: dict[Fold[Any, Any], tuple[int, Any]] = {}


class AppendOnly(Sequence[Item], Generic[Item]):
    """Items in the order in which they were added. Items themselves must not change, either."""

    __slots__ = ("_length", "_trunk")

    def __init__(self, items: Iterable[Item] = ()) -> None:
        # Shared with longer sequences: items beyond ``_length`` are not part of this one.
        self._trunk = _Trunk(list(items))
        self._length = len(self._trunk.items)

    @property
    def folds(self) -> "dict[Fold[Any, Any], tuple[int, Any]]":
        """For ``Fold``: how many items each has read of the longest sequence, and its state."""
        return self._trunk.folds

    def add(self, items: Iterable[Item]) -> Self:
        """Return a sequence with these items and the new ones."""
        trunk = self._trunk
        is_longest = 0 < self._length == len(trunk.items)
        longer = object.__new__(type(self))
        longer._trunk = trunk if is_longest else _Trunk(trunk.items[: self._length])
        longer._trunk.items.extend(items)
        longer._length = len(longer._trunk.items)
        return longer

    def continues(self, shorter: Self) -> bool:
        """Whether this is known, without comparing items, to begin with those of ``shorter``."""
        return self._trunk is shorter._trunk and self._length >= shorter._length

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Item]:
        return islice(self._trunk.items, self._length)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            if step > 0:
                return self._trunk.items[start:stop:step]
            return self._trunk.items[: self._length][index]
        if not -self._length <= index < self._length:
            raise IndexError(index)
        return self._trunk.items[index % self._length]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AppendOnly):
            return NotImplemented
        if self._length != other._length:
            return False
        return self._trunk is other._trunk or all(map(eq, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)!r})"


class Fold(Generic[Item, State]):
    """A value that is computed from the items of a sequence, one after the other.

    The state after a sequence is kept with it, so that a longer one only adds its new items. A
    state is a value, too: ``add`` returns another one, and leaves the first as it was.
    """

    __slots__ = ("_add", "_start")

    def __init__(self, start: State, *, add: Callable[[State, Sequence[Item]], State]) -> None:
        self._start = start
        self._add = add

    def of(self, items: AppendOnly[Item]) -> State:
        """Return the state after these items."""
        folds, length = items.folds, len(items)
        read: int
        state: State
        read, state = folds.get(self, (0, self._start))
        if read > length:  # a longer sequence was asked for first
            return self._add(self._start, items[:])
        if read < length:
            state = self._add(state, items[read:])
            folds[self] = (length, state)
        return state

    def keep(self, items: AppendOnly[Item], state: State) -> None:
        """Keep the state after these items, which the caller has computed."""
        items.folds[self] = (len(items), state)


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

    @property
    def in_order(self) -> AppendOnly[str]:
        """The same ids as a sequence."""
        return self._ids

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
        longer._parts = merged_parts(self._parts, piece)
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


def merged_parts(parts: tuple[AnyStr, ...], piece: AnyStr) -> tuple[AnyStr, ...]:
    """Append a piece to a text or to bytes that are kept in parts, as in a ``Rope``."""
    if not piece:
        return parts
    kept: int = len(parts)
    size = len(piece)
    while kept and len(parts[kept - 1]) <= size:
        kept -= 1
        size += len(parts[kept])
    merged = piece[:0].join(parts[kept:] + (piece,))  # noqa: RUF005 (mypy cannot type the other)
    return parts[:kept] + (merged,)  # noqa: RUF005
