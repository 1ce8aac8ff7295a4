"""Shorten a long text to its most useful lines and a handle. Pure.

    first lines                        a head
    ...
    lines chosen for what they hold    whole, never cut
    [12 lines as in #5]                lines that are visible elsewhere in the prompt
    ...
    last lines                         a tail
    [#17 +1234 tok: name other_name]   the handle, the hidden tokens, and names visible nowhere else

A ``TextView`` says which characters of a text are shown. It is decided once, stored, and rendered
from the text alone, so that a prompt can be rebuilt without deciding again. A line longer than
``LINE_CHARS_MAX`` is divided after punctuation or white space.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
from itertools import groupby
from typing import Any, Final, Self, TypeVar

from ctxmgr.core.economy.visible_names import VisibleNames, identifier_set, identifiers

LINE_CHARS_MAX: Final = 240
"""Characters kept or hidden as one unit. One-line JSON would otherwise be all or nothing."""

GAP: Final = "..."
GAP_TOKENS: Final = 1

HANDLE_TOKENS: Final = 9
"""Of ``[#17 +1234 tok]``, for deciding whether folding is worth it."""

ERROR_VALUE: Final = 2.0
"""The value of a line that reports a failure, besides that of its names."""

SIGNATURE_VALUE: Final = 0.5
"""Likewise for a line with a signature. A higher value would displace lines that are used again."""

_ERROR = re.compile(
    r"\b(?:[A-Z]\w*(?:Error|Exception)|ERROR|FAILED|FAIL|error|fatal|panic|Traceback)\b"
)
_CUT = re.compile(r"[,;}\])] ?|\s")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")

Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line, or a part of a very long one."""

    start: int
    end: int
    """With its newline."""
    tokens: int
    names: tuple[str, ...]
    value: float = 0.0
    """Besides that of its names."""


@dataclass(frozen=True, slots=True)
class FoldableText:
    """A text with everything that folding needs. Created once per content."""

    content: str = field(repr=False)
    lines: tuple[TextLine, ...] = field(repr=False)
    tokens: int

    @classmethod
    def of(cls, content: str, *, count: Count, signatures: Collection[int] = frozenset()) -> Self:
        """Analyse a text; ``signatures`` are the numbers, from 0, of lines with signatures."""
        lines = tuple(
            _line(content, start, end, count=count, signature=row in signatures)
            for row, start, end in _spans(content)
        )
        return cls(content, lines, count(content))


@dataclass(frozen=True, slots=True)
class TextSpan:
    """Characters that are shown, or that are visible elsewhere."""

    start: int
    end: int
    as_in: str | None = None
    """The label of the text that shows the same lines."""

    def to_value(self) -> list[Any]:
        return [self.start, self.end] + ([self.as_in] if self.as_in else [])


_Part = TypeVar("_Part", TextLine, TextSpan)


@dataclass(frozen=True, slots=True)
class TextView:
    """What is shown of a text: some of its characters, in order, and some hidden names."""

    spans: tuple[TextSpan, ...]
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
        spans = tuple(TextSpan(*span) for span in value["spans"])
        return cls(spans, tuple(value["names"]), value["hidden_tokens"])


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldLimits:
    """How short a text becomes."""

    tokens: int
    """For the lines that are kept."""
    ends: float = 0.0
    """The share of ``tokens`` for head and tail."""
    names_tokens: int = 300
    """For the names in hidden lines."""


def shown(content: str, view: TextView | None, *, handle: str, title: str = "") -> str:
    """Return a text as its view shows it; without a view, whole.

    ``title`` replaces the handle if nothing else of the text is shown.
    """
    if view is None:
        return content
    pieces: list[str] = []
    position = 0
    for span in view.spans:
        if span.start > position:
            pieces.append(GAP + "\n")
        if span.as_in is None:
            pieces.append(content[span.start : span.end])
        else:
            text = content[span.start : span.end]
            number = text.count("\n") + (not text.endswith("\n"))
            pieces.append(f"[{number} lines as in {span.as_in}]\n")
        if pieces[-1] and not pieces[-1].endswith("\n"):
            pieces.append("\n")
        position = span.end
    if position < len(content) and view.spans:
        pieces.append(GAP + "\n")
    return "".join(pieces) + _handle(view, handle if view.spans else title or handle)


def fold(
    text: FoldableText,
    *,
    limits: FoldLimits,
    visible: VisibleNames,
    repeats: Sequence[TextSpan] = (),
    count: Count,
) -> TextView | None:
    """Choose what is kept of a text, which is not itself counted in ``visible``.

    None: all of it, since the folded form would not be shorter.
    """
    if not repeats and text.tokens <= limits.tokens + HANDLE_TOKENS:
        return None
    elsewhere = {
        row
        for span in repeats
        for row, line in enumerate(text.lines)
        if span.start <= line.start and line.end <= span.end
    }
    remaining_tokens = sum(
        line.tokens for row, line in enumerate(text.lines) if row not in elsewhere
    )
    if remaining_tokens <= limits.tokens:
        kept = set(range(len(text.lines))) - elsewhere
    else:
        kept = _chosen(text, limits=limits, visible=visible, without=elsewhere)
    view = _view(text, kept, repeats)
    hidden = [
        line for row, line in enumerate(text.lines) if row not in kept and row not in elsewhere
    ]
    kept_names = {name for row in kept for name in text.lines[row].names}
    names = _names(hidden, kept_names, visible=visible, budget=limits.names_tokens, count=count)
    hidden_tokens = sum(line.tokens for line in hidden)
    view = TextView(view.spans, names, hidden_tokens)
    return view if count(shown(text.content, view, handle="#100")) < text.tokens else None


def visible_lines(text: FoldableText, view: TextView | None) -> Iterable[TextLine]:
    """Yield the lines that the prompt shows."""
    return text.lines if view is None else _within(text.lines, view)


def visible_spans(content: str, view: TextView | None) -> Iterator[TextSpan]:
    """Yield where the lines are that the prompt shows, without analysing them."""
    spans = (TextSpan(start, end) for _, start, end in _spans(content))
    return spans if view is None else _within(spans, view)


def has_long_line(content: str) -> bool:
    """Whether a line may be divided, and a name with it."""
    return max(map(len, content.split("\n"))) >= LINE_CHARS_MAX


def visible_names(content: str, view: TextView | None) -> frozenset[str]:
    """Return the names in the lines that the prompt shows."""
    if view is not None and not view.spans:
        return frozenset()
    if has_long_line(content):
        spans: Iterable[TextSpan] = visible_spans(content, view)
    elif view is None:
        return identifier_set(content)
    else:
        spans = (span for span in view.spans if span.as_in is None)
    # A name does not continue in the next line.
    return identifier_set("\n".join([content[span.start : span.end] for span in spans]))


def _within(lines: Iterable[_Part], view: TextView) -> Iterator[_Part]:
    spans = [span for span in view.spans if span.as_in is None]
    index = 0
    for line in lines:
        while index < len(spans) and spans[index].end <= line.start:
            index += 1
        if index == len(spans):
            return
        if spans[index].start <= line.start:
            yield line


def _handle(view: TextView, handle: str) -> str:
    price = f" +{view.hidden_tokens} tok" if view.hidden_tokens else ""
    names = ": " + " ".join(view.names) if view.names else ""
    return f"[{handle}{price}{names}]" if price or names else f"[{handle}]"


def _chosen(
    text: FoldableText, *, limits: FoldLimits, visible: VisibleNames, without: set[int]
) -> set[int]:
    """Choose a head and a tail, then whole lines by their value per token."""
    kept: set[int] = set()
    left = limits.tokens
    ends = int(limits.tokens * limits.ends / 2)
    for order in (range(len(text.lines)), range(len(text.lines) - 1, -1, -1)):
        left -= _end(text, order, ends, kept, without)
    new = {name for row in kept for name in text.lines[row].names}
    candidates = [
        row
        for row in range(len(text.lines))
        if row not in kept and row not in without and text.lines[row].tokens <= left
    ]
    heap = []
    for row in candidates:
        worth = _worth(text.lines[row], new, visible)
        if worth > 0:
            heap.append((-worth / (text.lines[row].tokens + GAP_TOKENS), row))
    heapify(heap)
    # Lazy greedy choice: values only fall as names become visible, so the top of the heap is
    # valued again before it is taken.
    while heap and left > 0:
        ratio, row = heap[0]
        line = text.lines[row]
        now = -_worth(line, new, visible) / (line.tokens + GAP_TOKENS)
        if now > ratio and now < 0:
            heapreplace(heap, (now, row))
            continue
        heappop(heap)
        if now >= 0 or line.tokens + GAP_TOKENS > left:
            continue
        kept.add(row)
        left -= line.tokens + GAP_TOKENS
        new.update(line.names)
    return kept


def _end(
    text: FoldableText, order: Iterable[int], budget: int, kept: set[int], without: set[int]
) -> int:
    spent = 0
    for row in order:
        tokens = text.lines[row].tokens
        if row in kept or row in without or spent + tokens > budget:
            break
        kept.add(row)
        spent += tokens
    return spent


def _worth(line: TextLine, new: set[str], visible: VisibleNames) -> float:
    """Return the value of a line: its own, and that of its names that no visible line holds."""
    return line.value + sum(
        visible.value(name) for name in line.names if name not in new and not visible.in_line(name)
    )


def _names(
    hidden: Sequence[TextLine],
    kept_names: set[str],
    *,
    visible: VisibleNames,
    budget: int,
    count: Count,
) -> tuple[str, ...]:
    """Return hidden names that are visible nowhere, up to a budget in tokens."""
    candidates = dict.fromkeys(
        name
        for line in hidden
        for name in line.names
        if name not in kept_names and not visible.anywhere(name)
    )
    names, left = [], budget
    for name in candidates:
        left -= count(" " + name)
        if left < 0:
            break
        names.append(name)
    return tuple(names)


def _view(text: FoldableText, kept: set[int], repeats: Sequence[TextSpan]) -> TextView:
    spans = list(repeats)
    for _, group in groupby(enumerate(sorted(kept)), lambda pair: pair[1] - pair[0]):
        run = [row for _, row in group]
        spans.append(TextSpan(text.lines[run[0]].start, text.lines[run[-1]].end))
    return TextView(tuple(sorted(spans, key=lambda span: span.start)))


def _line(content: str, start: int, end: int, *, count: Count, signature: bool) -> TextLine:
    text = content[start:end]
    value = ERROR_VALUE if _ERROR.search(text) else SIGNATURE_VALUE if signature else 0.0
    return TextLine(start, end, count(text), identifiers(text), value)


def _spans(content: str) -> Iterator[tuple[int, int, int]]:
    """Yield row, start and end of every line, or of the parts of a long one."""
    for row, line in enumerate(_LINE.finditer(content)):
        for start, end in _cut(content, *line.span()):
            yield row, start, end


def _cut(content: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while end - start > LINE_CHARS_MAX:
        cut = start + LINE_CHARS_MAX
        for match in _CUT.finditer(content, start + LINE_CHARS_MAX // 2, cut):
            cut = match.end()
        yield start, cut
        start = cut
    if end > start:
        yield start, end
