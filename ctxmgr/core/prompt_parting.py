"""Where two prompts in a row part, to the character. Pure.

What both begin with is passed over piece by piece, since the same piece is the same value; only
where the pieces differ are characters looked at.
"""

from typing import Self

from ctxmgr.core.prompt_rows import JOINED, Count, CountedBlock, Prompt, Row, common_length


class Place:
    """A place in a prompt. The empty line before a paragraph belongs to its first piece."""

    __slots__ = ("_index", "_offset", "_prompt", "_row")

    def __init__(self, prompt: Prompt) -> None:
        self._prompt = prompt
        self._row = self._index = self._offset = 0

    @property
    def piece(self) -> CountedBlock | None:
        """What stands here; None: the prompt has ended."""
        rows = self._prompt.rows
        return rows[self._row].pieces[self._index] if self._row < len(rows) else None

    @property
    def chars(self) -> int:
        """How far into the piece it is."""
        return max(0, self._offset - len(self._gap()))

    def rest(self) -> str:
        """Return what is left of the piece."""
        assert self.piece is not None
        return (self._gap() + self.piece.text)[self._offset :]

    def skip(self, chars: int) -> None:
        """Go on within the piece; at its end, to the next."""
        assert self.piece is not None
        self._offset += chars
        if self._offset == len(self._gap()) + len(self.piece.text):
            self._offset = 0
            self._pass(1)

    def skip_same(self, other: Self) -> None:
        """Go on, with the other, over the pieces that are the same in both from here."""
        while self.piece is not None and other.piece is not None:
            mine, theirs = self._prompt.rows[self._row], other._prompt.rows[other._row]
            if self._offset or other._offset or not self._stands_like(other):
                return
            if self._index == other._index == 0:
                kept = theirs.shared(mine)
            else:
                kept = common_length(mine.pieces[self._index :], theirs.pieces[other._index :])
            whole = self._index + kept == len(mine.pieces)
            whole = whole and other._index + kept == len(theirs.pieces)
            self._pass(kept)
            other._pass(kept)
            if not whole:
                return

    def tokens_before(self, other: Prompt, *, count: Count) -> int:
        """Count what stands before here; ``other`` is a prompt that is alike so far."""
        whole = sum(row.tokens for row in self._prompt.rows[: self._row])
        if self.piece is None:
            return whole
        passed = self._passed(other).tokens
        return whole + passed + (count(self.piece.text[: self.chars]) if self.chars else 0)

    def bytes_before(self, other: Prompt) -> int:
        """Likewise in UTF-8, with the empty lines."""
        rows = self._prompt.rows[: self._row]
        whole = sum(row.size_bytes for row in rows)
        paragraphs = sum(_paragraphs(row, len(row.pieces)) for row in rows)
        if self.piece is None:
            return whole + max(0, paragraphs - 1)
        paragraphs += _paragraphs(self._prompt.rows[self._row], self._index)
        begun = (self._gap() + self.piece.text)[: self._offset]
        passed = self._passed(other).size_bytes + len(begun.encode(errors="surrogatepass"))
        return whole + passed + max(0, paragraphs - 1)

    def _passed(self, other: Prompt) -> Row:
        """Return the pieces of this row before here: mostly all that the other prompt's row has."""
        row = self._prompt.rows[self._row]
        known = other.row(row.section)
        if self._index == len(known.pieces) == row.shared(known):
            return known
        return Row(row.section).become(row.pieces[: self._index])

    def _stands_like(self, other: Self) -> bool:
        """Tell whether the same piece here and there would be the same text."""
        mine, theirs = self._prompt.rows[self._row], other._prompt.rows[other._row]
        return mine.section is theirs.section and self._gap() == other._gap()

    def _gap(self) -> str:
        first = self._row == self._index == 0
        opens = self._row < len(self._prompt.rows) and self._prompt.rows[self._row].opens
        return "\n" if opens and opens(self._index) and not first else ""

    def _pass(self, pieces: int) -> None:
        self._index += pieces
        if self._index == len(self._prompt.rows[self._row].pieces):
            self._row, self._index = self._row + 1, 0


def parted(before: Prompt, now: Prompt) -> tuple[Place, Place]:
    """Go through both prompts as far as they are alike."""
    old, new = Place(before), Place(now)
    old.skip_same(new)
    while old.piece is not None and new.piece is not None:
        common = common_length(old.rest(), new.rest())
        if not common:
            break
        old.skip(common)
        new.skip(common)
        old.skip_same(new)
    return old, new


def _paragraphs(row: Row, pieces: int) -> int:
    """Count the paragraphs that the first pieces of a row begin."""
    return min(1, pieces) if row.section in JOINED else pieces
