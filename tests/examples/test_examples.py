"""The programs in examples/ run as a user would run them: one process each, in an empty folder."""

import ast
import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

import ctxmgr
from tests.components import ROOT, need
from tests.models.model_server import ModelServer, says
from tests.models.wire import Call, Text

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

PRINTED = {
    "contributor_and_listener": [
        r"\[task-1: turn 2 of 3, 50 tokens for this note\]",
        r"bash: ok",
        r"read notes.md",
        r"task-1: turn 1 finished",
        r"session_resumed",
        r"task-1: turn 2 finished",
    ],
    "economy_tokens": [r"turn  append-only  economy", r" sum +\d{5} +\d{4,5}$"],
    "harness_loop": [r"write: ok: wrote 28 characters", r"bash: ok: 2", r"Two lines mention"],
    "message_forms": [
        r"turn 1 for Anthropic",
        r'"cache_control"',
        r"turn 2 for OpenAI",
        r'"tool_call_id": "toolu_1"',
        r"turn 3 as text",
        r"assistant: This is Linux\.",
        r"anthropic claude-sonnet-4-5",
        r"openai gpt-5",
    ],
    "past_prompts": [
        r"turn 3: hash [0-9a-f]{12}; tokens: system_prompt \d+, metadata_pool \d+",
        r"port = 8080",
        r"the fork has 2 turns, the original 3",
    ],
    "resume_elsewhere": [
        r"A: exported task-1.bundle",
        r"B: turn 1 was rendered with hash",
        r"\[#1 /src/server.toml\]",
        r"port = 9090",
    ],
    "sandboxed_tools": [
        r"ok: hello from /workspace",
        r"cannot access '/home'",
        r"Connection refused",
        r"ok: echo hello",
        r"failed: .*/etc/shadow cannot be read",
    ],
    "two_times": [
        r"between the edit",
        r"believed  port = 8080",
        r"true      port = 9090",
        r"half an hour ago",
        r"true      port = 8080",
        r"believed  nothing",
    ],
}
"""What each program that needs no model prints: these patterns, in this order."""


@pytest.mark.parametrize("name", sorted(PRINTED))
async def test_an_example_prints_what_it_shows(name: str, tmp_path: Path) -> None:
    """People copy a whole program before they read about its parts."""
    if name == "sandboxed_tools":
        need("bubblewrap")

    printed = await _run(name, folder=tmp_path)

    position = 0
    for pattern in PRINTED[name]:
        found = re.compile(pattern, re.MULTILINE).search(printed, position)
        assert found is not None, f"{pattern!r} is not printed there:\n{printed}"
        position = found.end()


async def test_the_agent_loop_can_be_run_again(tmp_path: Path) -> None:
    """The first thing people do with a copied program is to run it twice."""
    for _ in range(2):
        printed = await _run("harness_loop", str(tmp_path), folder=tmp_path)
        assert "Two lines mention a port." in printed

    async with ctxmgr.connect(f"sqlite:///{tmp_path}/agent.db") as client:
        session = await client.visit("task-1")
        assert (session.turn, session.policy_name) == (7, "economy")


async def test_the_example_with_a_real_model_works_in_a_sandbox(tmp_path: Path) -> None:
    """The server on loopback speaks Anthropic's API, and the tools write to the project."""
    need("bubblewrap")
    project = tmp_path / "project"
    project.mkdir()
    async with ModelServer() as server:
        command = Call("bash", {"command": "echo done > /workspace/made.txt"})
        server.script(says(Text("I will try."), command), says(Text("It is made.")))

        printed = await _run(
            *("real_model", "make a file", "--folder", str(project)),
            *("--base-url", server.base_url("anthropic")),
            folder=tmp_path,
        )

    assert (project / "made.txt").read_text(encoding="utf-8") == "done\n"
    assert "make a file" in server.requests[0].text
    assert "It is made." in printed
    assert re.search(r"task-\w{8}: done after 2 turns", printed)
    assert "210 tokens sent (120 from the cache), 14 tokens answered" in printed


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_can_be_copied(path: Path) -> None:
    """It says what it shows and how to run it, and imports nothing that may move or change."""
    syntax = ast.parse(path.read_text(encoding="utf-8"))
    imported = [
        str(node.module)
        for node in ast.walk(syntax)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("ctxmgr.")
    ]

    assert f"python examples/{path.name}" in (ast.get_docstring(syntax) or "")
    assert [name for name in imported if name.startswith("ctxmgr.core")] == []


def test_every_example_is_run() -> None:
    """A program that no test runs would stop working unnoticed."""
    assert {path.stem for path in EXAMPLES} == {*PRINTED, "real_model"}


async def _run(name: str, *arguments: str, folder: Path) -> str:
    """Run an example in a folder and return what it prints."""
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error", str(ROOT / "examples" / f"{name}.py"), *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
        env={**kept, "TMPDIR": str(folder)},
    )
    printed, failed = await process.communicate()
    assert (process.returncode, failed.decode()) == (0, "")
    return printed.decode()
