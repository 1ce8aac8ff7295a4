"""What a waiting person sees, and a script does not."""

import io
import sys

import pytest

from ctxmgr.surfaces.terminal.command import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_is_told_what_is_being_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute without a word looks like a command that hangs."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())

    with progress() as say:
        say("fetching jars")

    assert "fetching jars" in terminal.getvalue()


def test_a_log_file_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody looks, a spinner is noise."""
    monkeypatch.setattr(sys, "stderr", log := io.StringIO())

    with progress() as say:
        say("fetching jars")

    assert log.getvalue() == ""
