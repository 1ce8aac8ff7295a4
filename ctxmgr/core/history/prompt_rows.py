"""Prompts as rows of counted blocks, and where two of them first differ. Pure.

    prompt   rows, one for each section that is not empty
    row      the blocks of one section
    block    a piece of text, counted once; a block that two prompts share is one value

The prompts of a long session differ by a few blocks. The next row is built from the previous one,
so that a step costs a comparison of the blocks, and reading and counting only the new ones.

Comparing two prompts skips the blocks they share by identity and compares characters only where the
blocks differ.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, Self, TypeAlias

from ctxmgr.core.context.assembly import Block, PieceKind, Section

Count: TypeAlias = Callable[[str], int]

JOINED: Final = frozenset({Section.POOL, Section.CHAT})
"""Sections whose blocks are not separated by an empty line."""


_KINDS: Final = {
    Section.SYSTEM: PieceKind.SYSTEM,
    Section.POOL: PieceKind.LISTED,
    Section.CHAT: PieceKind.ASSISTANT,
    Section.ACTIVE: PieceKind.OUTPUT,
}
"""What a block shows if only its section is known; in the other sections a contribution."""


@dataclass(frozen=True, slots=True, eq=False)
class CountedBlock:
    """A block of a prompt with its sizes. Compared by identity, which is fast."""

    section: Section
    object_id: str | None
    text: str = field(repr=False)
    tokens: int
    size_bytes: int
    """In UTF-8."""
    kind: PieceKind
    hash: str | None = field(default=None, repr=False)
    """SHA-256 of the text; None if its section is hashed as a whole."""
    key: str = ""
    """Names what it shows of a turn in the economy layout; empty elsewhere."""
    hidden_tokens: int = 0
    """Of the text that folding hides."""

    @classmethod
    def of(
        cls,
        section: Section,
        object_id: str | None,
        text: str,
        *,
        count: Count,
        hashed: str | None = None,
        kind: PieceKind | None = None,
        key: str = "",
        hidden_tokens: int = 0,
    ) -> Self:
        size = len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
        kind = kind or _KINDS.get(section, PieceKind.LAYER)
        return cls(section, object_id, text, count(text), size, kind, hashed, key, hidden_tokens)


class PromptRow:
    """The blocks of one section. Immutable for its readers."""

    __slots__ = (
        "_kept",
        "_mark",
        "_positions",
        "_previous",
        "blocks",
        "kind_tokens",
        "section",
        "size_bytes",
        "tokens",
    )

    def __init__(self, section: Section) -> None:
        self.section = section
        self.blocks: tuple[CountedBlock, ...] = ()
        self.tokens = 0
        self.size_bytes = 0
        self.kind_tokens: Counter[PieceKind] = Counter()
        self._positions = _Positions()
        # The previous row is identified by a mark: a reference to it would keep every row alive.
        self._mark = object()
        self._previous: object = None
        self._kept = 0

    def become(self, blocks: Sequence[CountedBlock]) -> "PromptRow":
        """Return the row with these blocks; this row itself if they are its own."""
        blocks = tuple(blocks)
        kept = common_length(self.blocks, blocks)
        old, new = self.blocks[kept:], blocks[kept:]
        if not old and not new:
            return self
        ending = common_length(old[::-1], new[::-1])
        removed, added = old[: len(old) - ending], new[: len(new) - ending]
        row = PromptRow(self.section)
        row.blocks = blocks
        row._previous, row._kept = self._mark, kept
        row.tokens = self.tokens + _tokens(added) - _tokens(removed)
        row.size_bytes = self.size_bytes + _bytes(added) - _bytes(removed)
        row.kind_tokens = Counter(self.kind_tokens)
        for block in added:
            row.kind_tokens[block.kind] += block.tokens
        for block in removed:
            row.kind_tokens[block.kind] -= block.tokens
        if not old and self._positions.longest == kept:
            # This row only appends, and no other row has appended to the previous one.
            row._positions = self._positions
        row._positions.longest = len(blocks)
        return row

    def shared(self, other: Self) -> int:
        """Return how many blocks both rows begin with; for the previous row that is stored."""
        if self is other:
            return len(self.blocks)
        return (
            self._kept
            if self._previous is other._mark
            else common_length(other.blocks, self.blocks)
        )

    def opens(self, index: int) -> bool:
        """Whether a block begins a paragraph."""
        return index == 0 or self.section not in JOINED

    def has(self, object_id: str | None) -> bool:
        """Whether one of the blocks belongs to an object."""
        return self._positions.first(object_id, self.blocks) < len(self.blocks)


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """The rows of one prompt in order, without empty ones."""

    rows: tuple[PromptRow, ...]

    @classmethod
    def of(cls, blocks: Iterable[Block], *, count: Count) -> Self:
        """Count the blocks of a context."""
        rows = []
        for section, in_section in groupby(blocks, lambda block: block.section):
            counted = [
                CountedBlock.of(section, block.object_id, block.text, count=count)
                for block in in_section
            ]
            rows.append(PromptRow(section).become(counted))
        return cls(tuple(rows))

    @property
    def tokens(self) -> int:
        return sum(row.tokens for row in self.rows)

    def kind_tokens(self) -> Counter[PieceKind]:
        """Return the tokens by what the blocks show."""
        total: Counter[PieceKind] = Counter()
        for row in self.rows:
            total.update(row.kind_tokens)
        return total

    def row(self, section: Section) -> PromptRow:
        return next((row for row in self.rows if row.section is section), PromptRow(section))

    def text(self) -> str:
        """Return the prompt as one string."""
        return "".join(
            ("\n" if row.opens(index) and (number or index) else "") + block.text
            for number, row in enumerate(self.rows)
            for index, block in enumerate(row.blocks)
        )


class _Positions:
    """The first position of each object in a row, filled on demand.

    A row that only grew shares it with the previous row, as ``AppendOnly`` shares its items: a
    position beyond a row's length does not belong to that row.
    """

    __slots__ = ("_first", "_scanned", "longest")

    def __init__(self) -> None:
        self._first: dict[str | None, int] = {}
        self._scanned = 0
        self.longest = 0
        """Blocks of the longest row that shares it."""

    def first(self, object_id: str | None, blocks: Sequence[CountedBlock]) -> int:
        for position in range(self._scanned, len(blocks)):
            self._first.setdefault(blocks[position].object_id, position)
        self._scanned = max(self._scanned, len(blocks))
        return self._first.get(object_id, self._scanned)


def common_length(one: Sequence[Any], two: Sequence[Any]) -> int:
    """Return how many items both begin with, by bisection: comparing slices is fast."""
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


def _tokens(blocks: Iterable[CountedBlock]) -> int:
    return sum(block.tokens for block in blocks)


def _bytes(blocks: Iterable[CountedBlock]) -> int:
    return sum(block.size_bytes for block in blocks)


class PromptCursor:
    """A position in a prompt. The empty line before a paragraph belongs to its first block."""

    __slots__ = ("_index", "_offset", "_prompt", "_row")

    def __init__(self, prompt: Prompt) -> None:
        self._prompt = prompt
        self._row = self._index = self._offset = 0

    @property
    def block(self) -> CountedBlock | None:
        """The block at this position; None at the end of the prompt."""
        rows = self._prompt.rows
        return rows[self._row].blocks[self._index] if self._row < len(rows) else None

    @property
    def chars(self) -> int:
        """Characters of the block before this position."""
        return max(0, self._offset - len(self._gap()))

    def rest(self) -> str:
        """Return the rest of the block."""
        assert self.block is not None
        return (self._gap() + self.block.text)[self._offset :]

    def skip(self, chars: int) -> None:
        """Advance within the block; from its end, to the next block."""
        assert self.block is not None
        self._offset += chars
        if self._offset == len(self._gap()) + len(self.block.text):
            self._offset = 0
            self._advance(1)

    def skip_same(self, other: Self) -> None:
        """Advance both cursors over the blocks that are the same from here on."""
        while self.block is not None and other.block is not None:
            mine, theirs = self._prompt.rows[self._row], other._prompt.rows[other._row]
            same_place = mine.section is theirs.section and self._gap() == other._gap()
            if self._offset or other._offset or not same_place:
                return
            if self._index == other._index == 0:
                kept = theirs.shared(mine)
            else:
                kept = common_length(mine.blocks[self._index :], theirs.blocks[other._index :])
            whole = self._index + kept == len(mine.blocks)
            whole = whole and other._index + kept == len(theirs.blocks)
            self._advance(kept)
            other._advance(kept)
            if not whole:
                return

    def tokens_before(self, other: Prompt, *, count: Count) -> int:
        """Count the tokens before this position; ``other`` is a prompt that is equal up to it."""
        whole = sum(row.tokens for row in self._prompt.rows[: self._row])
        if self.block is None:
            return whole
        passed = self._passed(other).tokens
        return whole + passed + (count(self.block.text[: self.chars]) if self.chars else 0)

    def bytes_before(self, other: Prompt) -> int:
        """Likewise for UTF-8 bytes, empty lines included."""
        rows = self._prompt.rows[: self._row]
        whole = sum(row.size_bytes for row in rows)
        paragraphs = sum(_paragraphs(row, len(row.blocks)) for row in rows)
        if self.block is None:
            return whole + max(0, paragraphs - 1)
        paragraphs += _paragraphs(self._prompt.rows[self._row], self._index)
        begun = (self._gap() + self.block.text)[: self._offset]
        passed = self._passed(other).size_bytes + len(begun.encode(errors="surrogatepass"))
        return whole + passed + max(0, paragraphs - 1)

    def _passed(self, other: Prompt) -> PromptRow:
        """Return the blocks of this row before this position.

        They are mostly the whole row of the other prompt, whose sizes are known.
        """
        row = self._prompt.rows[self._row]
        previous = other.row(row.section)
        if self._index == len(previous.blocks) == row.shared(previous):
            return previous
        return PromptRow(row.section).become(row.blocks[: self._index])

    def _gap(self) -> str:
        first = self._row == self._index == 0
        opens = self._row < len(self._prompt.rows) and self._prompt.rows[self._row].opens
        return "\n" if opens and opens(self._index) and not first else ""

    def _advance(self, blocks: int) -> None:
        self._index += blocks
        if self._index == len(self._prompt.rows[self._row].blocks):
            self._row, self._index = self._row + 1, 0


def first_difference(before: Prompt, now: Prompt) -> tuple[PromptCursor, PromptCursor]:
    """Return a cursor in each prompt where they first differ."""
    old, new = PromptCursor(before), PromptCursor(now)
    old.skip_same(new)
    while old.block is not None and new.block is not None:
        common = common_length(old.rest(), new.rest())
        if not common:
            break
        old.skip(common)
        new.skip(common)
        old.skip_same(new)
    return old, new


def _paragraphs(row: PromptRow, blocks: int) -> int:
    """Count the paragraphs that the first blocks of a row begin."""
    return min(1, blocks) if row.section in JOINED else blocks
