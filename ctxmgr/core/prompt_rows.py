"""Prompts in rows of counted pieces: one after the other, they share what stays. Pure.

    prompt   rows, one for each section that is not empty
    row      the pieces of a section in one prompt
    piece    a block, counted once; the same piece in two prompts is the same value

A long session's prompts are alike to a few pieces. The next row is made from the one before, so
that a step costs a look at the pieces, and reading and counting only what is new.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, Self, TypeAlias

from ctxmgr.core.assembly import Block, Section

Count: TypeAlias = Callable[[str], int]

JOINED: Final = frozenset({Section.POOL, Section.CHAT})
"""Sections whose pieces follow one another without an empty line."""


@dataclass(frozen=True, slots=True, eq=False)
class CountedBlock:
    """A piece of a prompt with its sizes. One is equal to itself only, which is found at once."""

    section: Section
    object_id: str | None
    text: str = field(repr=False)
    tokens: int
    size_bytes: int
    """In UTF-8."""
    hash: str | None = field(default=None, repr=False)
    """SHA-256 of the text; None: its section is hashed as a whole."""

    @classmethod
    def of(
        cls,
        section: Section,
        object_id: str | None,
        text: str,
        *,
        count: Count,
        hashed: str | None = None,
    ) -> Self:
        size = len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
        return cls(section, object_id, text, count(text), size, hashed)


class Row:
    """The pieces of one section. A value: nothing that was read from it ever changes."""

    __slots__ = (
        "_before",
        "_kept",
        "_mark",
        "_places",
        "pieces",
        "section",
        "size_bytes",
        "tokens",
    )

    def __init__(self, section: Section) -> None:
        self.section = section
        self.pieces: tuple[CountedBlock, ...] = ()
        self.tokens = 0
        self.size_bytes = 0
        self._places = _Places()
        # The row before is known by a mark: to hold it would hold every row of a session.
        self._mark = object()
        self._before: object = None
        self._kept = 0

    def become(self, pieces: Sequence[CountedBlock]) -> "Row":
        """Return the row with these pieces; with its own it is the same value."""
        given = tuple(pieces)
        kept = common_length(self.pieces, given)
        old, new = self.pieces[kept:], given[kept:]
        if not old and not new:
            return self
        ending = common_length(old[::-1], new[::-1])
        gone, come = old[: len(old) - ending], new[: len(new) - ending]
        row = Row(self.section)
        row.pieces = given
        row._before, row._kept = self._mark, kept
        row.tokens = self.tokens + _tokens(come) - _tokens(gone)
        row.size_bytes = self.size_bytes + _bytes(come) - _bytes(gone)
        if not old and self._places.longest == kept:
            row._places = self._places
        row._places.longest = len(given)
        return row

    def shared(self, before: Self) -> int:
        """Return how many pieces both rows begin with; of the row before, that is known."""
        if self is before:
            return len(self.pieces)
        return (
            self._kept
            if self._before is before._mark
            else common_length(before.pieces, self.pieces)
        )

    def opens(self, index: int) -> bool:
        """Tell whether a piece begins a paragraph."""
        return index == 0 or self.section not in JOINED

    def has(self, object_id: str | None) -> bool:
        """Tell whether one of the pieces is of an object."""
        return self._places.first(object_id, self.pieces) < len(self.pieces)


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """All rows of one prompt, in their order, empty ones left out."""

    rows: tuple[Row, ...]

    @classmethod
    def of(cls, blocks: Iterable[Block], *, count: Count) -> Self:
        """Count the blocks of a context."""
        rows = []
        for section, given in groupby(blocks, lambda block: block.section):
            counted = [
                CountedBlock.of(section, each.object_id, each.text, count=count) for each in given
            ]
            rows.append(Row(section).become(counted))
        return cls(tuple(rows))

    @property
    def tokens(self) -> int:
        return sum(row.tokens for row in self.rows)

    def row(self, section: Section) -> Row:
        return next((row for row in self.rows if row.section is section), Row(section))

    def text(self) -> str:
        """Return the prompt in one piece."""
        return "".join(
            ("\n" if row.opens(index) and (at or index) else "") + piece.text
            for at, row in enumerate(self.rows)
            for index, piece in enumerate(row.pieces)
        )


class _Places:
    """Where the objects of a row stand first, noted when somebody asks.

    A row that has only grown shares it with the one before, as ``Growing`` does its items: a place
    beyond a row's length is not one of its own.
    """

    __slots__ = ("_first", "_noted", "longest")

    def __init__(self) -> None:
        self._first: dict[str | None, int] = {}
        self._noted = 0
        self.longest = 0
        """Pieces of the longest row that shares it."""

    def first(self, object_id: str | None, pieces: Sequence[CountedBlock]) -> int:
        for at in range(self._noted, len(pieces)):
            self._first.setdefault(pieces[at].object_id, at)
        self._noted = max(self._noted, len(pieces))
        return self._first.get(object_id, self._noted)


def common_length(one: Sequence[Any], two: Sequence[Any]) -> int:
    """Return how many items both begin with, by halves: comparing parts is fast."""
    low, high = 0, min(len(one), len(two))
    if one[:high] == two[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == two[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _tokens(pieces: Iterable[CountedBlock]) -> int:
    return sum(each.tokens for each in pieces)


def _bytes(pieces: Iterable[CountedBlock]) -> int:
    return sum(each.size_bytes for each in pieces)
