"""Long text → short text that keeps its handle. Pure.

    first lines                        a head
    ...
    lines chosen for what they hold    whole, never cut
    [12 lines as in #5]                what stands elsewhere in the prompt
    ...
    last lines                         a tail
    [#17 +1234 tok: name other_name]   the handle, what is hidden, and names that stand nowhere else

A ``View`` says which characters of a text are shown. It is decided once, stored, and rendered from
the text alone, so that a prompt can be made again without deciding again. A line longer than
``LINE_CHARS_MAX`` is cut at places where structured text can be cut.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
from itertools import groupby
from typing import Any, Final, Self

from ctxmgr.core.identifiers import identifiers
from ctxmgr.core.standing import Standing

LINE_CHARS_MAX: Final = 240
"""Characters that are kept or hidden as one. One-line JSON would otherwise be all or nothing."""

GAP: Final = "..."
GAP_TOKENS: Final = 1

HANDLE_TOKENS: Final = 9
"""Of ``[#17 +1234 tok]``, for deciding whether folding is worth it."""

ERROR_VALUE: Final = 2.0
"""What a line that reports a failure is worth besides the names it holds."""

SIGNATURE_VALUE: Final = 0.5
"""Likewise of a line that says what a source file defines: more, and other lines that are used
again have to give way."""

_ERROR = re.compile(
    r"\b(?:[A-Z]\w*(?:Error|Exception)|ERROR|FAILED|FAIL|error|fatal|panic|Traceback)\b"
)
_CUT = re.compile(r"[,;}\])] ?|\s")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")

Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Line:
    """A line, or a part of a very long one."""

    start: int
    end: int
    """With its newline."""
    tokens: int
    names: tuple[str, ...]
    value: float = 0.0
    """Besides that of its names."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text with all that folding it needs to know. Made once per content."""

    content: str = field(repr=False)
    lines: tuple[Line, ...] = field(repr=False)
    tokens: int

    @classmethod
    def of(cls, content: str, *, count: Count, signatures: Collection[int] = frozenset()) -> Self:
        """Read a text; ``signatures`` numbers the lines, from 0, that say what is in a source."""
        lines = tuple(
            _line(content, start, end, count=count, signature=row in signatures)
            for row, start, end in _spans(content)
        )
        return cls(content, lines, count(content))


@dataclass(frozen=True, slots=True)
class Span:
    """Characters that are shown, or that stand elsewhere."""

    start: int
    end: int
    as_in: str | None = None
    """The handle of what shows the same lines."""

    def to_value(self) -> list[Any]:
        return [self.start, self.end] + ([self.as_in] if self.as_in else [])


@dataclass(frozen=True, slots=True)
class View:
    """What is shown of a text: some of its characters, in order, and some hidden names."""

    spans: tuple[Span, ...]
    names: tuple[str, ...] = ()
    hidden_tokens: int = 0

    def to_value(self) -> dict[str, Any]:
        return {
            "spans": [span.to_value() for span in self.spans],
            "names": list(self.names),
            "hidden_tokens": self.hidden_tokens,
        }

    @classmethod
    def from_value(cls, value: dict[str, Any]) -> Self:
        spans = tuple(Span(*each) for each in value["spans"])
        return cls(spans, tuple(value["names"]), value["hidden_tokens"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How short a text becomes."""

    tokens: int
    """Of the lines that stay."""
    ends: float = 0.0
    """The share of them for head and tail."""
    names_tokens: int = 300
    """Of the names of what is hidden."""


def shown(content: str, view: View | None, *, handle: str, title: str = "") -> str:
    """Return what stands in the prompt; no view: all of it.

    ``title`` stands for the handle where nothing else of the text is left.
    """
    if view is None:
        return content
    pieces: list[str] = []
    at = 0
    for span in view.spans:
        if span.start > at:
            pieces.append(GAP + "\n")
        if span.as_in is None:
            pieces.append(content[span.start : span.end])
        else:
            text = content[span.start : span.end]
            number = text.count("\n") + (not text.endswith("\n"))
            pieces.append(f"[{number} lines as in {span.as_in}]\n")
        if pieces[-1] and not pieces[-1].endswith("\n"):
            pieces.append("\n")
        at = span.end
    if at < len(content) and view.spans:
        pieces.append(GAP + "\n")
    return "".join(pieces) + _handle(view, handle if view.spans else title or handle)


def fold(
    text: Text,
    *,
    limits: Limits,
    standing: Standing,
    repeats: Sequence[Span] = (),
    count: Count,
) -> View | None:
    """Choose what stays of a text that does not stand in ``standing`` now.

    None: all of it, since the short form would not be shorter.
    """
    if not repeats and text.tokens <= limits.tokens + HANDLE_TOKENS:
        return None
    elsewhere = {number for span in repeats for number in _numbers(text, span)}
    rest = sum(line.tokens for at, line in enumerate(text.lines) if at not in elsewhere)
    if rest <= limits.tokens:
        kept = set(range(len(text.lines))) - elsewhere
    else:
        kept = _chosen(text, limits=limits, standing=standing, without=elsewhere)
    view = _view(text, kept, repeats)
    hidden = [line for at, line in enumerate(text.lines) if at not in kept and at not in elsewhere]
    there = {name for at in kept for name in text.lines[at].names}
    names = _names(hidden, there, standing=standing, budget=limits.names_tokens, count=count)
    hidden_tokens = sum(line.tokens for line in hidden)
    view = View(view.spans, names, hidden_tokens)
    return view if count(shown(text.content, view, handle="#100")) < text.tokens else None


def standing_lines(text: Text, view: View | None) -> Iterator[Line]:
    """Give the lines that the prompt shows."""
    if view is None:
        yield from text.lines
        return
    spans = [span for span in view.spans if span.as_in is None]
    at = 0
    for line in text.lines:
        while at < len(spans) and spans[at].end <= line.start:
            at += 1
        if at < len(spans) and spans[at].start <= line.start:
            yield line


def _handle(view: View, handle: str) -> str:
    price = f" +{view.hidden_tokens} tok" if view.hidden_tokens else ""
    names = ": " + " ".join(view.names) if view.names else ""
    return f"[{handle}{price}{names}]" if price or names else f"[{handle}]"


def _chosen(text: Text, *, limits: Limits, standing: Standing, without: set[int]) -> set[int]:
    """Take a head and a tail, then whole lines by what they bring for their price."""
    kept: set[int] = set()
    left = limits.tokens
    ends = int(limits.tokens * limits.ends / 2)
    for order in (range(len(text.lines)), range(len(text.lines) - 1, -1, -1)):
        left -= _end(text, order, ends, kept, without)
    new = {name for at in kept for name in text.lines[at].names}
    candidates = [
        at
        for at in range(len(text.lines))
        if at not in kept and at not in without and text.lines[at].tokens <= left
    ]
    heap = []
    for at in candidates:
        worth = _worth(text.lines[at], new, standing)
        if worth > 0:
            heap.append((-worth / (text.lines[at].tokens + GAP_TOKENS), at))
    heapify(heap)
    while heap and left > 0:
        ratio, at = heap[0]
        line = text.lines[at]
        now = -_worth(line, new, standing) / (line.tokens + GAP_TOKENS)
        if now > ratio and now < 0:
            heapreplace(heap, (now, at))
            continue
        heappop(heap)
        if now >= 0 or line.tokens + GAP_TOKENS > left:
            continue
        kept.add(at)
        left -= line.tokens + GAP_TOKENS
        new.update(line.names)
    return kept


def _end(text: Text, order: Iterable[int], budget: int, kept: set[int], without: set[int]) -> int:
    spent = 0
    for at in order:
        tokens = text.lines[at].tokens
        if at in kept or at in without or spent + tokens > budget:
            break
        kept.add(at)
        spent += tokens
    return spent


def _worth(line: Line, new: set[str], standing: Standing) -> float:
    """Sum what its names are worth that stand in no line yet."""
    return line.value + sum(
        standing.value(name)
        for name in line.names
        if name not in new and not standing.in_line(name)
    )


def _names(
    hidden: Sequence[Line], there: set[str], *, standing: Standing, budget: int, count: Count
) -> tuple[str, ...]:
    """List hidden names that stand nowhere, until their tokens are spent."""
    wanted = dict.fromkeys(
        name
        for line in hidden
        for name in line.names
        if name not in there and not standing.anywhere(name)
    )
    names, left = [], budget
    for name in wanted:
        left -= count(" " + name)
        if left < 0:
            break
        names.append(name)
    return tuple(names)


def _view(text: Text, kept: set[int], repeats: Sequence[Span]) -> View:
    spans = list(repeats)
    for _, group in groupby(enumerate(sorted(kept)), lambda pair: pair[1] - pair[0]):
        run = [at for _, at in group]
        spans.append(Span(text.lines[run[0]].start, text.lines[run[-1]].end))
    return View(tuple(sorted(spans, key=lambda span: span.start)))


def _numbers(text: Text, span: Span) -> Iterator[int]:
    for at, line in enumerate(text.lines):
        if span.start <= line.start and line.end <= span.end:
            yield at


def _line(content: str, start: int, end: int, *, count: Count, signature: bool) -> Line:
    text = content[start:end]
    value = ERROR_VALUE if _ERROR.search(text) else SIGNATURE_VALUE if signature else 0.0
    return Line(start, end, count(text), identifiers(text), value)


def _spans(content: str) -> Iterator[tuple[int, int, int]]:
    """Give row, start and end of every line, or part of one."""
    for row, found in enumerate(_LINE.finditer(content)):
        for start, end in _cut(content, *found.span()):
            yield row, start, end


def _cut(content: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while end - start > LINE_CHARS_MAX:
        cut = start + LINE_CHARS_MAX
        for found in _CUT.finditer(content, start + LINE_CHARS_MAX // 2, cut):
            cut = found.end()
        yield start, cut
        start = cut
    if end > start:
        yield start, end
