"""Runs of lines that are already in the prompt."""

import time
from typing import Final

from ctxmgr.core.economy.folding import FoldableText, TextSpan, TextView, shown
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


def test_lines_in_another_order_take_time_in_proportion() -> None:
    """A long text of short runs would otherwise hold up the prompt for minutes."""

    def seconds(count: int) -> float:
        lines = [f"statement number {at} of the file\n" for at in range(count)]
        shown_now, again = showing("".join(lines)), text("".join(reversed(lines)))
        began = time.process_time()
        assert shown_now.repeats(again, tokens_min=60) == ()
        return time.process_time() - began

    assert seconds(16_000) < 20 * seconds(2_000)


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


def test_a_part_of_a_long_line_is_referred_to_by_its_characters() -> None:
    """The other text has one line: "1 lines as in #1" would stand for all of it."""
    flights = ", ".join(f'{{"flight": "HAT{n:03}", "seats": 4}}' for n in range(20))
    one, other = f'{{"flights": [{flights}], "paid": 1}}', f'{{"flights": [{flights}], "paid": 2}}'

    (span,) = showing(one).repeats(text(other), tokens_min=60)
    view = TextView.from_value(TextView((span,), first_line=1).to_value())

    assert not span.whole
    assert span.start == 0
    assert other[span.start : span.end] in one
    assert shown(other, view, handle="#2").startswith(
        f"[{span.end} characters as in #1 read a.py]\n"
    )


def test_a_long_line_that_is_repeated_as_a_whole_is_a_line() -> None:
    """Views of earlier records have lines only, and are shown as they were."""
    long = "name_of_a_column, " * 40 + "\n"

    (span,) = showing(FILE + long).repeats(text(long), tokens_min=60)
    before = TextView.from_value(
        {"spans": [[0, len(long), "#1 read"]], "names": [], "hidden_tokens": 0, "first_line": 1}
    )

    assert span == TextSpan(0, len(long), "#1 read a.py")
    assert shown(long, before, handle="#2").startswith("[1 lines as in #1 read]")


def test_a_line_is_not_found_in_the_middle_of_a_long_one() -> None:
    """Such a reference would not resolve: the line is not there."""
    part = showing(f"{'x' * 150} name_of_it = 1\n")
    divided = FoldableText.of(f"{'x' * 150} name_of_it = 1 and more\n", count=len)
    (first, *_) = divided.lines
    line = divided.content[first.start : first.end] + "\n"

    assert part.repeats(text(line), tokens_min=60) == ()
