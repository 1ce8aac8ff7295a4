"""MCP servers as agents see them: our server process and the official client."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, TextContent

from tests.warm.commands import ctxmgr

SERVER = ("-c", "from ctxmgr.surfaces.terminal.cli import main; main()", "mcp")
"""For Python, where it matters how the process starts and ends."""
SECONDS = 60
"""For a process to start, or to end, on a busy machine."""


def stdio(url: str, *arguments: str) -> Client:
    """A client that starts its own server."""
    program, *words = ctxmgr()
    given = [*words, "mcp", "--store", url, *arguments]
    return Client(StdioServerParameters(command=program, args=given, env=dict(os.environ)))


@asynccontextmanager
async def http_url(url: str, *arguments: str) -> AsyncIterator[str]:
    """Start a server on a free port, yield its address, and stop it with a signal."""
    given = (*ctxmgr(), "mcp", "--store", url, "--http", *arguments)
    process = await asyncio.create_subprocess_exec(*given, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(SECONDS):
            yield (await process.stdout.readline()).decode().strip()
    finally:
        process.terminate()
        async with asyncio.timeout(SECONDS):
            await process.communicate()
        assert process.returncode == 143


async def call_text(client: Client, tool: str, /, **arguments: Any) -> str:
    """Call a tool that must succeed; return its text."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    return "\n".join(_texts(result))


async def value(client: Client, tool: str, /, **arguments: Any) -> Any:
    """Call a tool that must succeed; return its first text as JSON."""
    return json.loads((await call_text(client, tool, **arguments)).split("\n", 1)[0])


async def refused(client: Client, tool: str, /, **arguments: Any) -> dict[str, str]:
    """Call a tool that must fail; return its error as the agent sees it."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result
    error: dict[str, str] = json.loads(_texts(result)[0])["error"]
    return error


def _texts(result: CallToolResult) -> list[str]:
    return [item.text for item in result.content if isinstance(item, TextContent)]
