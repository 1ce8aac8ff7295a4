"""Shorten a long text to its most useful lines and a handle. Pure.

    first lines                        a head
    ⋯ lines 40–51                      a hole; of a file, these are the numbers of its lines
    lines chosen for what they hold    whole, never cut
    [12 lines as in #5]                lines that are visible elsewhere in the prompt
    [480 characters as in #5]          likewise, a part of a long line
    ⋯ lines 80–97
    last lines                         a tail
    [#17 +1234 tok: name other_name]   the handle, the hidden tokens, and names visible nowhere else

Three kinds of lines always stay: changed lines of a diff, the last lines of a command that failed,
and lines that another text refers to. A text is folded only if that saves at least half of it.

A ``TextView`` says which characters of a text are shown. It is decided once, stored, and rendered
from the text alone, so that a prompt can be rebuilt without deciding again. A line longer than
``LINE_CHARS_MAX`` is divided after punctuation or white space. Views of the renderer ``economy/1``
have no line numbers: their holes are ``...``.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush, heapreplace
from itertools import groupby
from typing import Any, Final, Self, TypeVar

from ctxmgr.core.economy.protected import protected_rows
from ctxmgr.core.economy.visible_names import VisibleNames, identifier_set, identifiers

LINE_CHARS_MAX: Final = 160
"""Characters kept or hidden as one unit. One-line JSON would otherwise be all or nothing."""

GAP_TOKENS: Final = 8
"""Of ``⋯ lines 40–51``. A hole that hides less is not made."""

_GAP_BEFORE: Final = "..."
"""A hole in the notation of ``economy/1``."""

SAVING_MIN: Final = 0.5
"""The share of its tokens that folding a text must save. Less makes it hard to read for nothing."""

HANDLE_TOKENS: Final = 9
"""Of ``[#17 +1234 tok]``, for deciding whether folding is worth it."""

ERROR_VALUE: Final = 2.0
"""The value of a line that reports a failure, besides that of its names."""

SIGNATURE_VALUE: Final = 0.5
"""Likewise for a line with a signature. A higher value would displace lines that are used again."""

ERROR = re.compile(
    r"\b(?:[A-Z]\w*(?:Error|Exception)|ERROR|FAILED|FAIL|error|fatal|panic|Traceback)\b"
)
_ANY_HANDLE: Final = "#100"
"""For counting: handles are about as long."""

_NUMBER = re.compile(r"\d+")
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
    protected: frozenset[int] = field(default=frozenset(), repr=False)
    """Indexes of lines that are never folded, unless nothing of the text is wanted."""

    @classmethod
    def of(
        cls,
        content: str,
        *,
        count: Count,
        signatures: Collection[int] = frozenset(),
        failed: bool = False,
    ) -> Self:
        """Analyse a text; ``signatures`` are the numbers, from 0, of lines with signatures."""
        rows, lines = [], []
        for row, start, end in _spans(content):
            rows.append(row)
            lines.append(_line(content, start, end, count=count, signature=row in signatures))
        protected = protected_rows(content, failed=failed)
        kept = frozenset(index for index, row in enumerate(rows) if row in protected)
        return cls(content, tuple(lines), count(content), kept if protected else frozenset())

    @property
    def protected_tokens(self) -> int:
        return sum(self.lines[index].tokens for index in self.protected)


@dataclass(frozen=True, slots=True)
class TextSpan:
    """Characters that are shown, or that are visible elsewhere."""

    start: int
    end: int
    as_in: str | None = None
    """The label of the text that shows the same lines."""
    whole: bool = True
    """Whether these are whole lines, and not a part of a long one."""

    def to_value(self) -> list[Any]:
        value: list[Any] = [self.start, self.end, *([self.as_in] if self.as_in else [])]
        return value if self.whole else [*value, False]


_Part = TypeVar("_Part", TextLine, TextSpan)


@dataclass(frozen=True, slots=True)
class TextView:
    """What is shown of a text: some of its characters, in order, and some hidden names."""

    spans: tuple[TextSpan, ...]
    names: tuple[str, ...] = ()
    hidden_tokens: int = 0
    first_line: int | None = None
    """The number of the text's first line; 0 if its lines have no numbers, as in an argument; None
    in views of ``economy/1``."""

    def to_value(self) -> dict[str, Any]:
        value: dict[str, Any] = {
            "spans": [span.to_value() for span in self.spans],
            "names": list(self.names),
            "hidden_tokens": self.hidden_tokens,
        }
        return value if self.first_line is None else value | {"first_line": self.first_line}

    @classmethod
    def from_value(cls, value: dict[str, Any]) -> Self:
        spans = tuple(TextSpan(*span) for span in value["spans"])
        return cls(spans, tuple(value["names"]), value["hidden_tokens"], value.get("first_line"))


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldLimits:
    """How short a text becomes."""

    tokens: int
    """For the lines that are kept."""
    ends: float = 0.0
    """The share of ``tokens`` for head and tail."""
    names_tokens: int = 300
    """For the names in hidden lines."""
    protects: bool = True
    """Whether changed lines of a diff and the last lines of a failed command stay."""
    only_repeats: bool = False
    """Whether only lines are hidden that are visible elsewhere."""
    refers: bool = True
    """Whether lines that are visible elsewhere may be shown by reference."""
    over: int | None = None
    """Only longer texts are folded; None: those that are longer than ``tokens``."""
    worth_min: float = 0.0
    """The value per token that a line must have to be kept, unless it is at an end or fixed."""
    saving_min: float = SAVING_MIN
    """The share of its tokens that folding a text must save."""


def shown(content: str, view: TextView | None, *, handle: str, title: str = "") -> str:
    """Return a text as its view shows it; without a view, whole.

    ``title`` replaces the handle if nothing else of the text is shown.
    """
    if view is None:
        return content
    if view.spans and view.spans[-1].end > len(content):
        return content  # purged since: the view is of the text that was there
    pieces: list[str] = []
    position = 0
    for span in view.spans:
        if span.start > position:
            pieces.append(_hole(content, position, span.start, view.first_line))
        if span.as_in is None:
            pieces.append(content[span.start : span.end])
        else:
            pieces.append(f"[{_size(content[span.start : span.end], span)} as in {span.as_in}]\n")
        if pieces[-1] and not pieces[-1].endswith("\n"):
            pieces.append("\n")
        position = span.end
    if position < len(content) and view.spans:
        pieces.append(_hole(content, position, len(content), view.first_line))
    return "".join(pieces) + _handle(view, handle if view.spans else title or handle)


def fold(
    text: FoldableText,
    *,
    limits: FoldLimits,
    visible: VisibleNames,
    repeats: Sequence[TextSpan] = (),
    required: Collection[int] = frozenset(),
    first_line: int = 1,
    count: Count,
) -> TextView | None:
    """Choose what is kept of a text, which is not itself counted in ``visible``.

    ``required`` are the indexes of lines that must stay, since another text refers to them.
    None: all of it, since the folded form would save less than ``limits.saving_min``.
    """
    over = limits.tokens if limits.over is None else limits.over
    if not repeats and text.tokens <= over + HANDLE_TOKENS:
        return None
    fixed = {*required, *(text.protected if limits.protects else ())}
    elsewhere = {
        row
        for span in repeats
        for row, line in enumerate(text.lines)
        if span.start <= line.start and line.end <= span.end
    }
    own = set(range(len(text.lines))) - elsewhere
    if limits.only_repeats or sum(text.lines[row].tokens for row in own) <= over:
        kept = own
    else:
        kept = _chosen(text, fixed - elsewhere, limits=limits, visible=visible, without=elsewhere)
        _fill(text, kept, elsewhere)
    most = int((1 - limits.saving_min) * text.tokens)
    view = _view(text, kept, repeats, own=own, first_line=first_line)
    left = most - count(shown(text.content, view, handle=_ANY_HANDLE))
    if kept < own and left >= 0:
        names_tokens = min(limits.names_tokens, left)
        hidden = [text.lines[row] for row in sorted(own - kept)]
        known = {name for row in kept for name in text.lines[row].names}
        names = _names(hidden, known, visible=visible, budget=names_tokens, count=count)
        return replace(view, names=names)
    # References lose nothing, and may save less than half.
    view = _view(text, own, repeats, own=own, first_line=first_line)
    shorter = count(shown(text.content, view, handle=_ANY_HANDLE)) < text.tokens
    return view if repeats and shorter else None


def kept_alone(text: FoldableText, *, limits: FoldLimits) -> int:
    """Return the tokens of the lines that would be kept if nothing else were visible."""
    kept = _chosen(text, text.protected, limits=limits, visible=VisibleNames(), without=set())
    return sum(text.lines[row].tokens for row in kept)


def digest_view(
    text: FoldableText, *, limits: FoldLimits, visible: VisibleNames, count: Count
) -> TextView:
    """Choose what a digest keeps of a call's texts."""
    own = set(range(len(text.lines)))
    kept = own
    if text.tokens > limits.tokens:
        kept = _chosen(text, text.protected, limits=limits, visible=visible, without=set())
    hidden = [text.lines[row] for row in sorted(own - kept)]
    known = {name for row in kept for name in text.lines[row].names}
    names = _names(hidden, known, visible=visible, budget=limits.names_tokens, count=count)
    return replace(_view(text, kept, (), own=own, first_line=0), names=names)


def digested(content: str, view: TextView, *, title: str) -> str:
    """Return a call as a digest shows it: a line that names it, then the lines that are kept."""
    texts = (content[span.start : span.end] for span in view.spans)
    kept = "".join(text if text.endswith("\n") else f"{text}\n" for text in texts)
    return f"{_handle(view, title)}\n{kept}"


def shortened(content: str, view: TextView) -> str:
    """Return the assistant's own text as a view shows it. It has no handle."""
    pieces, position = list[str](), 0
    for span in view.spans:
        text = content[span.start : span.end]
        hole = _hole(content, position, span.start, 0) if span.start > position else ""
        pieces.append(hole + (text if text.endswith("\n") else f"{text}\n"))
        position = span.end
    end = _hole(content, position, len(content), 0) if position < len(content) else ""
    return "".join([*pieces, end]).rstrip("\n")


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


def line_text(content: str, line: TextLine | TextSpan) -> str:
    """Return a line with its newline; the last line of a text may lack it."""
    text = content[line.start : line.end]
    return text if text.endswith("\n") else text + "\n"


def references(content: str, view: TextView | None) -> Iterator[tuple[str, str]]:
    """Yield the lines that a view shows by reference, each after the label that it refers to."""
    spans = () if view is None else [span for span in view.spans if span.as_in is not None]
    if not spans:
        return
    lines = [TextSpan(start, end) for _, start, end in _spans(content)]
    for span in spans:
        for line in lines:
            if span.start <= line.start and line.end <= span.end:
                assert span.as_in is not None
                yield span.as_in, line_text(content, line)


def _within(lines: Iterable[_Part], view: TextView) -> Iterator[_Part]:
    spans = [span for span in view.spans if span.as_in is None]
    index = 0
    for line in lines:
        while index < len(spans) and spans[index].end <= line.start:
            index += 1
        if index == len(spans):
            return
        if spans[index].start <= line.start and line.end <= spans[index].end:
            yield line


def _size(text: str, span: TextSpan) -> str:
    if not span.whole:
        return f"{len(text)} characters"
    return f"{text.count(chr(10)) + (not text.endswith(chr(10)))} lines"


def _hole(content: str, start: int, end: int, first_line: int | None) -> str:
    if first_line is None:
        return f"{_GAP_BEFORE}\n"
    if first_line == 0:
        return "⋯\n"
    first = first_line + content.count("\n", 0, start)
    last = first + content.count("\n", start, end - 1)
    inside = (start > 0 and content[start - 1] != "\n") or not (
        end == len(content) or content[end - 1] == "\n"
    )
    if first == last and inside:
        return f"⋯ {end - start} characters\n"
    return f"⋯ line {first}\n" if first == last else f"⋯ lines {first}–{last}\n"


def _handle(view: TextView, handle: str) -> str:
    price = f" +{view.hidden_tokens} tok" if view.hidden_tokens else ""
    names = ": " + " ".join(view.names) if view.names else ""
    return f"[{handle}{price}{names}]" if price or names else f"[{handle}]"


def _chosen(
    text: FoldableText,
    fixed: Collection[int],
    *,
    limits: FoldLimits,
    visible: VisibleNames,
    without: set[int],
) -> set[int]:
    """Choose a head and a tail besides what is fixed, then whole lines by their value per token."""
    kept: set[int] = set(fixed)
    left = limits.tokens - sum(text.lines[row].tokens for row in fixed)
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
            heap.append((-worth / _price(text, row, kept), row))
    heapify(heap)
    # Lazy greedy choice: the value of a line falls as its names become visible, so the top of the
    # heap is valued again before it is taken. Its price falls when a neighbour is kept, which saves
    # a hole: the neighbours of a line that was taken are therefore valued at once.
    while heap and left > 0:
        ratio, row = heap[0]
        if row in kept:
            heappop(heap)
            continue
        price = _price(text, row, kept)
        now = -_worth(text.lines[row], new, visible) / price
        if ratio < now < 0:
            heapreplace(heap, (now, row))
            continue
        heappop(heap)
        if now >= -limits.worth_min or price > left:
            continue
        kept.add(row)
        left -= price
        new.update(text.lines[row].names)
        for beside in (row - 1, row + 1):
            if 0 <= beside < len(text.lines) and beside not in kept and beside not in without:
                worth = _worth(text.lines[beside], new, visible)
                if worth > 0:
                    heappush(heap, (-worth / _price(text, beside, kept), beside))
    return kept


def _price(text: FoldableText, row: int, kept: Collection[int]) -> int:
    """Return the tokens of keeping a line: its own, and those of a hole that it adds or closes."""
    beside = (row - 1 in kept) + (row + 1 in kept)
    return max(1, text.lines[row].tokens + (1 - beside) * GAP_TOKENS)


def _fill(text: FoldableText, kept: set[int], without: set[int]) -> None:
    """Close holes that hide no more than their mark costs."""
    hole: list[int] = []
    for row in range(len(text.lines)):
        if row not in kept and row not in without:
            hole.append(row)
        elif hole:
            if sum(text.lines[hidden].tokens for hidden in hole) <= GAP_TOKENS and hole[0] > 0:
                kept.update(hole)
            hole = []


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
        if name not in kept_names and not _NUMBER.fullmatch(name) and not visible.anywhere(name)
    )
    names, left = [], budget
    for name in candidates:
        left -= count(" " + name)
        if left < 0:
            break
        names.append(name)
    return tuple(names)


def _view(
    text: FoldableText,
    kept: set[int],
    repeats: Sequence[TextSpan],
    *,
    own: set[int],
    first_line: int,
) -> TextView:
    """Return the view that shows some of the lines that are not repeats."""
    spans = list(repeats)
    for _, group in groupby(enumerate(sorted(kept)), lambda pair: pair[1] - pair[0]):
        run = [row for _, row in group]
        spans.append(TextSpan(text.lines[run[0]].start, text.lines[run[-1]].end))
    hidden_tokens = sum(text.lines[row].tokens for row in own - kept)
    in_order = tuple(sorted(spans, key=lambda span: span.start))
    return TextView(in_order, (), hidden_tokens, first_line)


def _line(content: str, start: int, end: int, *, count: Count, signature: bool) -> TextLine:
    text = content[start:end]
    value = ERROR_VALUE if ERROR.search(text) else SIGNATURE_VALUE if signature else 0.0
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
