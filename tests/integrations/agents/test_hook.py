"""Hooks of coding agents: events as they send them, through the command in their settings."""

import asyncio
import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ctxmgr import open_store
from ctxmgr.integrations.agents.hook_process import store_of
from ctxmgr.settings import default_store_url
from ctxmgr.surfaces.operations.agents.briefing import CHARACTERS_MAX
from ctxmgr.surfaces.terminal.cli import COMMANDS

Hook = Callable[..., Result]


@pytest.fixture
def url(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> str:
    """The store's URL; the project is ``tmp_path``, and no store lies in a project."""
    elsewhere = tmp_path_factory.mktemp("data")
    for name in ("DATA", "STATE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(elsewhere / name.lower()))
    monkeypatch.delenv("CLAUDE_PROJECT_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    return f"sqlite:///{elsewhere}/store.db"


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


def test_without_settings_the_store_is_the_default_one(url: str, tmp_path: Path) -> None:
    """What the settings would say is known without reading them, which is slow."""
    assert store_of([], os.environ) == default_store_url()
    assert store_of([], {**os.environ, "ctxmgr_store": url}) is None
    (tmp_path / "ctxmgr.toml").write_text(f"store = '{url}'\n")
    assert store_of([], os.environ) is None


def test_an_invalid_session_does_not_stop_others_of_its_project(hook: Hook, name: str) -> None:
    """Its folder was remembered, so that every later session of the project failed to start."""
    refused = hook("UserPromptSubmit", prompt="x", session_id="s" * 2_000)

    started = hook("SessionStart", source="startup", session_id=f"{name}-next")

    assert "session_id must be" in refused.stderr
    assert (started.exit_code, started.stderr) == (0, "")


def turns(url: str, session: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = stored(url, f"chat:{session}")["turns"]
    return found


def test_a_prompt_its_calls_and_the_answer_are_a_turn(hook: Hook, url: str, name: str) -> None:
    """A session has turns and times, and finds what the user asked for."""
    hook("SessionStart", source="startup", model="opus")
    hook("UserPromptSubmit", prompt="Which port?")
    hook("PostToolUse", **ran("cat port", "8080"), tool_use_id=f"{name}-1")
    hook("Stop", last_assistant_message="It is 8080.")

    (turn,) = turns(url, name)
    assert (turn["user"], turn["toolcall_ids"]) == ("Which port?", [f"{name}-1"])
    assert [part["type"] for part in turn["assistant"]] == ["toolcall", "text"]
    assert turn["assistant"][1]["text"] == "It is 8080."
    assert turn["assistant_meta"]["model"] == "opus"
    assert turn["assistant_meta"]["timestamp"] > 1_700_000_000_000


def test_every_store_takes_events(hook: Hook, url: str, store_url: str, name: str) -> None:
    """Turns end in an XTDB server just as in a file."""
    there = store_url if store_url.startswith("xtdb") else url
    hook("UserPromptSubmit", "--store", there, prompt="Which port?")
    hook("Stop", "--store", there, last_assistant_message="It is 8080.")

    assert [turn["user"] for turn in turns(there, name)] == ["Which port?"]


def test_gemini_and_codex_send_the_same_under_other_names(hook: Hook, url: str, name: str) -> None:
    """One command serves all clients."""
    hook("BeforeAgent", prompt="List it")
    response = {"llmContent": [{"text": "a.py"}], "returnDisplay": "1 file"}
    hook("AfterTool", tool_name="glob", tool_input={}, tool_response=response)
    failing = "Chunk ID: 1\nProcess exited with code 7\nOutput:\nno such target\n"
    call = {
        "tool_name": "exec_command",
        "tool_input": {"cmd": "make x"},
        "tool_use_id": f"{name}-7",
    }
    hook("PostToolUse", tool_response=failing, **call)
    hook("AfterAgent", prompt="List it", prompt_response="One file.")

    (turn,) = turns(url, name)
    assert turn["assistant"][-1]["text"] == "One file."
    assert stored(url, turn["toolcall_ids"][0])["content"] == "a.py"
    assert stored(url, f"{name}-7")["status"] == "fail"


def test_gemini_reports_failed_commands_and_no_compaction(hook: Hook, url: str, name: str) -> None:
    """It names the exit code in the output, and sends PreCompress before every model call."""
    output = "Output: cat: no such file\nExit Code: 1\nProcess Group PGID: 7\n</untrusted_context>"
    call = {"tool_name": "run_shell_command", "tool_input": {"command": "cat missing"}}
    hook("BeforeAgent", prompt="List it")
    hook("PreCompress", trigger="auto")
    hook("AfterTool", tool_response={"llmContent": output}, tool_use_id=f"{name}-1", **call)
    said = {"llmContent": "Exit Code: 1\nis what it said"}
    hook("AfterTool", tool_response=said, tool_use_id=f"{name}-2", **call)
    log = {"llmContent": "make: failed\nExit Code: 2\n"}
    read = {"tool_name": "read_file", "tool_input": {"absolute_path": "/x/ci.log"}}
    hook("AfterTool", tool_response=log, tool_use_id=f"{name}-3", **read)
    hook("PreCompress", trigger="manual")
    hook("AfterAgent", prompt="List it", prompt_response="None.")

    (turn,) = turns(url, name)
    calls = [stored(url, call_id) for call_id in turn["toolcall_ids"]]
    shown = [(call["tool"], call["status"]) for call in calls]
    assert shown == [
        ("run_shell_command", "fail"),
        ("run_shell_command", "ok"),
        ("read_file", "ok"),
        ("compact", "ok"),
    ]


def test_files_that_a_command_prints_are_stored(
    hook: Hook, url: str, name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """D10: Claude Code reads with `cat`; what lies outside the project is not read."""
    other = tmp_path_factory.mktemp("other") / "secret.txt"
    other.write_text("mine alone", encoding="utf-8")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("x = 1\n", encoding="utf-8")
    command = f"ls && cat src/a.py {other} ../gone.txt"
    hook("PostToolUse", **ran(command, "src\nx = 1\nmine alone"), tool_use_id=name)

    refs = stored(url, name)["file_refs"]
    contents = [stored(url, file_id).get("content") for file_id in refs]
    assert [content for content in contents if content is not None] == ["x = 1\n"]


def test_an_interrupted_turn_ends_with_the_next_prompt(hook: Hook, url: str, name: str) -> None:
    """Claude Code sends no Stop if the user interrupts it, and none when it ends."""
    hook("UserPromptSubmit", prompt="Wait")
    hook("UserPromptSubmit", prompt="Go on")
    hook("SessionEnd", reason="other")
    hook("SessionEnd", reason="other")

    assert [turn["user"] for turn in turns(url, name)] == ["Wait", "Go on"]


def test_a_failed_call_has_the_status_fail(hook: Hook, url: str, name: str) -> None:
    """What failed is what an agent most needs to know later."""
    call = {"tool_name": "Bash", "tool_input": {"command": "make"}, "tool_use_id": f"{name}-1"}
    hook("PostToolUseFailure", **call, error="Exit code 2\nno rule", is_interrupt=False)

    document = stored(url, f"{name}-1")
    assert (document["status"], document["content"]) == ("fail", "Exit code 2\nno rule")


def test_a_subagent_has_a_session_of_its_own(hook: Hook, url: str, name: str) -> None:
    """Its calls do not stand among those of the main agent."""
    agent = {"agent_id": "a1", "agent_type": "Explore"}
    hook("UserPromptSubmit", prompt="Look around")
    hook("PostToolUse", **ran("ls", "x"), tool_use_id=f"{name}-1", **agent)
    hook("SubagentStop", last_assistant_message="There is x.", **agent)
    hook("Stop", last_assistant_message="Done.")

    assert stored(url, f"session:{name}/a1")["session_index"] == [f"{name}-1"]
    assert turns(url, f"{name}/a1")[0]["assistant"][-1]["text"] == "There is x."
    assert turns(url, name)[0]["toolcall_ids"] == []


def test_a_compaction_is_a_call_with_its_summary(hook: Hook, url: str, name: str) -> None:
    """From then on the model sees the summary; its size does not matter to the hook."""
    hook("PreCompact", trigger="manual", custom_instructions="keep the port")
    hook("PostCompact", trigger="manual", compact_summary="The port is 8080.")

    (call_id,) = stored(url, f"session:{name}")["session_index"]
    call = stored(url, call_id)
    assert (call["tool"], call["content"]) == ("compact", "The port is 8080.")
    assert call["args"] == {"trigger": "manual", "custom_instructions": "keep the port"}


PNG = base64.b64encode(b"\x89PNG of a cat").decode()


@pytest.mark.parametrize(
    ("tool", "response", "text"),
    [
        ("Read", {"type": "text", "file": {"filePath": "/a", "content": "x = 1\n"}}, "x = 1\n"),
        (
            "Edit",
            {
                "filePath": "/a",
                "originalFile": "x = 1\n",
                "structuredPatch": [
                    {
                        "oldStart": 1,
                        "oldLines": 1,
                        "newStart": 1,
                        "newLines": 1,
                        "lines": ["-x = 1", "+x = 2"],
                    }
                ],
            },
            "/a was changed\n@@ -1,1 +1,1 @@\n-x = 1\n+x = 2",
        ),
        ("Glob", {"filenames": ["/a", "/b"], "numFiles": 2}, "/a\n/b"),
        ("Grep", {"mode": "content", "filenames": [], "content": "a:1:x"}, "a:1:x"),
        ("Agent", {"status": "completed", "content": [{"type": "text", "text": "ok"}]}, "ok"),
        (
            "mcp__x__y",
            [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}],
            "one\ntwo",
        ),
    ],
)
def test_the_text_of_a_call_is_what_the_model_saw(
    hook: Hook, url: str, name: str, *, tool: str, response: object, text: str
) -> None:
    """Not the client's own JSON, in which nobody finds anything."""
    hook("PostToolUse", tool_name=tool, tool_input={}, tool_response=response, tool_use_id=name)

    assert stored(url, name)["content"] == text


@pytest.mark.parametrize(
    "response",
    [
        {"type": "image", "file": {"base64": PNG, "type": "image/png"}},
        [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}],
        {"llmContent": {"inlineData": {"mimeType": "image/png", "data": PNG}}},
    ],
)
def test_a_picture_is_kept_as_a_reference(
    hook: Hook, url: str, name: str, response: object
) -> None:
    """Base64 in a text is of no use to anybody, and large."""
    hook("PostToolUse", tool_name="Read", tool_input={}, tool_response=response, tool_use_id=name)

    assert stored(url, name)["content"].startswith("[image/png: 13 bytes, sha256 ")


def test_a_long_output_is_stored_whole(
    hook: Hook, url: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claude Code cuts it, and names the file with all of it; other files are not read."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    folder = tmp_path / "claude" / "projects" / "-p" / name / "tool-results"
    folder.mkdir(parents=True)
    (folder / "out.txt").write_text("x" * 200_001, encoding="utf-8")
    (tmp_path / "id_rsa").write_text("mine alone", encoding="utf-8")
    (folder / "link").symlink_to(tmp_path / "id_rsa")
    os.mkfifo(folder / "pipe")  # reading it would wait for ever
    others = [tmp_path / "id_rsa", folder / "link", "tool-results/\0", folder / "pipe", folder]
    paths = [folder / "out.txt", *others]

    for number, path in enumerate(paths):
        event = ran("make", "cut here", tool_use_id=f"{name}-{number}")
        event["tool_response"]["persistedOutputPath"] = str(path)
        hook("PostToolUse", **event)

    assert len(stored(url, f"{name}-0")["content"]) == 200_001
    assert {stored(url, f"{name}-{n}")["content"] for n in range(1, 6)} == {"cut here"}


def test_the_same_call_id_in_two_sessions_is_two_calls(hook: Hook, url: str, name: str) -> None:
    """Nothing is lost because a client counts its calls anew in every session."""
    hook("PostToolUse", **ran("ls", "one"), tool_use_id=f"{name}-1")
    hook("PostToolUse", **ran("ls", "two"), tool_use_id=f"{name}-1", session_id=f"{name}-b")

    assert stored(url, f"{name}-1")["content"] == "one"
    assert stored(url, f"{name}-b:{name}-1")["content"] == "two"


def test_a_tool_call_is_stored_with_its_output(hook: Hook, url: str, name: str) -> None:
    """The same event twice gives one object."""
    event = ran("make", "done", tool_use_id=f"{name}-1")

    codes = [hook("PostToolUse", **event).exit_code for _ in range(2)]

    assert codes == [0, 0]
    call = stored(url, f"{name}-1")
    assert (call["content"], call["tool"]) == ("done", "Bash")
    assert stored(url, f"session:{name}")["session_index"] == [f"{name}-1"]


def test_an_unknown_event_is_ignored_with_a_note(hook: Hook) -> None:
    """Newer versions of Claude Code may send more events."""
    done = hook("Notification", message="hello")

    assert done.exit_code == 0
    assert "Notification" in json.loads(done.stdout)["systemMessage"]


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


@pytest.mark.parametrize("opened", ["link", "link/", "/link", "link/../link", "project"])
def test_files_of_a_project_behind_a_link_are_read(
    hook: Hook, url: str, name: str, tmp_path: Path, opened: str
) -> None:
    """Clients name files as the person named the folder, and sometimes without the link."""
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "notes.md").write_text("buy tea\n", encoding="utf-8")
    (tmp_path / "link").symlink_to("project")
    shown = "project" if opened == "project" else "link"

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLAUDE_PROJECT_DIR", f"{tmp_path}/{opened}")
        for number, folder in enumerate((shown, "project")):
            path = f"{tmp_path}/{folder}/notes.md"
            call = {"tool_name": "Read", "tool_input": {"file_path": path}, "tool_response": "x"}
            hook("PostToolUse", tool_use_id=f"{name}-{number}", **call)

    index = stored(url, f"session:{name}")["session_index"]
    files = [found for found in (stored(url, each) for each in index) if found["type"] == "file"]
    assert [file["content"] for file in files] == ["buy tea\n"]


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
    subagent = {"agent_id": "a1", "cwd": str(tmp_path)}
    call = {"tool_name": "Read", "tool_input": {"file_path": str(tmp_path / "private.txt")}}
    hook("PostToolUse", **call, **subagent, tool_use_id=f"{name}-4", tool_response="x")
    seen = stored(url, f"session:{name}/a1")["session_index"]
    assert "mine alone" not in json.dumps([stored(url, object_id) for object_id in seen])

    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(tmp_path))
    assert "mine alone" in read(tmp_path / "private.txt", 3)


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
    program = "from ctxmgr.surfaces.terminal.entry import main; main()"
    command = [sys.executable, "-c", program, "hook", "--store", url]

    running = [subprocess.Popen(command, stdin=subprocess.PIPE, text=True) for _ in events]
    for process, event in zip(running, events, strict=True):
        process.communicate(json.dumps(event), timeout=120)

    assert [process.returncode for process in running] == [0, 0, 0]
    hook("SessionStart", source="resume")
    assert set(stored(url, f"session:{name}")["session_index"]) == {f"{name}-{n}" for n in range(3)}


def test_a_new_session_learns_of_the_last_one(hook: Hook, name: str, tmp_path: Path) -> None:
    """What was asked, answered, what failed and which files changed since."""
    notes = tmp_path / "notes.md"
    read = {"tool_name": "Read", "tool_input": {"file_path": str(notes)}, "tool_response": "x"}
    make = {"tool_name": "Bash", "tool_input": {"command": "make all"}}
    hook("UserPromptSubmit", prompt="Fix the build")
    hook("PostToolUse", **read, tool_use_id=f"{name}-1")
    hook("PostToolUseFailure", **make, tool_use_id=f"{name}-2", error="no rule for all")
    hook("PostToolUseFailure", **ran("ls", ""), tool_use_id=f"{name}-3", error="no folder")
    hook("PostToolUse", **ran("ls", "notes.md"), tool_use_id=f"{name}-4")
    hook("Stop", last_assistant_message="The token is sk-ant-api03-" + "a" * 80)
    notes.write_text("new", encoding="utf-8")
    os.utime(notes, (4_000_000_000, 4_000_000_000))

    started = hook("SessionStart", source="startup", session_id=f"{name}-next")

    output = json.loads(started.stdout)["hookSpecificOutput"]
    text = output["additionalContext"]
    assert output["hookEventName"] == "SessionStart"
    assert f"session {name}: 1 turns, 4 tool calls" in text
    assert "asked: Fix the build" in text
    assert f"Bash make all (id {name}-2): no rule for all" in text
    assert "Bash ls" not in text
    assert str(notes) in text
    assert "a" * 80 not in text
    assert len(text) <= CHARACTERS_MAX


def test_changed_files_of_opencode_are_known(hook: Hook, name: str, tmp_path: Path) -> None:
    """Its tools have an argument ``filePath``."""
    notes = tmp_path / "notes.md"
    read = {"tool_name": "read", "tool_input": {"filePath": str(notes)}, "tool_response": "x"}
    hook("UserPromptSubmit", prompt="Fix the build")
    hook("PostToolUse", **read, tool_use_id=f"{name}-1")
    hook("Stop", last_assistant_message="done")
    notes.write_text("new", encoding="utf-8")
    os.utime(notes, (4_000_000_000, 4_000_000_000))

    started = hook("SessionStart", source="startup", session_id=f"{name}-next")

    text = json.loads(started.stdout)["hookSpecificOutput"]["additionalContext"]
    assert f"Changed since, of the files that it used:\n- {notes}" in text


def test_a_link_to_itself_does_not_silence_a_new_session(
    hook: Hook, name: str, tmp_path: Path
) -> None:
    """An agent can create one; every later session of the project would be told nothing."""
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    read = {"tool_name": "Read", "tool_input": {"file_path": str(loop)}, "tool_response": "x"}
    hook("UserPromptSubmit", prompt="Fix the build")
    hook("PostToolUse", **read, tool_use_id=f"{name}-1")
    hook("Stop", last_assistant_message="done")

    started = hook("SessionStart", source="startup", session_id=f"{name}-next")

    assert started.exit_code == 0
    assert "asked: Fix the build" in started.stdout


def test_a_resumed_session_is_told_nothing(hook: Hook, name: str) -> None:
    """The model has its conversation, and every repetition costs tokens."""
    hook("UserPromptSubmit", prompt="Fix the build")
    hook("Stop", last_assistant_message="Done.")

    resumed = hook("SessionStart", source="resume")
    compacted = hook("SessionStart", source="compact")

    assert resumed.stdout == ""
    assert "Fix the build" in compacted.stdout


def test_doctor_says_whether_events_arrive(hook: Hook, url: str) -> None:
    """Hooks that are not run look just like hooks that store."""

    def found() -> dict[str, Any]:
        ran = CliRunner().invoke(COMMANDS, ["doctor", "--store", url, "--json"])
        findings = json.loads(ran.stdout)["findings"]
        return next(finding for finding in findings if finding["what"] == "hooks")

    before = found()
    hook("UserPromptSubmit", prompt="Fix the build")
    after = found()

    assert before["found"] is None
    assert "ctxmgr setup" in before["note"]
    assert after["found"].startswith("last event 20")
    assert after["note"] == "all events are stored"


class ClaudeFolder:
    """The folder of Claude Code, with the transcript of a session."""

    def __init__(self, folder: Path, session: str) -> None:
        self.projects = folder / "projects"
        self.transcript = self.projects / "p" / f"{session}.jsonl"
        self.transcript.parent.mkdir(parents=True)

    def answer(self, message: str, *, tokens: int, stop: str = "end_turn", at: str = "") -> None:
        counts = {"input_tokens": tokens, "cache_read_input_tokens": 70, "output_tokens": 5}
        said = {"id": message, "model": "claude-sonnet-4-5", "usage": counts, "stop_reason": stop}
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        row = {"type": "assistant", "timestamp": at or now, "message": said}
        with self.transcript.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


@pytest.fixture
def claude(
    tmp_path_factory: pytest.TempPathFactory, name: str, monkeypatch: pytest.MonkeyPatch
) -> ClaudeFolder:
    folder = tmp_path_factory.mktemp("claude")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(folder))
    return ClaudeFolder(folder, name)


def timeline(url: str, name: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(COMMANDS, ["timeline", name, "--store", url, "--json"])
    return list(json.loads(done.stdout)["entries"])


def test_a_turn_has_the_usage_of_the_clients_transcript(
    hook: Hook, url: str, name: str, claude: ClaudeFolder
) -> None:
    """Hooks carry no token counts; without these, captured sessions have no costs."""
    path = str(claude.transcript)
    claude.answer("m0", tokens=9_000, at="2020-01-01T00:00:00Z")
    hook("UserPromptSubmit", prompt="Which port?", transcript_path=path)
    claude.answer("m1", tokens=100, stop="tool_use")
    claude.answer("m1", tokens=100, stop="tool_use")
    claude.answer("m2", tokens=20)
    hook("Stop", last_assistant_message="8080", transcript_path=path)
    hook("UserPromptSubmit", prompt="And now?", transcript_path=path)
    claude.answer("m3", tokens=3)
    hook("Stop", last_assistant_message="9090", transcript_path=path)

    first, second = timeline(url, name)

    assert first["model"] == "claude-sonnet-4-5"
    assert first["reported"]["input"] == 120
    assert first["reported"]["cached"] == 140
    assert first["usd"] == pytest.approx((120 * 3 + 140 * 0.3 + 10 * 15) / 1e6)
    assert second["reported"]["input"] == 3


@pytest.mark.parametrize("trick", ["elsewhere", "other", "link", "folder", "pipe", "parent"])
def test_only_the_sessions_own_transcript_is_read(
    hook: Hook, url: str, claude: ClaudeFolder, tmp_path: Path, trick: str
) -> None:
    """The path is the client's word, and an agent could make a hook say anything."""
    hook("UserPromptSubmit", prompt="Which port?")
    claude.answer("m1", tokens=100)
    path, real = claude.transcript, tmp_path / claude.transcript.name
    match trick:
        case "elsewhere":
            path = path.rename(real)
        case "other":
            path = path.rename(path.with_name("another.jsonl"))
        case "link":
            path.rename(real)
            path.symlink_to(real)
        case "folder":
            path.parent.rename(tmp_path / "moved")
            path.parent.symlink_to(tmp_path / "moved")
        case "pipe":
            path.unlink()
            os.mkfifo(path)
        case "parent":
            path = path.parent / ".." / "p" / path.name
    done = hook("Stop", last_assistant_message="8080", transcript_path=str(path))

    (entry,) = timeline(url, claude.transcript.stem)
    assert done.exit_code == 0
    assert entry["answer"] == "8080"
    assert entry["reported"] is None


def test_exit_codes_of_codex_are_read_from_its_transcript(
    hook: Hook, url: str, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """D5: its hooks pass the output of a command, and not how it ended."""
    folder = tmp_path_factory.mktemp("codex")
    path = folder / "sessions" / "2026" / "11" / "18" / f"rollout-x-{name}.jsonl"
    path.parent.mkdir(parents=True)
    ended = {f"{name}-1": 1, f"{name}-2": 0}
    items = [{"type": "CommandExecution", "id": key, "exit_code": n} for key, n in ended.items()]
    rows = [{"type": "event_msg", "payload": {"type": "item_completed", "item": i}} for i in items]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    call = {"tool_name": "Bash", "tool_input": {"command": "make"}, "tool_response": "done"}

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CODEX_HOME", str(folder))
        for call_id in ended:
            hook("PostToolUse", transcript_path=str(path), tool_use_id=call_id, **call)

    assert [stored(url, call_id)["status"] for call_id in ended] == ["fail", "ok"]
