"""Hooks of Claude Code: events as it sends them, through the command in its settings."""

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
from ctxmgr.surfaces.terminal.cli import COMMANDS

Hook = Callable[..., Result]


@pytest.fixture
def url(
    store_url: str,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """The store's URL; the project is ``tmp_path``, and no store lies in a project."""
    elsewhere = tmp_path_factory.mktemp("data")
    for name in ("DATA", "STATE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(elsewhere / name.lower()))
    monkeypatch.chdir(tmp_path)
    is_file = store_url.startswith("sqlite:")
    return f"sqlite:///{elsewhere}/store.db" if is_file else store_url


@pytest.fixture
def hook(tmp_path: Path, url: str, name: str) -> Hook:
    """Run the command as Claude Code does: the event on standard input."""

    def run(event: str, *flags: str, **fields: Any) -> Result:
        common = {"session_id": name, "cwd": str(tmp_path), "hook_event_name": event}
        data = json.dumps({**common, "transcript_path": "/none", **fields})
        return CliRunner().invoke(COMMANDS, ["hook", "--store", url, *flags], input=data)

    return run


def ran(command: str, output: str, **more: Any) -> dict[str, Any]:
    response = {"stdout": output, "stderr": "", "interrupted": False}
    call = {"tool_name": "Bash", "tool_input": {"command": command}}
    return {**call, "tool_response": response, **more}


def stored(url: str, object_id: str) -> dict[str, Any]:
    async def get() -> dict[str, Any]:
        async with await open_store(url) as store:
            version = await store.get(object_id)
            assert version is not None
            return version.document

    return asyncio.run(get())


def test_a_new_session_starts_without_output(hook: Hook) -> None:
    """There are no objects to list."""
    done = hook("SessionStart", source="startup")

    assert (done.exit_code, done.stdout.strip()) == (0, "")


def test_after_a_compaction_the_objects_are_listed(hook: Hook, name: str, tmp_path: Path) -> None:
    """The model can get back what was compacted by its id."""
    (tmp_path / "notes.md").write_text("buy tea\n", encoding="utf-8")
    read = {"file_path": str(tmp_path / "notes.md")}
    hook(
        "PostToolUse", tool_name="Read", tool_input=read, tool_response="x", tool_use_id=f"{name}-1"
    )
    hook("PostToolUse", **ran("ls", "notes.md\n"), tool_use_id=f"{name}-2")

    output = json.loads(hook("SessionStart", source="compact").stdout)["hookSpecificOutput"]

    assert output["hookEventName"] == "SessionStart"
    assert f"id={name}-2 type=toolcall tool=Bash status=ok" in output["additionalContext"]
    assert "notes.md" in output["additionalContext"]


def test_a_tool_call_is_stored_with_its_output(hook: Hook, url: str, name: str) -> None:
    """The same event twice gives one object."""
    event = ran("make", "done", tool_use_id=f"{name}-1")

    codes = [hook("PostToolUse", **event).exit_code for _ in range(2)]

    assert codes == [0, 0]
    call = stored(url, f"{name}-1")
    assert (call["content"], call["tool"]) == ("done", "Bash")
    assert stored(url, f"session:{name}")["session_index"] == [f"{name}-1"]


def test_the_transcript_is_stored_before_it_is_compacted(
    hook: Hook, url: str, name: str, tmp_path: Path
) -> None:
    """The stored version outlives changes of the file."""
    transcript = tmp_path / "transcript.jsonl"
    transcript.write_text('{"type":"user","message":"hello"}\n', encoding="utf-8")

    done = hook("PreCompact", trigger="auto", transcript_path=str(transcript))
    transcript.write_text("", encoding="utf-8")

    assert done.exit_code == 0
    session = stored(url, f"session:{name}")
    (object_id,) = session["session_index"]
    assert "hello" in stored(url, object_id)["content"]
    assert session["active_set"] == []


def test_an_unknown_event_is_ignored_with_a_note(hook: Hook) -> None:
    """Newer versions of Claude Code may send more events."""
    done = hook("Notification", message="hello")

    assert done.exit_code == 0
    assert "Notification" in json.loads(done.stdout)["systemMessage"]


def test_the_list_of_objects_stays_within_the_limit(hook: Hook, url: str, name: str) -> None:
    """Claude Code would cut a longer text; the newest objects are listed."""

    async def fill() -> None:
        async with connect(url, tracking=False) as client:
            session = await client.start(name, system_prompt="")
            for n in range(60):
                call_id = f"call_{n:02}_{name}_{'x' * 180}"
                await session.record(call_id, tool="Bash", args={}, output="")

    asyncio.run(fill())

    output = json.loads(hook("SessionStart", source="resume").stdout)

    context = output["hookSpecificOutput"]["additionalContext"]
    assert CONTEXT_CHARACTERS_MAX - 400 < len(context) < CONTEXT_CHARACTERS_MAX + 200
    assert "call_59" in context
    assert "call_00" not in context


@pytest.mark.parametrize("asked", ["Read", "Bash"])
def test_a_file_outside_the_project_is_not_read(
    hook: Hook, url: str, name: str, tmp_path: Path, asked: str
) -> None:
    """An agent that may not read a file must not get it by naming it (003-R111, D7)."""
    project, private = tmp_path / "project", tmp_path / "id_rsa"
    project.mkdir()
    private.write_text("mine alone\n", encoding="utf-8")
    (project / "link").symlink_to(private)
    there = {"cwd": str(project), "tool_use_id": f"{name}-1"}
    if asked == "Read":
        paths = (str(private), f"{project}/../id_rsa", f"{project}/link")
        for number, path in enumerate(paths):
            call = {"tool_name": "Read", "tool_input": {"file_path": path}, "tool_response": "x"}
            hook("PostToolUse", **{**there, **call, "tool_use_id": f"{name}-{number}"})
    else:
        command = f"find {tmp_path} -name id_rsa"
        hook("PostToolUse", **ran(command, f"{private}\n{project}/link\n", **there))

    sets = stored(url, f"session:{name}")
    for object_id in sets["session_index"]:
        activate = ["activate", name, object_id, "--store", url]
        CliRunner().invoke(COMMANDS, activate)
        assert "mine alone" not in json.dumps(stored(url, object_id))


def test_the_project_stays_where_the_session_began(
    hook: Hook, url: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent can change its directory; which folder is its project is not its to choose."""
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "private.txt").write_text("mine alone\n", encoding="utf-8")
    (project / "notes.md").write_text("buy tea\n", encoding="utf-8")
    hook("SessionStart", source="startup", cwd=str(project))

    def read(path: Path, number: int) -> str:
        call = {"tool_name": "Read", "tool_input": {"file_path": str(path)}, "tool_response": "x"}
        hook("PostToolUse", cwd=str(tmp_path), tool_use_id=f"{name}-{number}", **call)
        index = stored(url, f"session:{name}")["session_index"]
        return json.dumps([stored(url, object_id) for object_id in index])

    assert "mine alone" not in read(tmp_path / "private.txt", 1)
    assert "buy tea" in read(project / "notes.md", 2)
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(tmp_path))
    assert "mine alone" in read(tmp_path / "private.txt", 3)


def test_only_a_transcript_is_read_outside_the_project(
    hook: Hook, url: str, name: str, tmp_path: Path
) -> None:
    """The event names it, and Claude Code keeps it in its own folder."""
    project, kept = tmp_path / "project", tmp_path / "kept.jsonl"
    project.mkdir()
    kept.write_text('{"type":"user"}\n', encoding="utf-8")
    (tmp_path / "id_rsa").write_text("mine alone\n", encoding="utf-8")

    read = hook("PreCompact", cwd=str(project), transcript_path=str(kept))
    refused = hook("PreCompact", cwd=str(project), transcript_path=str(tmp_path / "id_rsa"))

    assert (read.exit_code, refused.exit_code) == (0, 1)
    (object_id,) = stored(url, f"session:{name}")["session_index"]
    assert "user" in stored(url, object_id)["content"]
    assert ".jsonl" in refused.stderr


@pytest.mark.parametrize("folder", ["", "relative", "/a\0b", "/a\ud800", 5, None])
def test_a_folder_that_is_none_is_refused(hook: Hook, folder: object) -> None:
    """Every failure has a reason, and none is a bug."""
    done = hook("SessionStart", cwd=folder)

    assert done.exit_code == 1
    assert done.stderr.startswith("ctxmgr: ")


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"",
        b"no json",
        b"[]",
        b"{}",
        b'{"hook_event_name": "SessionStart"}',
        b"\xff",
    ],
)
def test_invalid_input_never_blocks_the_session(url: str, data: bytes) -> None:
    """Exit code 2 would stop Claude Code, so every failure exits with 1 and a reason."""
    done = CliRunner().invoke(COMMANDS, ["hook", "--store", url], input=data)

    assert done.exit_code == 1
    assert done.stderr.startswith("ctxmgr: ")


def test_an_unavailable_store_never_blocks_the_session(hook: Hook, tmp_path: Path) -> None:
    """Nor do invalid settings: the user sees the error and continues."""
    unavailable = hook("PostToolUse", "--store", "sqlite:////nowhere/at/all.db", **ran("ls", ""))
    (tmp_path / "ctxmgr.toml").write_text("nonsense = 1\n", encoding="utf-8")
    invalid = hook("PostToolUse", **ran("ls", ""))

    assert (unavailable.exit_code, invalid.exit_code) == (1, 1)
    assert "ctxmgr:" in unavailable.stderr
    assert "nonsense" in invalid.stderr


def test_concurrent_hooks_lose_nothing(hook: Hook, url: str, name: str, tmp_path: Path) -> None:
    """Claude Code runs tools in parallel, each with its own hook process."""
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
    program = "from ctxmgr.surfaces.terminal.cli import main; main()"
    command = [sys.executable, "-c", program, "hook", "--store", url]

    running = [subprocess.Popen(command, stdin=subprocess.PIPE, text=True) for _ in events]
    for process, event in zip(running, events, strict=True):
        process.communicate(json.dumps(event), timeout=120)

    assert [process.returncode for process in running] == [0, 0, 0]
    listed = hook("SessionStart", source="resume").stdout
    assert all(f"id={name}-{n} " in listed for n in range(3))
