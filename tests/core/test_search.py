"""Joined rankings, and what an agent is told of what was found."""

from ctxmgr.core.recalled import LINE_CHARS_MAX, MARK, Recalled, best_lines, told, words
from ctxmgr.core.search import Hit, fused


def ranking(*object_ids: str) -> list[Hit]:
    return [Hit(object_id=each, sequence=1, score=9.0) for each in object_ids]


def test_what_several_rankings_agree_on_comes_first() -> None:
    """Scores of different searches cannot be compared; places can."""
    joined = fused([ranking("a", "b", "c"), ranking("b", "d"), ranking("b", "a")], limit=3)

    assert [hit.object_id for hit in joined] == ["b", "a", "d"]
    assert joined[0].score > joined[1].score > joined[2].score


def test_equal_places_are_ordered_by_id() -> None:
    """The same search gives the same bytes, or the prompt's prefix breaks."""
    one = fused([ranking("z", "a"), ranking("a", "z")], limit=9)
    two = fused([ranking("a", "z"), ranking("z", "a")], limit=9)

    assert [hit.object_id for hit in one] == [hit.object_id for hit in two] == ["a", "z"]


def test_the_lines_that_hold_most_of_the_words_are_shown_in_order() -> None:
    """A line with both words says more than the first three with one."""
    text = "retry\nnothing\nretry once\nretry after timeout\nTimeout\nretry Timeout\n"

    assert best_lines(text, words("retry timeout")) == [
        (1, "retry"),
        (4, "retry after timeout"),
        (6, "retry Timeout"),
    ]


def test_a_long_line_is_cut_around_the_word() -> None:
    """One line of minified code would fill the prompt."""
    ((_, line),) = best_lines("x" * 5_000 + " needle " + "y" * 5_000, words("needle"))

    assert "needle" in line
    assert len(line) <= LINE_CHARS_MAX + 2


def test_recalled_text_is_marked_and_names_ids() -> None:
    """The agent must tell it from something new, and know what to ask for."""
    text = told("port", [Recalled(heading="id=call-1 type=toolcall", text="a\nport = 1\n")])

    assert text.splitlines() == [
        f"{MARK} 1 object holds: port",
        "id=call-1 type=toolcall",
        "  2: port = 1",
        "Activate an id to see all of it.",
    ]


def test_nothing_found_is_said() -> None:
    """An empty answer would look like a tool that failed."""
    assert told("sea\n snake", []) == f"{MARK} nothing that this session has met holds: sea snake\n"
