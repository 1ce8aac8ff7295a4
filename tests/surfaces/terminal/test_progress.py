"""Progress messages, which are shown on terminals only."""

import asyncio
import io
import json
import re
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from click.testing import CliRunner

from ctxmgr import connect
from ctxmgr.surfaces.terminal.cli import COMMANDS
from ctxmgr.surfaces.terminal.command import progress, run


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


@pytest.mark.parametrize(
    ("command", "counted"),
    [
        (("export", "SESSION", "s.bundle"), "exporting objects"),
        (("import", "s.bundle", "--store", "other.db"), "storing versions"),
        (("store", "verify"), "checking"),
        (("store", "backup", "copy.db"), "copying"),
        (("import-recorded", "recorded.json", "--session", "r1"), "storing turns"),
    ],
)
def test_a_long_command_counts(
    home: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], counted: str
) -> None:
    """It names what it counts, of how many, and nothing with --json."""
    monkeypatch.setenv("CTXMGR_STORE", "demo.db")
    messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    Path("recorded.json").write_text(json.dumps(messages), encoding="utf-8")
    said: list[str] = []
    monkeypatch.setattr(f"{run.__module__}.progress", lambda: nullcontext(said.append))
    session = _work()
    words = [session if word == "SESSION" else word for word in command]
    if command[0] == "import":
        assert _call("export", session, "s.bundle") == 0
    said.clear()

    assert _call(*words) == 0

    assert any(re.fullmatch(rf"{counted}: \d+ of \d+", text) for text in said), said
    said.clear()
    _call(*words, "--json")
    assert said == []


def _work() -> str:
    async def work() -> None:
        async with connect("demo.db") as client:
            session = await client.start("s1", system_prompt="x")
            await session.render("hello")
            await session.end_turn("hi")
            await client.pause("s1")

    asyncio.run(work())
    return "s1"


def _call(*words: str) -> int:
    return CliRunner().invoke(COMMANDS, list(words)).exit_code


def test_progress_is_not_written_to_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A spinner in a log file is noise."""
    monkeypatch.setattr(sys, "stderr", log := io.StringIO())

    with progress() as say:
        say("fetching jars")

    assert log.getvalue() == ""
