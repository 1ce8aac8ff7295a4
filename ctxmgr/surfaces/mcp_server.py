"""The MCP server: tools and resources over one store, for whatever transport. Runs operations.

What goes wrong in a tool is told to the agent as a tool's error; in a resource, which has none, as
an error of the protocol. Only what is a fault in ctxmgr is logged.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as OfferedTool

from ctxmgr import __version__
from ctxmgr.app import App
from ctxmgr.core.secrets import Masker
from ctxmgr.errors import CtxmgrError, Denied, Incorrect, NotFound
from ctxmgr.surfaces.mcp_resources import TEMPLATES, Resources
from ctxmgr.surfaces.mcp_results import fault, json_line, texts
from ctxmgr.surfaces.mcp_tools import ABOUT_NO_SESSION, Tool
from ctxmgr.surfaces.scopes import confined

logger = logging.getLogger(__name__)

INSTRUCTIONS: Final = (
    "ctxmgr keeps every file and tool output of a session. recall finds what is no longer shown, "
    "show reads it, activate brings it back into the next prompts, deactivate folds it."
)

Context = ServerRequestContext[Any]


def build_server(app: App, tools: Sequence[Tool], resources: Resources) -> Server[Any]:
    """Make a server of the tools and resources."""
    handlers = _Handlers(
        app=app,
        tools={each.name: each for each in tools},
        resources=resources,
        masker=resources.masker,
    )
    return Server(
        "ctxmgr",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Handlers:
    app: App
    tools: dict[str, Tool]
    resources: Resources
    masker: Masker

    async def list_tools(
        self, _context: Context, _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=[offered(each) for each in self.tools.values()])

    async def call_tool(self, _context: Context, params: CallToolRequestParams) -> CallToolResult:
        tool = self.tools.get(params.name)
        if tool is None:
            names = ", ".join(self.tools)
            raise MCPError(
                INVALID_PARAMS, f"there is no tool {params.name!r:.80}; there are {names}"
            )
        try:
            result = await self._run(tool, params.arguments or {})
        except Exception as error:  # noqa: BLE001 (the edge: whatever it is is told to the agent)
            return _told([json_line({"error": _fault(error)})], is_error=True)
        return _told(texts(result, self.masker), is_error=False)

    async def list_resources(
        self, _context: Context, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        try:
            return await self.resources.page(params.cursor if params else None)
        except Exception as error:
            raise _protocol_error(error) from error

    async def list_templates(
        self, _context: Context, _params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=list(TEMPLATES))

    async def read_resource(
        self, _context: Context, params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        try:
            return await self.resources.read(str(params.uri))
        except Exception as error:
            raise _protocol_error(error) from error

    async def _run(self, tool: Tool, given: dict[str, Any]) -> Any:
        arguments = tool.arguments(given)
        name, session_id = tool.operation.name, tool.session_id
        if session_id is not None and name not in ABOUT_NO_SESSION:
            store = await self.app.store()
            arguments = await confined(store, name, arguments, session_id=session_id)
        return await tool.operation.run(self.app, **arguments)


def offered(tool: Tool) -> OfferedTool:
    """Describe a tool for a client. Nothing that a tool can do destroys anything."""
    return OfferedTool(
        name=tool.name,
        description=tool.operation.help,
        input_schema=tool.schema,
        annotations=ToolAnnotations(
            read_only_hint=not tool.operation.writes,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=False,
        ),
    )


def _told(parts: Sequence[str], *, is_error: bool) -> CallToolResult:
    content = [TextContent(type="text", text=each) for each in parts]
    return CallToolResult(content=[*content], is_error=is_error)


def _fault(error: Exception) -> dict[str, str]:
    if not isinstance(error, CtxmgrError):
        logger.error("a request failed", exc_info=error)
    return fault(error)


def _protocol_error(error: Exception) -> MCPError:
    asked_wrongly = isinstance(error, Incorrect | NotFound | Denied)
    told = _fault(error)
    code = INVALID_PARAMS if asked_wrongly else INTERNAL_ERROR
    return MCPError(code, f"{told['message']} ({told['next']})", data=told)
