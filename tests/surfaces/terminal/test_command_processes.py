"""The commands as separate processes: pipes, terminals, exit codes."""

import asyncio
import os
import pty
import subprocess
import sys
from pathlib import Path

from ctxmgr import connect, text_part
from tests.surfaces.worked_sessions import Worked

CTXMGR = (sys.executable, "-c", "from ctxmgr.surfaces.terminal.cli import main; main()")
WAIT_SECONDS = 120


def test_a_prompt_goes_through_a_pipe_unchanged(worked: Worked) -> None:
    """Redirected output is exactly what the model received."""
    done = _run("context", worked.sid, "--turn", "3", "--store", worked.url)

    assert done.stdout.decode() == worked.sent[2]
    assert b"prompt hash" in done.stderr


def test_a_prompt_does_not_control_a_terminal(home: Path) -> None:
    """What a tool printed could write to the clipboard, or forge what is shown."""

    async def record() -> None:
        async with connect(f"sqlite:///{home}/s.db") as client:
            session = await client.start("s", system_prompt="Be brief.")
            await session.record("c", tool="bash", args={}, output="a\x1b]52;c;ZXZpbA==\x07b")
            await session.render("go")
            await session.end_turn([text_part("done")])

    asyncio.run(record())
    words = ("context", "s", "--store", f"{home}/s.db")

    seen, piped = _on_a_terminal(*words), _run(*words).stdout

    assert b"\x1b]52" not in seen
    assert b"a\\x1b]52;c;ZXZpbA==\\x07b" in seen
    assert b"a\x1b]52;c;ZXZpbA==\x07b" in piped


def test_the_exit_code_identifies_the_error(worked: Worked) -> None:
    """Not found is 3, and the message is on standard error."""
    done = _run("show", "no-such-session", "--store", worked.url)

    assert (done.returncode, done.stdout) == (3, b"")
    assert done.stderr.startswith(b"ctxmgr: no session or object no-such-session")


def test_output_has_colours_only_on_a_terminal(worked: Worked) -> None:
    """Colours help people and break scripts."""
    words = ("objects", worked.sid, "--store", worked.url)

    piped = _run(*words).stdout
    seen = _on_a_terminal(*words)

    assert b"\x1b[" not in piped
    assert b"\x1b[32mactive" in seen


def test_a_session_is_used_by_several_processes(worked: Worked, home: Path) -> None:
    """One process folds, another exports, a third imports and reads."""
    bundle, there = home / "s.bundle", f"sqlite:///{home / 'there.db'}"

    folded = _run("deactivate", worked.sid, "/workspace/notes.md", "--store", worked.url)
    exported = _run("export", worked.sid, str(bundle), "--store", worked.url)
    imported = _run("import", str(bundle), "--store", there)
    seen = _run("objects", worked.sid, "--level", "metadata", "--store", there)

    assert [item.returncode for item in (folded, exported, imported, seen)] == [0, 0, 0, 0]
    assert b"/workspace/notes.md" in seen.stdout


def _run(*words: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([*CTXMGR, *words], capture_output=True, check=False, timeout=WAIT_SECONDS)


def _on_a_terminal(*words: str) -> bytes:
    """Run a command whose standard output is a terminal; return what it wrote there."""
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    with subprocess.Popen(
        [*CTXMGR, *words],
        stdout=theirs,
        env={**environment, "TERM": "xterm-256color", "COLUMNS": "120"},
    ) as process:
        os.close(theirs)
        seen = b""
        try:
            while part := os.read(ours, 65536):
                seen += part
        except OSError:  # Linux raises this when the other side has closed
            pass
        finally:
            os.close(ours)
        assert process.wait(WAIT_SECONDS) == 0
    return seen
