"""The list of all operations, and the two that offer them to others: ``serve`` and ``mcp``.

The command line has the same ones, and imports those of a layer when one of them is used.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.catalogue.audit import AUDIT_OPERATIONS
from ctxmgr.surfaces.catalogue.core import CORE_OPERATIONS
from ctxmgr.surfaces.catalogue.experience import EXPERIENCE_OPERATIONS
from ctxmgr.surfaces.catalogue.knowledge import KNOWLEDGE_OPERATIONS
from ctxmgr.surfaces.catalogue.memory import MEMORY_OPERATIONS
from ctxmgr.surfaces.operation import Operation, Param

if TYPE_CHECKING:
    from ctxmgr.app import App


async def serve(
    app: "App",
    *,
    host: Annotated[str, Param("The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Param("The port; 0 takes a free one.")] = 8321,
    read_only: Annotated[bool, Param("Reject requests that write.")] = False,
    require_token: Annotated[
        bool, Param("Require a token on loopback too; elsewhere one is always required.")
    ] = False,
    rate: Annotated[
        int, Param("Requests per second allowed to one client, on average.", metavar="NUMBER")
    ] = 500,
    no_open: Annotated[bool, Param("Do not open the inspector in a browser.")] = False,
) -> None:
    """Serve the HTTP API and the inspector until interrupted.

    Prints the URL and opens the inspector in a browser, if there is a terminal and a display.
    On an address other than loopback every request needs a token, which `ctxmgr token` creates;
    put a proxy with TLS in front of it. SIGTERM and Ctrl-C end the event streams, finish requests
    in progress and close the store.
    """
    from ctxmgr.surfaces.http.server import ListenAddress, serve_until_cancelled

    if rate < 1:
        raise Incorrect(f"--rate must be at least 1, not {rate}")
    await serve_until_cancelled(
        app,
        ListenAddress(host, port),
        operations=OPERATIONS,
        read_only=read_only,
        require_token=require_token,
        rate_per_second=rate,
        open_inspector=not no_open,
    )


async def mcp(
    app: "App",
    *,
    session: Annotated[
        str | None, Param("Bind the server to this session; its tools then take no session.")
    ] = None,
    all_: Annotated[bool, Param("Let the agent read every session of the store.")] = False,
    tools: Annotated[
        str | None, Param("The tools to offer, separated by commas; at most 12.", metavar="NAMES")
    ] = None,
    knowledge: Annotated[
        Path | None,
        Param("The folder of notes that the agent may use; default: the setting.", metavar="DIR"),
    ] = None,
    http: Annotated[bool, Param("Serve streamable HTTP on loopback, not stdio.")] = False,
    port: Annotated[int, Param("The port for HTTP; 0 takes a free one.")] = 0,
) -> None:
    """Serve sessions to agents over MCP.

    Without --session, tools that read the sessions of the project: recall, show, sessions, diff and
    as_of. The project is the folder that a coding agent names to its servers, or this directory.
    With --session, those and activate, deactivate, pin and unpin, which need a harness whose
    prompts ctxmgr renders; with --all, tools that read every session. All but --all also have
    remember and expand, and with notes search and note. Uses standard input and output, until the
    input ends. Requires the "mcp" extra.
    """
    from ctxmgr.surfaces.mcp.serve import serve_mcp

    await serve_mcp(
        app,
        OPERATIONS,
        session=session,
        everything=all_,
        tools=tools,
        port=port if http else None,
        knowledge=knowledge,
    )


OPERATIONS: Final = (
    *CORE_OPERATIONS,
    Operation(
        run=serve, name="serve", writes=False, example="ctxmgr serve --port 8321", streams=True
    ),
    Operation(
        run=mcp, name="mcp", writes=True, example="ctxmgr mcp --session review", streams=True
    ),
    *AUDIT_OPERATIONS,
    *EXPERIENCE_OPERATIONS,
    *KNOWLEDGE_OPERATIONS,
    *MEMORY_OPERATIONS,
)
