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


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """The pieces of one section."""

    section: Section
    pieces: tuple[CountedBlock, ...] = field(default=(), repr=False)
    tokens: int = 0
    size_bytes: int = 0

    def become(self, pieces: Sequence[CountedBlock]) -> Self:
        """Return the row with these pieces; with its own it is the same value."""
        given = tuple(pieces)
        kept = common_length(self.pieces, given)
        old, new = self.pieces[kept:], given[kept:]
        if not old and not new:
            return self
        return type(self)(
            self.section,
            given,
            self.tokens + _tokens(new) - _tokens(old),
            self.size_bytes + _bytes(new) - _bytes(old),
        )

    def opens(self, index: int) -> bool:
        """Tell whether a piece begins a paragraph."""
        return index == 0 or self.section not in JOINED

    def has(self, object_id: str | None) -> bool:
        return any(each.object_id == object_id for each in self.pieces)


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
