"""The lines that the docs give for each client, read as that client reads them."""

import json
import os
import re
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from tests.components import ROOT
from tests.surfaces.mcp.clients import value
from tests.surfaces.worked_sessions import Worked

PAGE = (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8")
STORE = "sqlite:////home/me/agent.db"
SESSION = "review"


def block(client: str) -> str:
    """The first block after a client's name."""
    matches = re.search(rf"^{client}\b.*?```text\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
    assert matches, client
    return matches[1]


def claude_code() -> list[str]:
    """Everything after -- is the command."""
    words = shlex.split(block("Claude Code"))
    assert words[:4] == ["claude", "mcp", "add", "ctxmgr"]
    return words[words.index("--") + 1 :]


def codex() -> list[str]:
    server = tomllib.loads(block("Codex"))["mcp_servers"]["ctxmgr"]
    return [server["command"], *server["args"]]


def opencode() -> list[str]:
    server = json.loads(block("opencode"))["mcp"]["ctxmgr"]
    assert (server["type"], server["enabled"]) == ("local", True)
    command: list[str] = server["command"]
    return command


def cursor() -> list[str]:
    server: dict[str, Any] = json.loads(block("Cursor"))["mcpServers"]["ctxmgr"]
    return [server["command"], *server["args"]]


@pytest.mark.parametrize("any_store_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("read", [claude_code, codex, opencode, cursor])
async def test_the_line_for_each_client_starts_a_bound_server(worked: Worked, read: Any) -> None:
    """People copy it, change the two names in it, and expect it to work."""
    named = {STORE: worked.url, SESSION: worked.sid}
    program, *words = [named.get(item, item) for item in read()]
    assert program == "ctxmgr"
    installed = str(Path(sys.executable).with_name(program))
    started = StdioServerParameters(command=installed, args=words, env=dict(os.environ))

    async with Client(started) as client:
        shown = await value(client, "show")
        tools = (await client.list_tools()).tools

    assert shown["session_id"] == worked.sid
    assert len(tools) == 9
    assert all("session" not in tool.input_schema["properties"] for tool in tools)
