"""What is searched: sources, cut into pieces. Pure.

A source is a note, a file, a transcript's session or a memory. A piece is one turn of a
conversation, or some 300 characters of other text. Pieces are slices of the source's text, so the
text is stored once.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from typing import Final, Self

PIECE_CHARS: Final = 300
"""A piece of a text is closed by the line or sentence that reaches this length."""

PIECE_CHARS_MAX: Final = 1_200
"""A line without sentences is cut here."""

SOURCE_CHARS_MAX: Final = 2_000_000
"""Characters of a source that are indexed, from its beginning."""

_UNIT: Final = re.compile(r"\n|(?<=[.!?])\s+")
"""Where a piece may end: at the end of a line or sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A slice of a source's text."""

    start: int
    end: int
    speaker: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSource:
    """A text that can be found."""

    source_id: str
    """A path or an object's id; unique in an index."""
    category: str
    text: str = field(repr=False)
    pieces: tuple[Piece, ...] = field(repr=False)
    day: date | None = None
    """When it was said or written, for questions about a time."""

    @classmethod
    def from_text(
        cls, text: str, *, source_id: str, category: str, day: date | None = None
    ) -> Self:
        """Cut a text into pieces at lines and sentences."""
        text = text[:SOURCE_CHARS_MAX]
        return cls(
            source_id=source_id, category=category, text=text, pieces=tuple(_cut(text)), day=day
        )

    @classmethod
    def from_turns(
        cls,
        turns: Iterable[tuple[str | None, str]],
        *,
        source_id: str,
        category: str,
        day: date | None = None,
    ) -> Self:
        """Take each turn (speaker, text) as a piece."""
        texts: list[str] = []
        pieces: list[Piece] = []
        start = 0
        for speaker, text in turns:
            kept = text[: SOURCE_CHARS_MAX - start]
            pieces.append(Piece(start=start, end=start + len(kept), speaker=speaker))
            texts.append(kept)
            start += len(kept) + 1
            if start >= SOURCE_CHARS_MAX:
                break
        return cls(
            source_id=source_id,
            category=category,
            text="\n".join(texts),
            pieces=tuple(pieces),
            day=day,
        )

    def piece_texts(self) -> list[str]:
        return [self.text[piece.start : piece.end] for piece in self.pieces]


def _cut(text: str) -> Iterable[Piece]:
    start = position = 0
    ends = [match.end() for match in _UNIT.finditer(text)]
    for end in (*ends, len(text)):
        while end - start > PIECE_CHARS_MAX:
            cut = position if position - start >= PIECE_CHARS else start + PIECE_CHARS_MAX
            yield Piece(start=start, end=cut)
            start = position = cut
        position = end
        if end - start >= PIECE_CHARS:
            yield Piece(start=start, end=end)
            start = end
    if text[start:].strip() or not text:
        yield Piece(start=start, end=len(text))
