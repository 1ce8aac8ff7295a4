"""Printing untrusted text to a terminal."""

from io import StringIO

import pytest
from rich.console import Console
from rich.text import Text

from ctxmgr.surfaces.terminal.console import PIPE_COLUMNS, escape_controls, print_escaped
from ctxmgr.surfaces.terminal.tables import render


def test_control_characters_are_escaped() -> None:
    """A file name may contain escape sequences that forge terminal output."""
    assert escape_controls("a\x1b[2Jb\rc\x9b1A\td\n") == "a\\x1b[2Jb\\x0dc\\x9b1A\td\n"


def test_line_ends_of_windows_are_line_ends() -> None:
    """A note may have them; a carriage return anywhere else would overwrite the line."""
    assert escape_controls("# Ada\r\nlikes tea\r\n") == "# Ada\r\nlikes tea\r\n"
    assert escape_controls("a\r\r\nb\r") == "a\\x0d\r\nb\\x0d"


def test_printed_text_never_moves_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    """All results of operations are printed this way."""
    print_escaped(Text("a\x1b[2Jb"))

    assert capsys.readouterr().out == "a\\x1b[2Jb\n"


def test_lines_are_not_wrapped_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`grep` cannot find an id that is split over two lines."""
    monkeypatch.delenv("COLUMNS", raising=False)
    long = " ".join(["word"] * (PIPE_COLUMNS // 5))

    print_escaped(Text(long))

    assert capsys.readouterr().out == f"{long}\n"


def test_the_columns_variable_sets_the_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that embeds a table has a fixed width."""
    monkeypatch.setenv("COLUMNS", "20")

    print_escaped(Text("word " * 8))

    assert len(capsys.readouterr().out.splitlines()) == 2


def test_a_narrow_list_of_sessions_keeps_ids_whole() -> None:
    """People copy ids from the list into the next command; a long title is shortened first."""
    row = {
        "session_id": "s-6366e3414a05",
        **dict.fromkeys(["state", "turns", "active", "metadata", "indexed", "pinned"], "paused"),
        "last_activity": 1_794_999_999_999,
        "parent": "s-5a561f5a1ab9",
        "title": "Fix the port of the server in the config file",
    }
    file = StringIO()

    Console(width=80, file=file).print(render([row]))

    printed = file.getvalue()
    assert "s-6366e3414a05" in printed
    assert "…" in printed, "and takes one line"
