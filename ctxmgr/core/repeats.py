"""Runs of lines that stand in the prompt already. Pure.

    a file read again   →   [120 lines as in #5 read a.py], what differs, [30 lines as in …]

A run is the same lines in the same order, all of them shown there now.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Final

from ctxmgr.core.folding import Line, Span, Text

LINE_CHARS_MIN: Final = 12
"""A run begins with a line of so many characters: shorter ones stand everywhere."""

PLACES_MAX: Final = 8
"""Places of one line that are followed, the newest first."""


class ShownLines:
    """The lines that are shown now, by the text that shows them."""

    __slots__ = ("_names", "_places", "_shown")

    def __init__(self) -> None:
        self._shown: dict[str, list[str]] = {}
        self._names: dict[str, str] = {}
        self._places: dict[str, list[tuple[str, int]]] = {}

    def enter(self, key: str, content: str, lines: Iterable[Line], *, name: str) -> None:
        """Note what a text shows, and by which name to refer to it."""
        shown = self._shown[key] = []
        self._names[key] = name
        end = None
        for line in lines:
            if line.start != end:
                shown.append("")  # a gap is equal to no line: they end with their newline
            text, end = _text(content, line), line.end
            if len(text.strip()) >= LINE_CHARS_MIN:
                self._places.setdefault(text, []).append((key, len(shown)))
            shown.append(text)

    def leave(self, key: str) -> None:
        """Forget what a text shows."""
        for text in set(self._shown.pop(key, ())):
            left = [place for place in self._places.get(text, ()) if place[0] != key]
            if left:
                self._places[text] = left
            else:
                self._places.pop(text, None)

    def repeats(self, text: Text, *, tokens_min: int) -> tuple[Span, ...]:
        """Find the runs of at least so many tokens."""
        return tuple(self._runs(text, tokens_min))

    def _runs(self, text: Text, tokens_min: int) -> Iterator[Span]:
        lines = [_text(text.content, line) for line in text.lines]
        at = 0
        while at < len(lines):
            length, key = self._longest(lines, at)
            run = text.lines[at : at + length]
            if sum(line.tokens for line in run) >= tokens_min:
                yield Span(run[0].start, run[-1].end, self._names[key])
                at += length
            else:
                at += 1

    def _longest(self, lines: Sequence[str], at: int) -> tuple[int, str]:
        best = (0, "")
        for key, place in reversed(self._places.get(lines[at], [])[-PLACES_MAX:]):
            length = _common(lines[at:], self._shown[key][place:])
            if length > best[0]:
                best = (length, key)
        return best


def _common(lines: Iterable[str], others: Iterable[str]) -> int:
    pairs = zip(lines, others, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _text(content: str, line: Line) -> str:
    text = content[line.start : line.end]
    return text if text.endswith("\n") else text + "\n"
