"""The text that shows the results of a search in the session."""

from ctxmgr.core.client.recall import LINE_CHARS_MAX, MARK, Recalled, best_lines, recall_text, words


def test_the_lines_that_hold_most_of_the_words_are_shown_in_order() -> None:
    """A line with both words is a better match than the first three with one."""
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
    """The agent must recognise it as a quotation, and know which ids to activate."""
    found = Recalled(
        object_id="call-1",
        kind="toolcall",
        name="bash",
        heading="id=call-1 type=toolcall",
        text="a\nport = 1\n",
    )
    text = recall_text("port", [found])

    assert text.splitlines() == [
        f"{MARK} 1 object holds: port",
        "id=call-1 type=toolcall",
        "  2: port = 1",
        "Activate an id to see all of it.",
    ]


def test_an_empty_result_says_so() -> None:
    """An empty answer would look like a tool that failed."""
    assert (
        recall_text("sea\n snake", [])
        == f"{MARK} nothing that this session has met holds: sea snake\n"
    )
