"""Which operations are MCP tools, and how each is described to an agent. Touches nothing.

    name        -> the operation's, with _ for what a tool's name cannot hold
    description -> docstring
    schema      -> parameters
    writes      -> readOnlyHint

A server that is bound to a session never lets the agent name one: the parameter is gone, and what
is named otherwise is looked up in that session alone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.arguments import body_schema, from_json
from ctxmgr.surfaces.catalogue import Operation
from ctxmgr.surfaces.scopes import CONFINED

TOOLS_MAX: Final = 8
"""Tools of one server: every one costs the agent tokens in every call, and attention."""

USUAL: Final = ("activate", "deactivate", "pin", "unpin", "recall", "show", "as_of", "status")
"""What is offered unless other tools are chosen."""

NOT_OFFERED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "export": "writes a file of the host",
        "import": "reads a file of the host",
        "import-recorded": "reads a file of the host",
        "fork": "begins another session, which is a person's business",
        "backup": "writes a file of the host",
        "vacuum": "keeps the store, which is a person's business",
        "verify": "keeps the store, and takes long",
        "hook": "is called by a harness",
        "run": "is an agent of its own",
        "demo": "is for a person who looks",
        "bench": "is for a person who looks",
        "doctor": "is for a person who looks",
        "completion": "is for a shell",
        "mcp": "is this server",
        "serve": "is another server",
        "token": "makes what another server is guarded by",
        "xtdb up": "starts a process",
        "xtdb down": "ends a process",
        "xtdb status": "tells of a process",
    }
)
"""Operations that are no tools, and why."""

ABOUT_NO_SESSION: Final = frozenset({"status"})
"""Tools of a bound server that name nothing: they tell of the store, and of nobody's objects."""

_SESSION: Final = "session"
_NAME: Final = "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """An operation as an agent is offered it."""

    operation: Operation
    session_id: str | None
    """The session that the server is bound to."""

    @property
    def name(self) -> str:
        return tool_name(self.operation)

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments, in as few tokens as it takes."""
        schema: dict[str, Any] = _lean(body_schema(self.operation))
        if self.session_id is None:
            return schema
        own: dict[str, Any] = schema["properties"]
        own.pop(_SESSION, None)
        if _NAME in own:
            own[_NAME] = {**own[_NAME], "description": _NAME_WHEN_BOUND}
        required = [each for each in schema.pop("required", []) if each not in (_SESSION, _NAME)]
        return {**schema, "required": required} if required else schema

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Read what the agent gave; ``Incorrect`` names what is wrong with it."""
        known = {name: value for name, value in given.items() if value is not None}
        return from_json(self.operation, {**self._filled(known), **known})

    def _filled(self, given: Mapping[str, Any]) -> dict[str, Any]:
        if self.session_id is None:
            return {}
        if _SESSION in given:
            raise Incorrect(f"this server is bound to session {self.session_id}: leave out session")
        names = {each.name for each in self.operation.parameters}
        return dict.fromkeys(names & {_SESSION, _NAME}, self.session_id)


_NAME_WHEN_BOUND: Final = (
    "An object: its id, the beginning of it, or a file's path. Left out: the session itself."
)


def _lean(schema: Any) -> Any:
    """Leave out what every integer is held to: no agent gets it wrong."""
    if isinstance(schema, list):
        return [_lean(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: _lean(each) for name, each in schema.items() if name not in _ALWAYS_HELD}


_ALWAYS_HELD: Final = frozenset({"minimum", "maximum", "maxItems"})


def tool_name(operation: Operation) -> str:
    """Name an operation as a tool."""
    return operation.name.replace("-", "_").replace(" ", "_")


def choose_tools(
    operations: Iterable[Operation], names: str | None, *, session_id: str | None
) -> tuple[Tool, ...]:
    """Return the tools of a server; ``names`` are separated by commas, None: the usual ones."""
    known = {tool_name(each): each for each in operations if _may_be_offered(each, session_id)}
    chosen = USUAL if names is None else tuple(dict.fromkeys(_split(names)))
    unknown = [each for each in chosen if each not in known]
    if unknown or not chosen:
        what = f"{unknown[0]!r:.80} is no tool" if unknown else "no tool is chosen"
        where = f" of a server for session {session_id}" if session_id is not None else ""
        raise Incorrect(f"{what}{where}; there are {', '.join(known)}")
    if len(chosen) > TOOLS_MAX:
        raise Incorrect(f"{len(chosen)} tools are chosen; a server has at most {TOOLS_MAX}")
    return tuple(Tool(operation=known[each], session_id=session_id) for each in chosen)


def _may_be_offered(operation: Operation, session_id: str | None) -> bool:
    if operation.name in NOT_OFFERED:
        return False
    return session_id is None or operation.name in {*CONFINED, *ABOUT_NO_SESSION}


def _split(names: str) -> list[str]:
    return [each.strip().replace("-", "_") for each in names.split(",") if each.strip()]
