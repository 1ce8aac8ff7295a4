"""``ctxmgr mcp``: build the MCP server and run it on the requested transport. Serves."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ctxmgr.errors import Incorrect, requires_extra
from ctxmgr.integrations.agents.hook_process import PROJECT_VARIABLES
from ctxmgr.surfaces.operation import Operation

if TYPE_CHECKING:
    from ctxmgr.app import App

SESSION_VARIABLE: Final = "CLAUDE_CODE_SESSION_ID"
"""Set by Claude Code for its MCP servers: the session that the client is in."""


async def serve_mcp(
    app: "App",
    operations: Iterable[Operation],
    *,
    session: str | None,
    everything: bool,
    tools: str | None,
    port: int | None,
    knowledge: Path | None = None,
) -> None:
    """Serve until the input ends (stdio, if ``port`` is None) or the caller cancels it.

    The server reaches one session, the sessions of the project, or everything to read. The project
    is the folder that the client names in its environment, or the working directory.
    Memories are those of the user in that folder, and notes those of ``knowledge`` or of
    the setting.
    """
    with requires_extra("mcp", "mcp", "mcp_types"):
        from ctxmgr.surfaces.mcp.resources import Resources
        from ctxmgr.surfaces.mcp.server import build_server
        from ctxmgr.surfaces.mcp.tools import McpScope, choose_tools
        from ctxmgr.surfaces.mcp.transports import serve_http, serve_stdio
    from ctxmgr.surfaces.local_state import make_store_absolute, project_sessions
    from ctxmgr.surfaces.scopes import parse_session_id

    if session is not None and everything:
        raise Incorrect("--session and --all exclude each other: leave one out")
    notes = _notes(app, knowledge)
    make_store_absolute(app)
    folder = _enter_project(os.environ)
    if session is not None:
        session_id = parse_session_id(session)
        scope = McpScope(session_id=session_id, folder=folder, knowledge=notes)
    elif everything:
        scope = McpScope()
    else:
        scope = McpScope(
            project=lambda: project_sessions(app, folder),
            current=os.environ.get(SESSION_VARIABLE),
            folder=folder,
            knowledge=notes,
        )
    chosen = choose_tools(operations, tools, scope=scope)
    resources = Resources(store=await app.store(), scope=scope, masker=app.masker)
    server = build_server(app, chosen, resources)
    if port is None:
        await serve_stdio(server)
    else:
        await serve_http(server, port=port, say=app.write)


def _notes(app: "App", knowledge: Path | None) -> Path | None:
    """Return the folder of notes, absolute: the server goes to the client's project afterwards."""
    if knowledge is None and app.loaded.settings.knowledge is None:
        return None
    return app.knowledge_folder(knowledge).absolute()


def _enter_project(environment: Mapping[str, str]) -> Path:
    """Make the client's project the working directory; return it.

    Everything that belongs to a project is looked up by the working directory.
    """
    named = next((environment[name] for name in PROJECT_VARIABLES if environment.get(name)), None)
    if named is not None:
        if not Path(named).is_dir():
            raise Incorrect(f"the client's project {named!r:.200} is not a folder")
        os.chdir(named)
    return Path.cwd()
