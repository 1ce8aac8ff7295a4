"""Hooks of Claude Code: events as it sends them, through the command that its settings name."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ctxmgr import connect, open_store
from ctxmgr.integrations.claude_code import CONTEXT_CHARACTERS_MAX
from ctxmgr.surfaces.cli import COMMANDS

Hook = Callable[..., Result]


@pytest.fixture
def url(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("DATA", "STATE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.chdir(tmp_path)
    return store_url


@pytest.fixture
def hook(tmp_path: Path, url: str, name: str) -> Hook:
    """Run the command as Claude Code does: the event on standard input."""

    def run(event: str, *flags: str, **told: Any) -> Result:
        common = {"session_id": name, "cwd": str(tmp_path), "hook_event_name": event}
        given = json.dumps({**common, "transcript_path": "/none", **told})
        return CliRunner().invoke(COMMANDS, ["hook", "--store", url, *flags], input=given)

    return run


def ran(command: str, output: str, **more: Any) -> dict[str, Any]:
    response = {"stdout": output, "stderr": "", "interrupted": False}
    given = {"tool_name": "Bash", "tool_input": {"command": command}}
    return {**given, "tool_response": response, **more}


def stored(url: str, object_id: str) -> dict[str, Any]:
    async def get() -> dict[str, Any]:
        async with await open_store(url) as store:
            version = await store.get(object_id)
            assert version is not None
            return version.document

    return asyncio.run(get())


def test_a_new_session_is_started_without_a_word(hook: Hook) -> None:
    """Whoever begins has nothing to be reminded of."""
    done = hook("SessionStart", source="startup")

    assert (done.exit_code, done.stdout.strip()) == (0, "")


def test_after_a_compaction_the_model_is_told_what_it_has_seen(
    hook: Hook, name: str, tmp_path: Path
) -> None:
    """What was folded away can be asked back by its id."""
    (tmp_path / "notes.md").write_text("buy tea\n", encoding="utf-8")
    read = {"file_path": str(tmp_path / "notes.md")}
    hook(
        "PostToolUse", tool_name="Read", tool_input=read, tool_response="x", tool_use_id=f"{name}-1"
    )
    hook("PostToolUse", **ran("ls", "notes.md\n"), tool_use_id=f"{name}-2")

    told = json.loads(hook("SessionStart", source="compact").stdout)["hookSpecificOutput"]

    assert told["hookEventName"] == "SessionStart"
    assert f"id={name}-2 type=toolcall tool=Bash status=ok" in told["additionalContext"]
    assert "notes.md" in told["additionalContext"]


def test_a_tool_call_is_stored_with_its_output(hook: Hook, url: str, name: str) -> None:
    """One event, one object; told twice it is still one."""
    event = ran("make", "done", tool_use_id=f"{name}-1")

    codes = [hook("PostToolUse", **event).exit_code for _ in range(2)]

    assert codes == [0, 0]
    call = stored(url, f"{name}-1")
    assert (call["content"], call["tool"]) == ("done", "Bash")
    assert stored(url, f"session:{name}")["session_index"] == [f"{name}-1"]


def test_the_transcript_is_kept_before_it_is_compacted(
    hook: Hook, url: str, name: str, tmp_path: Path
) -> None:
    """The conversation as it was stays a version of its file, whatever becomes of the file."""
    transcript = tmp_path / "transcript.jsonl"
    transcript.write_text('{"type":"user","message":"hello"}\n', encoding="utf-8")

    done = hook("PreCompact", trigger="auto", transcript_path=str(transcript))
    transcript.write_text("", encoding="utf-8")

    assert done.exit_code == 0
    session = stored(url, f"session:{name}")
    (object_id,) = session["session_index"]
    assert "hello" in stored(url, object_id)["content"]
    assert session["active_set"] == []


def test_an_event_that_is_not_known_is_ignored_with_a_note(hook: Hook) -> None:
    """A newer Claude Code, or a setting too many, must do no harm."""
    done = hook("Notification", message="hello")

    assert done.exit_code == 0
    assert "Notification" in json.loads(done.stdout)["systemMessage"]


def test_what_is_told_stays_below_what_claude_code_takes(hook: Hook, url: str, name: str) -> None:
    """A longer text would be cut somewhere; the newest objects are the ones that are named."""

    async def fill() -> None:
        async with connect(url, tracking=False) as client:
            session = await client.start(name, system_prompt="")
            for n in range(60):
                call_id = f"call_{n:02}_{name}_{'x' * 180}"
                await session.record(call_id, tool="Bash", args={}, output="")

    asyncio.run(fill())

    told = json.loads(hook("SessionStart", source="resume").stdout)

    context = told["hookSpecificOutput"]["additionalContext"]
    assert CONTEXT_CHARACTERS_MAX - 400 < len(context) < CONTEXT_CHARACTERS_MAX + 200
    assert "call_59" in context
    assert "call_00" not in context


@pytest.mark.parametrize(
    "given", [b"", b"no json", b"[]", b"{}", b'{"hook_event_name": "SessionStart"}', b"\xff"]
)
def test_what_is_no_event_never_blocks_the_session(url: str, given: bytes) -> None:
    """Exit code 2 would stop Claude Code; every failure of ours is a 1, with a line why."""
    done = CliRunner().invoke(COMMANDS, ["hook", "--store", url], input=given)

    assert done.exit_code == 1
    assert "ctxmgr: the request is wrong" in done.stderr


def test_a_store_that_is_away_never_blocks_the_session(hook: Hook, tmp_path: Path) -> None:
    """Nor do settings that cannot be read: the person's work goes on, and they are told."""
    away = hook("PostToolUse", "--store", "sqlite:////nowhere/at/all.db", **ran("ls", ""))
    (tmp_path / "ctxmgr.toml").write_text("nonsense = 1\n", encoding="utf-8")
    misread = hook("PostToolUse", **ran("ls", ""))

    assert (away.exit_code, misread.exit_code) == (1, 1)
    assert "ctxmgr:" in away.stderr
    assert "nonsense" in misread.stderr


def test_hooks_that_run_at_once_lose_nothing(
    hook: Hook, url: str, name: str, tmp_path: Path
) -> None:
    """Claude Code runs tools side by side, and each has a hook of its own, as a process."""
    events = [
        {
            "session_id": name,
            "cwd": str(tmp_path),
            "hook_event_name": "PostToolUse",
            "tool_use_id": f"{name}-{n}",
            **ran("true", str(n)),
        }
        for n in range(3)
    ]
    program = "from ctxmgr.surfaces.cli import main; main()"
    command = [sys.executable, "-c", program, "hook", "--store", url]

    running = [subprocess.Popen(command, stdin=subprocess.PIPE, text=True) for _ in events]
    for process, event in zip(running, events, strict=True):
        process.communicate(json.dumps(event), timeout=120)

    assert [process.returncode for process in running] == [0, 0, 0]
    told = hook("SessionStart", source="resume").stdout
    assert all(f"id={name}-{n} " in told for n in range(3))
