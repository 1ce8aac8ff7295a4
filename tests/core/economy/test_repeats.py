"""Runs of lines that are already in the prompt."""

from typing import Final

from ctxmgr.core.economy.folding import FoldableText, TextSpan
from ctxmgr.core.economy.repeats import VisibleLines

FILE: Final = "".join(f"statement number {at} of the file\n" for at in range(12))


def text(content: str) -> FoldableText:
    return FoldableText.of(content, count=len)


def showing(content: str) -> VisibleLines:
    lines = VisibleLines()
    lines.enter("1.0", content, text(content).lines, name="#1 read a.py")
    return lines


def test_a_file_read_again_refers_to_the_first_reading() -> None:
    """Repeated text costs twice and adds no information."""
    again = text("new first line of it\n" + FILE)

    (span,) = showing(FILE).repeats(again, tokens_min=60)

    assert span == TextSpan(len("new first line of it\n"), len(again.content), "#1 read a.py")


def test_lines_in_another_order_are_not_a_repeat() -> None:
    """A reference to #1 implies the same order."""
    shuffled = "".join(reversed(FILE.splitlines(keepends=True)))

    assert showing(FILE).repeats(text(shuffled), tokens_min=60) == ()


def test_lines_with_a_gap_between_them_are_not_a_run() -> None:
    """A reference cannot point to hidden lines."""
    lines, whole = VisibleLines(), text(FILE)
    lines.enter("1.0", FILE, [whole.lines[0], whole.lines[2]], name="#1 read")

    spans = lines.repeats(text("".join(FILE.splitlines(keepends=True)[0:3])), tokens_min=60)

    assert spans == ()


def test_text_no_longer_visible_is_not_referenced() -> None:
    """A reference must point to text that is visible now."""
    lines = showing(FILE)

    lines.leave("1.0")

    assert lines.repeats(text(FILE), tokens_min=60) == ()
