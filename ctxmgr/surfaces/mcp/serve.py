"""``ctxmgr mcp``: build the MCP server and run it on the requested transport. Serves."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ctxmgr.surfaces.operation import Operation, requires_extra

if TYPE_CHECKING:
    from ctxmgr.app import App


async def serve_mcp(
    app: "App",
    operations: Iterable[Operation],
    *,
    session: str | None,
    tools: str | None,
    port: int | None,
) -> None:
    """Serve until the input ends (stdio, if ``port`` is None) or the caller cancels it."""
    with requires_extra("mcp", "mcp", "mcp_types", "uvicorn"):
        from ctxmgr.surfaces.mcp.resources import Resources
        from ctxmgr.surfaces.mcp.server import build_server
        from ctxmgr.surfaces.mcp.tools import choose_tools
        from ctxmgr.surfaces.mcp.transports import serve_http, serve_stdio
    from ctxmgr.surfaces.scopes import parse_session_id

    bound = None if session is None else parse_session_id(session)
    chosen = choose_tools(operations, tools, session_id=bound)
    resources = Resources(store=await app.store(), session_id=bound, masker=app.masker)
    server = build_server(app, chosen, resources)
    if port is None:
        await serve_stdio(server)
    else:
        await serve_http(server, port=port, say=app.write)
