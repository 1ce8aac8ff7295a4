"""The operations offered as MCP tools, and their schemas. No I/O.

    name        -> the operation's, with _ for - and spaces
    description -> docstring
    schema      -> parameters
    writes      -> readOnlyHint

A server has one of three scopes:

    one session    all tools; the agent cannot name another session, and the parameter is removed
    a project      tools that read; a call may name one of the project's sessions
    everything     tools that read, in the whole store; only if the person asked for it

The first two also have the tools of ``OF_PROJECT``: notes and memories of the person who started
the server, in the project where it was started.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ctxmgr.errors import Incorrect, NotFound
from ctxmgr.surfaces.arguments import body_schema, from_json
from ctxmgr.surfaces.operation import Operation
from ctxmgr.surfaces.scopes import CONFINED, parse_session_id

TOOLS_MAX: Final = 12
"""Tools of one server: each costs the agent tokens and attention in every call."""

USUAL: Final = ("activate", "deactivate", "pin", "unpin", "recall", "show", "as_of")
"""The default tools of a server for one session."""

READING: Final = ("sessions", "recall", "show", "as_of", "objects", "log")
"""The default tools of a server for several sessions."""

PROJECT: Final = ("recall", "show", "sessions", "diff", "as_of")
"""The default tools of a server for a project: those that work in a client that makes its own
prompts."""

REMEMBERING: Final = ("remember", "expand")
"""Default tools of every server that is bound to a session or a project."""

NOTING: Final = ("search", "note")
"""Default tools of such a server if there is a folder of notes."""

OF_PROJECT: Final = frozenset(
    {"knowledge search", "knowledge add", "knowledge ask", "memory remember", "memory expand"}
)
"""Operations on the notes and memories of the server's project, none of which an agent names."""

NOT_OFFERED: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(
            ("audit init", "audit status", "audit verify", "audit query", "audit export"),
            "is the audit log, which no agent may reach",
        ),
        "audit checkpoint": "is the audit log, which no agent may reach",
        "experience sql": "reads every session",
        "experience recall": "reads every session",
        "experience status": "describes files of the host",
        "experience export": "writes files on the host",
        **dict.fromkeys(
            ("experience tags", "experience tag", "experience comment", "experience bud"),
            "reaches every session",
        ),
        **dict.fromkeys(
            ("experience buds", "experience concepts"), "is for people who study agents"
        ),
        "experience documents": "is for people who write them",
        "experience sync-documents": "reads files of the host",
        "experience build-pack": "writes a file on the host",
        "experience check-pack": "reads a file on the host",
        **dict.fromkeys(
            ("experience windows", "experience marks", "experience storage", "experience curves"),
            "reads every session",
        ),
        "experience retain": "changes what is kept of every session",
        "experience release": "changes what is kept of every session",
        "experience submit": "changes what is kept of every session",
        "experience resolve": "changes what is kept of every session",
        "experience package": "writes files on the host",
        "experience verify-package": "reads files of the host",
        "experience compress": "changes what is kept of every session",
        **dict.fromkeys(
            (
                *("memory add", "memory list", "memory show", "memory history"),
                *("memory search", "memory edit", "memory forget", "memory restore"),
                *("memory contradictions", "memory resolve", "memory assemble", "memory feedback"),
                *("memory consolidate", "memory learn", "memory refused"),
                *("memory predict", "memory why", "memory share", "memory unshare"),
            ),
            "acts for the person who runs the server",
        ),
        **dict.fromkeys(
            (
                "knowledge init",
                "knowledge status",
                "knowledge check",
                "knowledge commit",
                "knowledge list",
                "knowledge log",
                "knowledge learnt",
                "knowledge blame",
                "knowledge diff",
                "knowledge show",
                "knowledge note",
                "knowledge revert",
                "knowledge tag",
                "knowledge branches",
                "knowledge push",
                "knowledge indexed",
            ),
            "is for the people who own the notes",
        ),
        **dict.fromkeys(
            ("topics list", "topics show", "topics check", "topics try", "topics log"),
            "is for people who write topics",
        ),
        **dict.fromkeys(
            (
                *("lifecycle extract", "lifecycle replay", "lifecycle condense", "lifecycle prune"),
                *("lifecycle archive", "lifecycle reconstruct", "lifecycle check"),
                *("lifecycle status", "lifecycle run", "knowledge review"),
            ),
            "is for a person: an agent's changes may wait there",
        ),
        "topics tune": "is for people who write topics",
        "proxy": "is another server",
        "wrap": "starts processes on the host",
        "proxy status": "describes a process of the host",
        "proxy requests": "is for the person who runs the proxy",
        "proxy request": "is for the person who runs the proxy",
        "compile": "shows what prompts contain already",
        "search": "is recall for a session; agents search notes with a tool of that name",
        "memory export": "writes a file on the host",
        "memory import": "reads a file on the host",
        "memory purge": "removes content for good, which no agent may",
        "export": "writes a file on the host",
        "import": "reads a file on the host",
        "import-recorded": "reads a file on the host",
        "comment": "is what a person says of a turn",
        "compact": "shortens the prompts of a session, which is up to the user",
        "fork": "starts another session, which is up to the user",
        "compare": "reads two sessions, and a server may be limited to one",
        "backup": "writes a file on the host",
        "vacuum": "is store maintenance, which is up to the user",
        "verify": "is store maintenance, and takes long",
        "delete": "hides a session, which is up to the user",
        "restore": "shows a session again, which is up to the user",
        "rename": "names a session, which is up to the user",
        "pause": "concerns other clients, which is up to the user",
        "purge": "removes content for good, which no agent may",
        "purges": "is store maintenance, which is up to the user",
        "size": "is store maintenance, and takes long",
        "hook": "is called by a harness",
        **dict.fromkeys(
            ("harness start", "harness render", "harness record", "harness end-turn"),
            "is for a harness; an agent does not write its own history",
        ),
        "setup": "writes settings of other programs",
        "run": "is another agent",
        "demo": "is for a terminal",
        "bench": "is for a terminal",
        "doctor": "is for a terminal",
        "completion": "is for a shell",
        "mcp": "is this server",
        "serve": "is another server",
        "token": "creates credentials of another server",
        "trust": "is up to the user",
        "status": "describes the database, which an agent does not see",
        "xtdb up": "starts a process",
        "xtdb down": "ends a process",
        "xtdb status": "reports a process",
    }
)
"""Operations that are not offered as tools, and why."""

