"""The plugin of opencode, run by Node.js with events as opencode sends them."""

import json
import subprocess
from pathlib import Path, PurePosixPath
from typing import Any, Final

import pytest

from ctxmgr.integrations.setup.clients import Installation, OwnFile, client_files
from tests.components import need

OPENCODE: Final = """
import { Ctxmgr } from "./plugin.mjs"

const warnings = []
const client = { app: { log: async ({ body }) => warnings.push(body.message) } }
const plugin = await Ctxmgr({ client, directory: process.cwd() })
for (const part of JSON.parse(process.argv[2]))
  await plugin.event({ event: { type: "message.part.updated", properties: { part } } })
console.log(JSON.stringify(warnings))
"""

WAITED: Final = "const MILLISECONDS_MAX = 60_000"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the plugin and a program that keeps what it reads."""
    need("node")
    program = tmp_path / "ctxmgr"
    write_program(program, f'cat >> "{tmp_path}/events"; echo >> "{tmp_path}/events"')
    installation = Installation(
        program=str(program), store="sqlite:////x.db", home=PurePosixPath(tmp_path), environment={}
    )
    (plugin,) = (
        file for file in client_files("opencode", installation) if isinstance(file, OwnFile)
    )
    (tmp_path / "plugin.mjs").write_text(plugin.text, encoding="utf-8")
    (tmp_path / "opencode.mjs").write_text(OPENCODE, encoding="utf-8")
    return tmp_path


def write_program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o700)


def call(start: int, *, status: str = "completed", output: str = "") -> dict[str, Any]:
    state = {"status": status, "input": {"command": "date"}, "output": output}
    part = {"type": "tool", "sessionID": "s", "callID": "call_0", "tool": "bash"}
    return {**part, "state": {**state, "time": {"start": start}}}


def warnings_of(folder: Path, *parts: dict[str, Any]) -> list[str]:
    command = ["node", "opencode.mjs", json.dumps(parts)]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=True, timeout=100)
    found: list[str] = json.loads(done.stdout)
    return found


def test_calls_with_the_same_id_are_all_reported(folder: Path) -> None:
    """Some models count their calls from one in every answer; a call is updated several times."""
    running = call(1, status="running")
    first, second = call(1, output="one"), call(2, output="two")

    assert warnings_of(folder, running, first, first, second) == []

    events = map(json.loads, (folder / "events").read_text(encoding="utf-8").splitlines())
    texts = [event["tool_response"]["content"][0]["text"] for event in events]
    assert texts == ["one", "two"]


def test_a_program_that_hangs_holds_opencode_once(folder: Path) -> None:
    """Each event would hold it for a minute, even if the program ignores SIGTERM."""
    write_program(folder / "ctxmgr", "trap '' TERM; while :; do :; done")
    plugin = folder / "plugin.mjs"
    text = plugin.read_text(encoding="utf-8")
    assert WAITED in text
    plugin.write_text(text.replace(WAITED, "const MILLISECONDS_MAX = 500"), encoding="utf-8")

    (warning,) = warnings_of(folder, call(1), call(2), call(3))

    assert "ETIMEDOUT" in warning


def test_without_the_program_opencode_continues(folder: Path) -> None:
    """It may have been uninstalled without `ctxmgr setup opencode --remove`."""
    (folder / "ctxmgr").unlink()

    first, second = warnings_of(folder, call(1), call(2))

    assert "ENOENT" in first
    assert "ENOENT" in second
