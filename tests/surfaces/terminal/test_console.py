"""What a person sees of texts that others wrote."""

import pytest
from rich.text import Text

from ctxmgr.surfaces.terminal.console import PIPE_COLUMNS, escape_controls, print_escaped


def test_control_characters_are_spelt_out() -> None:
    """A file's name may hold escape sequences that forge what a terminal shows."""
    assert escape_controls("a\x1b[2Jb\rc\x9b1A\td\n") == "a\\x1b[2Jb\\x0dc\\x9b1A\td\n"


def test_nothing_that_is_printed_moves_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever an operation returns passes through here."""
    print_escaped(Text("a\x1b[2Jb"))

    assert capsys.readouterr().out == "a\\x1b[2Jb\n"


def test_a_pipe_breaks_no_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An id in two halves is found by no `grep`."""
    monkeypatch.delenv("COLUMNS", raising=False)
    long = " ".join(["word"] * (PIPE_COLUMNS // 5))

    print_escaped(Text(long))

    assert capsys.readouterr().out == f"{long}\n"


def test_whoever_says_how_wide_is_heard(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that shows a table has its own width."""
    monkeypatch.setenv("COLUMNS", "20")

    print_escaped(Text("word " * 8))

    assert len(capsys.readouterr().out.splitlines()) == 2
