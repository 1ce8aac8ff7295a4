"""The operations offered as MCP tools, and their schemas. No I/O.

    name        -> the operation's, with _ for - and spaces
    description -> docstring
    schema      -> parameters
    writes      -> readOnlyHint

On a server bound to a session the agent cannot name another: the parameter is removed, and names
are resolved in that session only.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.arguments import body_schema, from_json
from ctxmgr.surfaces.operation import Operation
from ctxmgr.surfaces.scopes import CONFINED

TOOLS_MAX: Final = 8
"""Tools of one server: each costs the agent tokens and attention in every call."""

USUAL: Final = ("activate", "deactivate", "pin", "unpin", "recall", "show", "as_of", "status")
"""The default tools."""

NOT_OFFERED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "export": "writes a file on the host",
        "import": "reads a file on the host",
        "import-recorded": "reads a file on the host",
        "fork": "starts another session, which is up to the user",
        "backup": "writes a file on the host",
        "vacuum": "is store maintenance, which is up to the user",
        "verify": "is store maintenance, and takes long",
        "hook": "is called by a harness",
        "run": "is another agent",
        "demo": "is for a terminal",
        "bench": "is for a terminal",
        "doctor": "is for a terminal",
        "completion": "is for a shell",
        "mcp": "is this server",
        "serve": "is another server",
        "token": "creates credentials of another server",
        "trust": "is up to the user",
        "xtdb up": "starts a process",
        "xtdb down": "ends a process",
        "xtdb status": "reports a process",
    }
)
"""Operations that are not offered as tools, and why."""

ABOUT_NO_SESSION: Final = frozenset({"status"})
"""Tools of a bound server that describe the store, not a session's objects."""

_SESSION: Final = "session"
_NAME: Final = "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """An operation as a tool."""

    operation: Operation
    session_id: str | None
    """The session that the server is bound to."""

    @property
    def name(self) -> str:
        return tool_name(self.operation)

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments, in as few tokens as possible."""
        schema: dict[str, Any] = _lean(body_schema(self.operation))
        if self.session_id is None:
            return schema
        properties: dict[str, Any] = schema["properties"]
        properties.pop(_SESSION, None)
        if _NAME in properties:
            properties[_NAME] = {**properties[_NAME], "description": _NAME_WHEN_BOUND}
        required = [name for name in schema.pop("required", []) if name not in (_SESSION, _NAME)]
        return {**schema, "required": required} if required else schema

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Read the agent's arguments; ``Incorrect`` if they are invalid."""
        present = {name: value for name, value in given.items() if value is not None}
        return from_json(self.operation, {**self._filled(present), **present})

    def _filled(self, given: Mapping[str, Any]) -> dict[str, Any]:
        if self.session_id is None:
            return {}
        if _SESSION in given:
            raise Incorrect(f"this server is bound to session {self.session_id}: leave out session")
        names = {parameter.name for parameter in self.operation.parameters}
        return dict.fromkeys(names & {_SESSION, _NAME}, self.session_id)


_NAME_WHEN_BOUND: Final = (
    "An object: its id, the beginning of it, or a file's path. Left out: the session itself."
)


def _lean(schema: Any) -> Any:
    """Leave out limits that no agent exceeds."""
    if isinstance(schema, list):
        return [_lean(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: _lean(value) for name, value in schema.items() if name not in _LIMIT_KEYWORDS}


_LIMIT_KEYWORDS: Final = frozenset({"minimum", "maximum", "maxItems"})


def tool_name(operation: Operation) -> str:
    """Return the tool name of an operation."""
    return operation.name.replace("-", "_").replace(" ", "_")


def choose_tools(
    operations: Iterable[Operation], names: str | None, *, session_id: str | None
) -> tuple[Tool, ...]:
    """Return the tools of a server; ``names`` are separated by commas, None: the defaults."""
    offered = {
        tool_name(operation): operation
        for operation in operations
        if _is_offered(operation, session_id)
    }
    chosen = USUAL if names is None else tuple(dict.fromkeys(_split(names)))
    unknown = [name for name in chosen if name not in offered]
    if unknown or not chosen:
        what = f"unknown tool {unknown[0]!r:.80}" if unknown else "no tool is named"
        where = f" for a server of session {session_id}" if session_id is not None else ""
        raise Incorrect(f"{what}{where} (one of: {', '.join(offered)})")
    if len(chosen) > TOOLS_MAX:
        raise Incorrect(f"{len(chosen)} tools are named: choose at most {TOOLS_MAX}")
    return tuple(Tool(operation=offered[name], session_id=session_id) for name in chosen)


def _is_offered(operation: Operation, session_id: str | None) -> bool:
    if operation.name in NOT_OFFERED:
        return False
    return session_id is None or operation.name in {*CONFINED, *ABOUT_NO_SESSION}


def _split(names: str) -> list[str]:
    return [name.strip().replace("-", "_") for name in names.split(",") if name.strip()]
