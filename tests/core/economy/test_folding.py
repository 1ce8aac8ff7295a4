"""Folding long text into short text with a handle."""

import re
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.discovery.known_tools import OutputKind
from ctxmgr.core.economy.folding import (
    FoldableText,
    FoldLimits,
    TextSpan,
    TextView,
    digest_view,
    fold,
    line_text,
    shown,
    visible_lines,
)
from ctxmgr.core.economy.policy import Economy
from ctxmgr.core.economy.visible_names import VisibleNames

LIMITS: Final = FoldLimits(tokens=40, ends=0.5, names_tokens=10)
lines: Final = st.lists(
    st.text(st.sampled_from("ab_ {}1é\t"), max_size=30)
    | st.sampled_from(["def parse_header(line):", "ValueError: wrong_length", "x" * 300]),
    max_size=60,
).map("\n".join)


def count(text: str) -> int:
    """A token is four characters; the last may be shorter."""
    return -(-len(text) // 4)


def folded(
    content: str, *, limits: FoldLimits = LIMITS, visible: VisibleNames | None = None
) -> str:
    text = FoldableText.of(content, count=count)
    view = fold(text, limits=limits, visible=visible or VisibleNames(), count=count)
    return shown(content, view, handle="#1", title="#1 bash ok")


def numbered(number: int) -> str:
    return "\n".join(f"line {at:02} of what was printed here" for at in range(number))


def test_a_short_text_is_not_folded() -> None:
    """A handle would cost more than it saves."""
    assert folded("one\ntwo") == "one\ntwo"


def test_a_long_text_keeps_both_ends_and_a_handle_with_its_price() -> None:
    """People look at the start and the end first, too."""
    short = folded(numbered(50)).splitlines()

    assert short[0] == "line 00 of what was printed here"
    assert short[-2] == "line 49 of what was printed here"
    assert short[-1].startswith("[#1 +")
    holes = [line for line in short if line.startswith("⋯")]
    assert re.fullmatch(r"⋯ lines \d+–\d+", holes[0])


def test_a_line_that_reports_a_failure_stays() -> None:
    """A failed test in the middle of a long run is the reason for having run it."""
    content = "\n".join([numbered(40), "ValueError: no such column", numbered(40)])

    assert "ValueError: no such column" in folded(content).splitlines()


def test_a_line_with_names_that_appear_nowhere_else_stays() -> None:
    """Names already in the prompt need not be repeated; those only in this text must stay."""
    repeated, new = "call the known_function here", "call the novel_function here"
    content = "\n".join(["plain words"] * 40 + [repeated, new] + ["plain words"] * 40)
    visible = VisibleNames()
    visible.enter(["known_function"])

    short = folded(content, limits=FoldLimits(tokens=20), visible=visible)

    assert new in short
    assert repeated not in short


def test_hidden_names_are_listed_until_their_budget_is_spent() -> None:
    """The agent should know what it can restore."""
    content = "\n".join(f"{'word ' * 20}hidden_name_{at}" for at in range(9))

    short = folded(content, limits=FoldLimits(tokens=0, names_tokens=10))

    assert short.startswith("[#1 bash ok +")
    assert short.endswith(" tok: hidden_name_0 hidden_name_1]")


def test_holes_have_the_line_numbers_of_the_file() -> None:
    """`read` with this offset and limit returns what is hidden."""
    content = numbered(50)
    text = FoldableText.of(content, count=count)
    view = fold(text, limits=LIMITS, visible=VisibleNames(), first_line=101, count=count)
    shown_lines = shown(content, view, handle="#1").splitlines()

    (hole,) = [line for line in shown_lines if line.startswith("⋯")]
    first, last = map(int, re.findall(r"\d+", hole))
    lines = content.splitlines()
    before = shown_lines.index(hole)
    assert lines[: first - 101] == shown_lines[:before]
    assert lines[last - 101 + 1 :] == shown_lines[before + 1 : -1]


def test_numbers_are_not_listed_as_names() -> None:
    """A list of 180 numbers tells nobody what is hidden."""
    content = "\n".join(f"{at} {at + 1000} some words that fill the line" for at in range(100, 180))

    short = folded(content, limits=FoldLimits(tokens=0))

    assert not re.search(r"tok:.*\b\d+", short)


def test_changed_lines_of_a_diff_are_never_folded() -> None:
    """They are what a diff is read for."""
    context = "".join(f" line {at} is the same as it was\n" for at in range(60))
    diff = f"@@ -1,122 +1,122 @@\n{context}-old_name = 1\n+new_name = 2\n{context}-gone\n+came\n"
    short = folded(diff, limits=FoldLimits(tokens=20)).splitlines()

    assert {"-old_name = 1", "+new_name = 2", "-gone", "+came"} <= set(short)
    assert len(short) < 20


def test_the_last_lines_of_a_failed_command_stay() -> None:
    """They say why it failed."""
    content = numbered(200)
    text = FoldableText.of(content, count=count, failed=True)
    view = fold(text, limits=FoldLimits(tokens=20), visible=VisibleNames(), count=count)

    assert shown(content, view, handle="#1").splitlines()[-9:-1] == content.splitlines()[-8:]


@given(content=lines, tokens=st.integers(0, 60))
def test_nothing_is_folded_that_saves_less_than_half(content: str, tokens: int) -> None:
    """Less makes a text hard to read for nothing."""
    short = folded(content, limits=FoldLimits(tokens=tokens, names_tokens=20))

    assert short == content or 2 * count(short) <= count(content) + 2


def test_a_view_of_the_first_renderer_is_shown_as_it_was() -> None:
    """Prompts recorded under economy/1 still prove (003-R115)."""
    view = TextView.from_value({"spans": [[4, 8]], "names": ["gone_name"], "hidden_tokens": 7})

    assert shown("one\ntwo\nsix\n", view, handle="#1") == "...\ntwo\n...\n[#1 +7 tok: gone_name]"


def test_lines_that_are_not_worth_their_tokens_are_hidden() -> None:
    """A text with little that is new becomes short, one with much stays long."""
    few = "".join(f"the same words in row {row}\n" for row in range(100)) + "one new_name here\n"
    many = "".join(f"new_name_{row} here\n" for row in range(100))
    limits = FoldLimits(tokens=10_000, over=50, worth_min=0.05)

    views = [
        fold(FoldableText.of(text, count=count), limits=limits, visible=VisibleNames(), count=count)
        for text in (few, many)
    ]

    assert views[0] is not None
    assert "one new_name here" in shown(few, views[0], handle="#1")
    assert count(shown(few, views[0], handle="#1")) < 40
    assert views[1] is None


def test_one_long_line_is_cut_where_structure_allows() -> None:
    """Single-line JSON would otherwise be shown whole or not at all."""
    content = "[" + ", ".join(f'{{"flight": "HAT{at:03}"}}' for at in range(100)) + "]"

    short = folded(content, limits=FoldLimits(tokens=160, ends=1.0, names_tokens=0))

    assert short.startswith('[{"flight": "HAT000"}, ')
    assert re.search(r"\n⋯ \d+ characters\n", short)
    assert '"HAT099"}]' in short


@given(content=lines, tokens=st.integers(0, 60), ends=st.floats(0, 1))
def test_folding_never_invents_a_line_and_never_lengthens(
    content: str, tokens: int, ends: float
) -> None:
    """Every line shown is from the text, and folding saves more than its handle costs."""
    text = FoldableText.of(content, count=count)
    limits = FoldLimits(tokens=tokens, ends=ends, names_tokens=5)

    view = fold(text, limits=limits, visible=VisibleNames(), count=count)

    pieces = [content[line.start : line.end] for line in visible_lines(text, view)]
    assert "".join(content[line.start : line.end] for line in text.lines) == content
    assert all(piece in content for piece in pieces)
    assert count(shown(content, view, handle="#1")) <= max(count(content), 1)


@given(content=lines)
def test_a_stored_view_is_rendered_the_same(content: str) -> None:
    """Prompts are rebuilt from records, so a record must keep the whole view."""
    text = FoldableText.of(content, count=count)
    view = fold(text, limits=LIMITS, visible=VisibleNames(), count=count) or TextView(
        (TextSpan(0, 1, "#2"),)
    )

    stored = TextView.from_value(view.to_value())

    assert stored == view
    assert shown(content, stored, handle="#1") == shown(content, view, handle="#1")


def test_a_digest_leaves_out_lines_that_an_idle_text_still_shows():
    """It is read in every later call: a name in a long sentence is listed, and costs less."""
    sentences = "\n".join(f"it was said of number_{n:03} once" for n in range(40))
    text = FoldableText.of(f"{sentences}\n{'the same words again ' * 90}", count=count)
    idle = Economy().aged(OutputKind.OTHER, tokens=text.tokens)

    old = digest_view(
        text, limits=Economy().digest(tokens=text.tokens), visible=VisibleNames(), count=count
    )
    aged = fold(text, limits=idle, visible=VisibleNames(), count=count)

    assert any("number_" in line_text(text.content, line) for line in visible_lines(text, aged))
    assert not list(visible_lines(text, old))
    assert "number_039" in old.names


def test_a_digest_keeps_all_that_is_worth_its_tokens():
    """The value of a line decides, and not how long the text is that it stands in."""
    names = "\n".join(f"name_{n:04}" for n in range(500))
    text = FoldableText.of(f"{names}\n{'the same words again ' * 500}", count=count)
    limits = Economy().digest(tokens=text.tokens)

    view = digest_view(text, limits=limits, visible=VisibleNames(), count=count)

    assert len(list(visible_lines(text, view))) == 500