SESSIONS: Final = "sessions"
"""The operation that lists sessions; on a project's server, those of the project."""

RECALL: Final = "recall"
SEARCH: Final = "search"
"""The operation that searches all sessions of a project."""

_SESSION: Final = "session"


@dataclass(frozen=True, slots=True, kw_only=True)
class McpScope:
    """What an agent reaches through a server; without a session and a project, everything."""

    session_id: str | None = None
    """The session that the server is bound to."""
    project: Callable[[], Sequence[str]] | None = None
    """Returns the ids of the project's sessions, which may become more while the server runs."""
    current: str | None = None
    """The session that the client itself is in, if it says so; it may not be stored yet."""
    folder: Path | None = None
    """The project's folder, to which memories belong."""
    knowledge: Path | None = None
    """The folder of notes; None: there is none."""

    def of_project(self, operation: Operation) -> dict[str, Path | str | None]:
        """Return the arguments that the server gives to an operation of the project."""
        session = self.session_id or self.current
        given = {"project": self.folder, "folder": self.knowledge, "session": session}
        names = {parameter.name for parameter in operation.parameters if parameter.param.local}
        return {name: value for name, value in given.items() if name in names}

    def session_of(self, arguments: Mapping[str, Any]) -> str | None:
        """Return the session that a call is limited to; None: it is not limited.

        ``NotFound`` if it is none of the project's, whether or not another project has it.
        """
        if self.project is None:
            return self.session_id
        session_id = parse_session_id(arguments[_SESSION])
        self.require_in_project(session_id)
        return session_id

    def require_in_project(self, session_id: str) -> None:
        """Raise ``NotFound`` for a session of another project."""
        if self.project is not None and session_id not in self.project():
            raise NotFound(f"this project has no session {session_id!r:.80}; `sessions` lists them")

    def offers(self, operation: Operation) -> bool:
        """Return whether an agent may use an operation."""
        if operation.name in NOT_OFFERED:
            return False
        if operation.name in OF_PROJECT:
            bound = self.session_id is not None or self.project is not None
            return bound and (self.knowledge is not None or operation.name.startswith("memory "))
        if self.session_id is not None:
            return operation.name in CONFINED
        if operation.writes:
            return False
        if self.project is None or operation.name == SESSIONS:
            return True
        return operation.name in CONFINED and _takes(operation, _SESSION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """An operation as a tool."""

    operation: Operation
    scope: McpScope
    across: Operation | None = None
    """Answers a call that names no session, from all sessions of the project."""

    @property
    def name(self) -> str:
        return tool_name(self.operation)

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments, in as few tokens as possible."""
        schema: dict[str, Any] = _lean(body_schema(self.operation))
        if not self._fills:
            return schema
        properties: dict[str, Any] = schema["properties"]
        optional = _or_session(self.operation)
        for name in optional:
            properties[name] = {**properties[name], "description": _NAME_WHEN_BOUND}
        required = [
            name for name in schema.pop("required", []) if name != _SESSION and name not in optional
        ]
        if self.scope.session_id is not None:
            properties.pop(_SESSION, None)
        elif _SESSION in properties:
            left_out = _ALL_SESSIONS if self.across else _ANY_SESSION
            properties[_SESSION] = {**properties[_SESSION], "description": left_out}
        return {**schema, "required": required} if required else schema

    @property
    def lacks_session(self) -> bool:
        """Whether a call of the project's server has to be given a session."""
        return self.scope.project is not None and _takes(self.operation, _SESSION)

    def present(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the agent's arguments by their present names, without those that are null."""
        former = {
            parameter.param.former: parameter.public_name
            for parameter in self.operation.remote_parameters
        }
        return {
            former.get(name) or name: value for name, value in given.items() if value is not None
        }

    def subject(self, present: Mapping[str, Any]) -> str | None:
        """Return the object that a call names; None: it is about a session."""
        named = (present.get(name) for name in _or_session(self.operation))
        return next((name for name in named if isinstance(name, str)), None)

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Read the agent's arguments; ``Incorrect`` if they are invalid."""
        present = self.present(given)
        return from_json(self.operation, {**self._filled(present), **present})

    @property
    def _fills(self) -> bool:
        """Whether arguments that name the session may be left out."""
        bound = self.scope.session_id is not None or self.scope.project is not None
        return bound and (_takes(self.operation, _SESSION) or bool(_or_session(self.operation)))

    def _filled(self, given: Mapping[str, Any]) -> dict[str, Any]:
        if not self._fills:
            return {}
        session_id = self.scope.session_id
        if session_id is not None and _SESSION in given:
            raise Incorrect(f"this server is bound to session {session_id}: leave out session")
        if session_id is None and _SESSION not in given:
            raise Incorrect(f"{self.operation.name}: missing {_SESSION}")
        named = given[_SESSION] if session_id is None else session_id
        takes = {_SESSION} if _takes(self.operation, _SESSION) else set()
        return dict.fromkeys(takes | _or_session(self.operation), named)


def _takes(operation: Operation, name: str) -> bool:
    return any(parameter.public_name == name for parameter in operation.remote_parameters)


def _or_session(operation: Operation) -> frozenset[str]:
    """Return the parameters that may name the session itself."""
    return frozenset(
        parameter.public_name
        for parameter in operation.remote_parameters
        if parameter.param.or_session
    )


_ALL_SESSIONS: Final = "One of the project's sessions. Left out: all of them."
_ANY_SESSION: Final = "One of the project's sessions. Left out: the one that has seen the object."
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
    return operation.tool or operation.name.replace("-", "_").replace(" ", "_")


def choose_tools(
    operations: Iterable[Operation], names: str | None, *, scope: McpScope
) -> tuple[Tool, ...]:
    """Return the tools of a server; ``names`` are separated by commas, None: the defaults."""
    operations = tuple(operations)
    by_name = {tool_name(each): each for each in operations if scope.offers(each)}
    offered = list(by_name)
    usual: tuple[str, ...] = READING if scope.session_id is None else USUAL
    usual = PROJECT if scope.project is not None else usual
    usual += tuple(name for name in (*REMEMBERING, *NOTING) if name in by_name)
    chosen = usual if names is None else tuple(dict.fromkeys(_split(names)))
    refused = [name for name in chosen if name not in offered]
    if refused and scope.session_id is None and refused[0] in USUAL:
        raise Incorrect(f"{refused[0]} changes a session: bind the server to it with --session")
    if refused or not chosen:
        what = f"unknown tool {refused[0]!r:.80}" if refused else "no tool is named"
        bound = scope.session_id is not None
        where = f" for a server of session {scope.session_id}" if bound else ""
        raise Incorrect(f"{what}{where} (one of: {', '.join(offered)})")
    if len(chosen) > TOOLS_MAX:
        raise Incorrect(f"{len(chosen)} tools are named: choose at most {TOOLS_MAX}")
    search = next((each for each in operations if each.name == SEARCH), None)
    return tuple(
        Tool(
            operation=by_name[name],
            scope=scope,
            across=search if scope.project is not None and name == RECALL else None,
        )
        for name in chosen
    )


def _split(names: str) -> list[str]:
    return [name.strip().replace("-", "_") for name in names.split(",") if name.strip()]
