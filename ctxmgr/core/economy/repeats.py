"""Find runs of lines that are visible in the prompt already. Pure.

    a file read again   →   [120 lines as in #5 read a.py], what differs, [30 lines as in …]

A run is the same lines in the same order, all of them shown there now. Of several texts that show a
run of the same length, the newest in the stream is referred to. A part of a long line can be a run,
too: it is referred to by its characters, since nobody could find it by the number of its lines.

Texts of a session that was resumed are added with ``enter_later``: only the hashes of their lines
are computed, until a new text has a line in common with one of them.
"""

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from ctxmgr.core.economy.folding import (
    FoldableText,
    TextLine,
    TextSpan,
    has_long_line,
    visible_spans,
)

LINE_CHARS_MIN: Final = 12
"""A run begins with a line of at least this many characters: shorter ones occur everywhere."""

OCCURRENCES_MAX: Final = 8
"""Occurrences of one line that are compared, the newest first."""


_GAP: Final = ""
"""Between lines that a text shows: equal to none of them."""

_MIDDLE: Final = "…"
"""Likewise, where what comes next is not the beginning of a line."""


class LaterText(Protocol):
    """A text whose lines are looked at only when they are needed."""

    @property
    def content(self) -> str: ...

    def spans(self) -> Iterable[TextLine | TextSpan]:
        """Return where its visible lines are."""

    def name(self) -> str:
        """Return what refers to it."""


class VisibleLines:
    """The visible lines, by the text that shows them."""

    __slots__ = ("_hashes", "_keys", "_later", "_names", "_occurrences", "_orders", "_shown")

    def __init__(self) -> None:
        self._shown: dict[str, list[str]] = {}
        self._names: dict[str, str] = {}
        self._orders: dict[str, int] = {}
        """Key → its position among all texts, in the order in which they first entered."""
        self._keys: list[str] = []
        self._occurrences: dict[str, list[tuple[int, int]]] = {}
        """Line → the texts that show it, by their order, and its index there."""
        self._later: dict[str, LaterText] = {}
        self._hashes: set[int] | None = None
        """Of all lines of the texts of ``_later``, hidden ones too, and perhaps of others, without
        their newlines. None: not computed yet."""

    def order(self, key: str) -> int:
        """Return the position of a text among all; a new one comes last."""
        order = self._orders.get(key)
        if order is None:
            order = self._orders[key] = len(self._keys)
            self._keys.append(key)
        return order

    def enter(
        self, key: str, content: str, lines: Iterable[TextLine | TextSpan], *, name: str
    ) -> None:
        """Add the lines that a text shows, and the name that refers to it."""
        order = self.order(key)
        shown = self._shown[key] = []
        self._names[key] = name
        end = None
        for line in lines:
            if line.start != end:
                shown.append(_GAP if _begins(content, line) else _MIDDLE)
            text, end = _piece(content, line), line.end
            if len(text.strip()) >= LINE_CHARS_MIN:
                insort(self._occurrences.setdefault(text, []), (order, len(shown)))
            shown.append(text)

    def enter_later(self, key: str, text: LaterText) -> None:
        """Add a text that is looked at when it is needed."""
        self.order(key)
        self._later[key] = text
        self._hashes = None

    def leave(self, key: str) -> None:
        """Remove the lines that a text shows."""
        self._later.pop(key, None)
        order = self._orders.get(key)
        for text in set(self._shown.pop(key, ())):
            left = [where for where in self._occurrences.get(text, ()) if where[0] != order]
            if left:
                self._occurrences[text] = left
            else:
                self._occurrences.pop(text, None)

    def repeats(self, text: FoldableText, *, tokens_min: int) -> tuple[TextSpan, ...]:
        """Return the runs of at least ``tokens_min`` tokens."""
        if sum(line.tokens for line in text.lines) < tokens_min:
            return ()
        return tuple(self._runs(text, tokens_min))

    def _runs(self, text: FoldableText, tokens_min: int) -> Iterator[TextSpan]:
        lines = [_piece(text.content, line) for line in text.lines]
        self._look_at(lines)
        row = 0
        while row < len(lines):
            length, key, begins = self._longest(lines, row)
            run = text.lines[row : row + length]
            if sum(line.tokens for line in run) >= tokens_min:
                whole = begins and _begins(text.content, run[0]) and _ends(lines[row + length - 1])
                yield TextSpan(run[0].start, run[-1].end, self._names[key], whole)
                row += length
            else:
                row += 1

    def _longest(self, lines: Sequence[str], row: int) -> tuple[int, str, bool]:
        """Return the length of a run, the text that shows it, and whether a line begins there."""
        best = (0, "", False)
        for order, index in reversed(self._occurrences.get(lines[row], [])[-OCCURRENCES_MAX:]):
            key = self._keys[order]
            shown = self._shown[key]
            begins = index == 0 or shown[index - 1] == _GAP or _ends(shown[index - 1])
            most = min(len(lines) - row, len(shown) - index)
            length = next((n for n in range(most) if lines[row + n] != shown[index + n]), most)
            if length > best[0]:
                best = (length, key, begins)
        return best

    def _look_at(self, lines: Iterable[str]) -> None:
        """Enter every text of ``_later`` that shows one of these lines."""
        if not self._later:
            return
        if self._hashes is None:
            texts = (text.content for text in self._later.values())
            self._hashes = {hash(line) for content in texts for line in _whole_lines(content)}
        common = {
            line
            for line in lines
            if hash(_bare(line)) in self._hashes and len(line.strip()) >= LINE_CHARS_MIN
        }
        if not common:
            return
        bare = set(map(_bare, common))
        for key, text in list(self._later.items()):
            if bare.isdisjoint(_whole_lines(text.content)):
                continue
            spans = list(text.spans())
            if not common.isdisjoint(_piece(text.content, span) for span in spans):
                del self._later[key]
                self.enter(key, text.content, spans, name=text.name())
        self._hashes.difference_update(map(hash, bare))


def _whole_lines(content: str) -> list[str]:
    """Return the lines of a text, hidden ones too, without newlines; long ones are divided."""
    if has_long_line(content):
        return [_bare(_piece(content, span)) for span in visible_spans(content, None)]
    return content.split("\n")


def _piece(content: str, line: TextLine | TextSpan) -> str:
    """Return a line, which ends with a newline, or a part of a long one, which does not."""
    text = content[line.start : line.end]
    return text if _ends(text) or line.end < len(content) else text + "\n"


def _begins(content: str, line: TextLine | TextSpan) -> bool:
    return line.start == 0 or content[line.start - 1] == "\n"


def _ends(line: str) -> bool:
    return line.endswith("\n")


def _bare(line: str) -> str:
    return line.removesuffix("\n")
