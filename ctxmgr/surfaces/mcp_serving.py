"""``ctxmgr mcp``: chosen tools and a store become a server, on the transport asked for. Serves."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ctxmgr.surfaces.catalogue import Operation
from ctxmgr.surfaces.extras import brought_by

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
    """Serve until the client leaves (stdio, where ``port`` is None) or somebody ends it."""
    with brought_by("mcp", "mcp", "mcp_types", "uvicorn"):
        from ctxmgr.surfaces.mcp_resources import Resources
        from ctxmgr.surfaces.mcp_server import build_server
        from ctxmgr.surfaces.mcp_tools import choose_tools
        from ctxmgr.surfaces.mcp_transports import serve_http, serve_stdio
    from ctxmgr.surfaces.scopes import scope_named

    bound = None if session is None else scope_named(session)
    chosen = choose_tools(operations, tools, session_id=bound)
    resources = Resources(store=await app.store(), session_id=bound, masker=app.masker)
    server = build_server(app, chosen, resources)
    if port is None:
        await serve_stdio(server)
    else:
        await serve_http(server, port=port, say=app.write)
