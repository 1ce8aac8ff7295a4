"""Where two prompts in a row part, to the character. Pure.

What both begin with is passed over piece by piece, since the same piece is the same value; only
where the pieces differ are characters looked at.
"""

from ctxmgr.core.prompt_rows import JOINED, Count, CountedBlock, Prompt, Row, common_length


class Place:
    """A place in a prompt. The empty line before a paragraph belongs to its first piece."""

    __slots__ = ("_index", "_offset", "_prompt", "_row")

    def __init__(self, prompt: Prompt, row: int, index: int) -> None:
        self._prompt = prompt
        self._row, self._index, self._offset = row, index, 0
        self._settle()

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
            self._index, self._offset = self._index + 1, 0
            self._settle()

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
        passed = row.pieces[: self._index]
        return known if known.pieces == passed else Row(row.section).become(passed)

    def _gap(self) -> str:
        first = self._row == self._index == 0
        opens = self._row < len(self._prompt.rows) and self._prompt.rows[self._row].opens
        return "\n" if opens and opens(self._index) and not first else ""

    def _settle(self) -> None:
        rows = self._prompt.rows
        while self._row < len(rows) and self._index >= len(rows[self._row].pieces):
            self._row, self._index = self._row + 1, 0


def parted(before: Prompt, now: Prompt) -> tuple[Place, Place]:
    """Go through both prompts as far as they are alike."""
    row, index = _alike(before, now)
    old, new = Place(before, row, index), Place(now, row, index)
    while old.piece is not None and new.piece is not None:
        common = common_length(old.rest(), new.rest())
        if not common:
            break
        old.skip(common)
        new.skip(common)
    return old, new


def _alike(before: Prompt, now: Prompt) -> tuple[int, int]:
    """Return the first row in which the prompts have other pieces, and the first such piece."""
    for at, (old, new) in enumerate(zip(before.rows, now.rows, strict=False)):
        if old is new:
            continue
        if old.section is not new.section:
            return at, 0
        kept = common_length(old.pieces, new.pieces)
        if not kept == len(old.pieces) == len(new.pieces):
            return at, kept
    return min(len(before.rows), len(now.rows)), 0


def _paragraphs(row: Row, pieces: int) -> int:
    """Count the paragraphs that the first pieces of a row begin."""
    return min(1, pieces) if row.section in JOINED else pieces
