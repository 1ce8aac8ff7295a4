"""Progress messages, which are shown on terminals only."""

import io
import sys

import pytest

from ctxmgr.surfaces.terminal.command import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute without output looks like a hanging command."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())

    with progress() as say:
        say("fetching jars")

    assert "fetching jars" in terminal.getvalue()


def test_progress_is_not_written_to_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A spinner in a log file is noise."""
    monkeypatch.setattr(sys, "stderr", log := io.StringIO())

    with progress() as say:
        say("fetching jars")

    assert log.getvalue() == ""
