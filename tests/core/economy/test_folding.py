"""Long text → short text that keeps its handle."""

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.economy.folding import (
    FoldableText,
    FoldLimits,
    TextSpan,
    TextView,
    fold,
    shown,
    visible_lines,
)
from ctxmgr.core.economy.visible_names import VisibleNames

LIMITS: Final = FoldLimits(tokens=40, ends=0.5, names_tokens=10)
lines: Final = st.lists(
    st.text(st.sampled_from("ab_ {}1é\t"), max_size=30)
    | st.sampled_from(["def parse_header(line):", "ValueError: wrong_length", "x" * 300]),
    max_size=60,
).map("\n".join)


def count(text: str) -> int:
    """A token is four characters, or what is left."""
    return -(-len(text) // 4)


def folded(
    content: str, *, limits: FoldLimits = LIMITS, visible: VisibleNames | None = None
) -> str:
    text = FoldableText.of(content, count=count)
    view = fold(text, limits=limits, visible=visible or VisibleNames(), count=count)
    return shown(content, view, handle="#1", title="#1 bash ok")


def numbered(number: int) -> str:
    return "\n".join(f"line {at:02} of what was printed here" for at in range(number))


def test_a_short_text_stays_as_it_is() -> None:
    """A handle would cost more than it saves."""
    assert folded("one\ntwo") == "one\ntwo"


def test_a_long_text_keeps_its_ends_and_a_handle_with_its_price() -> None:
    """Where it begins and how it ended is what a person looks at first, too."""
    short = folded(numbered(50)).splitlines()

    assert short[0] == "line 00 of what was printed here"
    assert short[-2] == "line 49 of what was printed here"
    assert short[-1].startswith("[#1 +")
    assert "..." in short


def test_a_line_that_reports_a_failure_stays() -> None:
    """A failed test in the middle of a long run is the reason for having run it."""
    content = "\n".join([numbered(40), "ValueError: no such column", numbered(40)])

    assert "ValueError: no such column" in folded(content).splitlines()


def test_a_line_stays_for_names_that_stand_nowhere_else() -> None:
    """What the prompt says already need not be said again; what only this text says must."""
    known, new = "call the known_function here", "call the novel_function here"
    content = "\n".join(["plain words"] * 40 + [known, new] + ["plain words"] * 40)
    visible = VisibleNames()
    visible.enter(["known_function"])

    short = folded(content, limits=FoldLimits(tokens=10), visible=visible)

    assert new in short
    assert known not in short


def test_hidden_names_are_listed_until_their_budget_is_spent() -> None:
    """The agent should know what it can ask back."""
    content = "\n".join(f"{'word ' * 20}hidden_name_{at}" for at in range(9))

    short = folded(content, limits=FoldLimits(tokens=0, names_tokens=10))

    assert short.startswith("[#1 bash ok +")
    assert short.endswith(" tok: hidden_name_0 hidden_name_1]")


def test_one_long_line_is_cut_where_structure_allows() -> None:
    """JSON in one line would otherwise be shown whole or not at all."""
    content = "[" + ", ".join(f'{{"flight": "HAT{at:03}"}}' for at in range(100)) + "]"

    short = folded(content, limits=FoldLimits(tokens=160, ends=1.0, names_tokens=0))

    assert short.startswith('[{"flight": "HAT000"}, ')
    assert "\n...\n" in short
    assert '"HAT099"}]' in short


@given(content=lines, tokens=st.integers(0, 60), ends=st.floats(0, 1))
def test_folding_never_invents_a_line_and_never_lengthens(
    content: str, tokens: int, ends: float
) -> None:
    """Whatever is shown is of the text, and worth its handle."""
    text = FoldableText.of(content, count=count)
    limits = FoldLimits(tokens=tokens, ends=ends, names_tokens=5)

    view = fold(text, limits=limits, visible=VisibleNames(), count=count)

    pieces = [content[line.start : line.end] for line in visible_lines(text, view)]
    assert "".join(content[line.start : line.end] for line in text.lines) == content
    assert all(piece in content for piece in pieces)
    assert count(shown(content, view, handle="#1")) <= max(count(content), 1)


@given(content=lines)
def test_a_view_is_rendered_alike_after_it_was_stored(content: str) -> None:
    """A prompt is made again from its record, so nothing of a view may be lost in it."""
    text = FoldableText.of(content, count=count)
    view = fold(text, limits=LIMITS, visible=VisibleNames(), count=count) or TextView(
        (TextSpan(0, 1, "#2"),)
    )

    stored = TextView.from_value(view.to_value())

    assert stored == view
    assert shown(content, stored, handle="#1") == shown(content, view, handle="#1")
