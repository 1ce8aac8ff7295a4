"""The MCP server: tools and resources of one store, for any transport. Runs operations.

Errors of a tool are returned to the agent as tool errors; errors of a resource, which has none, as
protocol errors. Only bugs in ctxmgr are logged.
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
from ctxmgr.core.secrets.masking import Masker
from ctxmgr.errors import CtxmgrError, Denied, Incorrect, NotFound
from ctxmgr.surfaces.arguments import from_json
from ctxmgr.surfaces.local_state import hide_store
from ctxmgr.surfaces.mcp.resources import PAGE_SIZE, TEMPLATES, Resources
from ctxmgr.surfaces.mcp.results import (
    as_agent_sees,
    error_body,
    json_line,
    masked,
    result_texts,
    without_hashes,
)
from ctxmgr.surfaces.mcp.tools import OF_PROJECT, SESSIONS, Tool
from ctxmgr.surfaces.operation import Operation
from ctxmgr.surfaces.scopes import confine
from ctxmgr.surfaces.spooled_events import store_events
from ctxmgr.surfaces.views.lookup import get_session, has_session, resolve_member

logger = logging.getLogger(__name__)

INSTRUCTIONS: Final = (
    "ctxmgr keeps every file and tool output of a session. recall finds what is no longer shown, "
    "show reads it, activate brings it back into the next prompts, deactivate folds it."
)

PROJECT_INSTRUCTIONS: Final = (
    "ctxmgr keeps the sessions of this project: prompts, files and tool outputs, also those that "
    "are no longer in the conversation. recall searches all of them, show prints what has an id, "
    "sessions lists them, diff and as_of show earlier versions."
)

REMEMBERING_INSTRUCTIONS: Final = (
    " remember keeps a fact for later sessions of this project, expand shows one in full."
)
NOTING_INSTRUCTIONS: Final = " search finds notes that are kept beyond sessions, note adds to them."

NO_SESSIONS: Final = "this project has no sessions yet\n"
EMPTY_SESSION: Final = "session {} has nothing yet\n"
SHOW: Final = "show"
SHOW_HINT: Final = "show prints what has an id in full.\n"

NOTES_FOLDER: Final = "the folder of notes"
"""Stands for its path where an agent reads."""

Context = ServerRequestContext[Any]


def build_server(app: App, tools: Sequence[Tool], resources: Resources) -> Server[Any]:
    """Build a server with these tools and resources."""
    handlers = _Handlers(
        app=app,
        tools={tool.name: tool for tool in tools},
        resources=resources,
        masker=resources.masker,
    )
    return Server(
        "ctxmgr",
        version=__version__,
        instructions=instructions_for(tools),
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
    )


def instructions_for(tools: Sequence[Tool]) -> str:
    """Return what a client shows to its model about the server."""
    names = {tool.name for tool in tools}
    of_project = any(tool.scope.project is not None for tool in tools)
    opening = PROJECT_INSTRUCTIONS if of_project else INSTRUCTIONS
    parts = {"remember": REMEMBERING_INSTRUCTIONS, "note": NOTING_INSTRUCTIONS}
    return opening + "".join(text for name, text in parts.items() if name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Handlers:
    app: App
    tools: dict[str, Tool]
    resources: Resources
    masker: Masker

    async def list_tools(
        self, _context: Context, _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=[tool_definition(tool) for tool in self.tools.values()])

    async def call_tool(self, _context: Context, params: CallToolRequestParams) -> CallToolResult:
        tool = self.tools.get(params.name)
        if tool is None:
            names = ", ".join(self.tools)
            raise MCPError(INVALID_PARAMS, f"unknown tool {params.name!r:.80} (one of: {names})")
        try:
            result = await self._run(tool, params.arguments or {})
        except Exception as error:  # noqa: BLE001 (every error is returned to the agent)
            return _tool_result([json_line({"error": self._body(error)})], is_error=True)
        return _tool_result(result_texts(result), is_error=False)

    async def list_resources(
        self, _context: Context, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        try:
            return await self.resources.page(params.cursor if params else None)
        except Exception as error:
            raise self._protocol_error(error) from error

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
            raise self._protocol_error(error) from error

    async def _run(self, tool: Tool, given: dict[str, Any]) -> Any:
        """Return a result as the agent may see it: secrets masked, no paths of the host."""
        given = tool.present(given)
        if tool.lacks_session and "session" not in given:
            await store_events(self.app)
            if tool.across is not None:
                return await self._across(tool.across, given)
            session = await self._session_for(tool, given)
            if session is None:
                return NO_SESSIONS
            given["session"] = session
        arguments = tool.arguments(given)
        await store_events(self.app)
        name, scope, session_id = tool.operation.name, tool.scope, None
        if scope.project is not None and name == SESSIONS:
            page = await self.resources.sessions(
                limit=arguments.get("limit", PAGE_SIZE), cursor=arguments.get("cursor")
            )
            return masked(page, self.masker)
        if name in OF_PROJECT:
            arguments |= scope.of_project(tool.operation)
            return masked(await self._called(tool.operation, arguments), self.masker)
        store = await self.app.store()
        session_id = scope.session_of(arguments)
        try:
            if session_id is not None:
                arguments = await confine(store, name, arguments, session_id=session_id)
            result = masked(await self._called(tool.operation, arguments), self.masker)
        except NotFound:
            if scope.session_id is None or await has_session(store, scope.session_id):
                raise
            return EMPTY_SESSION.format(scope.session_id)
        if name == SHOW:
            result = without_hashes(result)
        return await as_agent_sees(store, result, session_id)

    async def _across(self, operation: Operation, given: dict[str, Any]) -> Any:
        """Search all sessions of the project."""
        arguments = from_json(operation, given)
        view = await operation.run(self.app, **arguments, project=True)
        return self.masker.shown(view.text + (SHOW_HINT if view.hits else ""))

    async def _session_for(self, tool: Tool, given: dict[str, Any]) -> str | None:
        """Return the session that a call without one is about; None if the project has none.

        It is the one that has seen the object, beginning with the client's own, or for a call that
        names no object the client's own, or else the newest.
        """
        store, subject = await self.app.store(), tool.subject(given)
        page = await self.resources.sessions(limit=PAGE_SIZE, cursor=None)
        names = [line.session_id for line in page.sessions]
        names.sort(key=lambda name: name != tool.scope.current)  # stable: newest first
        if not names or subject is None:
            return names[0] if names else None
        if subject.removeprefix("session:") in names:
            return subject.removeprefix("session:")
        for name in names:
            session = await get_session(store, name)
            if session is None:
                continue
            try:
                found = await resolve_member(store, session, subject)
            except NotFound:
                continue
            if found in session.session_index:
                return name
        raise NotFound(f"no session of this project has seen {subject!r:.200}; recall finds ids")

    async def _called(self, operation: Operation, arguments: dict[str, Any]) -> Any:
        returned = await operation.run(self.app, **arguments)
        return returned if operation.text is None else operation.text(returned)

    def _body(self, error: Exception) -> dict[str, str]:
        """Describe an error, without saying where the store is."""
        if not isinstance(error, CtxmgrError):
            logger.error("a request failed", exc_info=error)
        body = error_body(error)
        message = hide_store(body["message"], self.app.loaded.settings.store)
        for folder in {tool.scope.knowledge for tool in self.tools.values()} - {None}:
            message = message.replace(str(folder), NOTES_FOLDER)
        return {**body, "message": self.masker.shown(message)}

    def _protocol_error(self, error: Exception) -> MCPError:
        body = self._body(error)
        is_callers_mistake = isinstance(error, Incorrect | NotFound | Denied)
        code = INVALID_PARAMS if is_callers_mistake else INTERNAL_ERROR
        remedy = f" ({body['next']})" if body["next"] else ""
        return MCPError(code, f"{body['message']}{remedy}", data=body)


def tool_definition(tool: Tool) -> OfferedTool:
    """Describe a tool for a client. No tool is destructive."""
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


def _tool_result(parts: Sequence[str], *, is_error: bool) -> CallToolResult:
    content = [TextContent(type="text", text=text) for text in parts]
    return CallToolResult(content=[*content], is_error=is_error)
