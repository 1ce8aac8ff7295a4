"""Find runs of lines that are visible in the prompt already. Pure.

    a file read again   →   [120 lines as in #5 read a.py], what differs, [30 lines as in …]

A run is the same lines in the same order, all of them shown there now.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Final

from ctxmgr.core.economy.folding import FoldableText, TextLine, TextSpan

LINE_CHARS_MIN: Final = 12
"""A run begins with a line of at least this many characters: shorter ones occur everywhere."""

OCCURRENCES_MAX: Final = 8
"""Occurrences of one line that are compared, the newest first."""


class VisibleLines:
    """The visible lines, by the text that shows them."""

    __slots__ = ("_names", "_occurrences", "_shown")

    def __init__(self) -> None:
        self._shown: dict[str, list[str]] = {}
        self._names: dict[str, str] = {}
        self._occurrences: dict[str, list[tuple[str, int]]] = {}
        """Line → the texts that show it, and its index there."""

    def enter(self, key: str, content: str, lines: Iterable[TextLine], *, name: str) -> None:
        """Add the lines that a text shows, and the name that refers to it."""
        shown = self._shown[key] = []
        self._names[key] = name
        end = None
        for line in lines:
            if line.start != end:
                shown.append("")  # a gap is equal to no line: they end with their newline
            text, end = _text(content, line), line.end
            if len(text.strip()) >= LINE_CHARS_MIN:
                self._occurrences.setdefault(text, []).append((key, len(shown)))
            shown.append(text)

    def leave(self, key: str) -> None:
        """Remove the lines that a text shows."""
        for text in set(self._shown.pop(key, ())):
            left = [where for where in self._occurrences.get(text, ()) if where[0] != key]
            if left:
                self._occurrences[text] = left
            else:
                self._occurrences.pop(text, None)

    def repeats(self, text: FoldableText, *, tokens_min: int) -> tuple[TextSpan, ...]:
        """Return the runs of at least ``tokens_min`` tokens."""
        return tuple(self._runs(text, tokens_min))

    def _runs(self, text: FoldableText, tokens_min: int) -> Iterator[TextSpan]:
        lines = [_text(text.content, line) for line in text.lines]
        row = 0
        while row < len(lines):
            length, key = self._longest(lines, row)
            run = text.lines[row : row + length]
            if sum(line.tokens for line in run) >= tokens_min:
                yield TextSpan(run[0].start, run[-1].end, self._names[key])
                row += length
            else:
                row += 1

    def _longest(self, lines: Sequence[str], row: int) -> tuple[int, str]:
        best = (0, "")
        for key, index in reversed(self._occurrences.get(lines[row], [])[-OCCURRENCES_MAX:]):
            pairs = zip(lines[row:], self._shown[key][index:], strict=False)
            length = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            if length > best[0]:
                best = (length, key)
        return best


def _text(content: str, line: TextLine) -> str:
    text = content[line.start : line.end]
    return text if text.endswith("\n") else text + "\n"
