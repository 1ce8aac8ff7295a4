"""The tools that a harness offers to its agent. Runs commands in the sandbox, and records calls.

    activate, deactivate, pin, unpin     change what the session shows; create no object
    read, write, edit, ls, grep, find, bash
                                         run in the sandbox; each call becomes an object, and the
                                         files that it touched or named are indexed
    recall                               searches what the session has seen; offered only if the
                                         client has a search index

A mistake of the agent is a result with ``ok=False`` and a message for the agent. Only failures that
the agent cannot fix, such as an unreachable store, are raised.

Arguments come from models, so they are validated here. Unknown arguments are rejected, so that the
model notices a misspelt name.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ctxmgr.core.client import recall
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.client.tool_calls import IndexedToolCall
from ctxmgr.core.context.guide import NamedPolicy, tool_help
from ctxmgr.core.discovery.known_tools import absolute
from ctxmgr.core.files.host_files import FILE_BYTES_MAX
from ctxmgr.core.files.outcomes import ReadFile
from ctxmgr.core.objects.codec import check_toolcall_id
from ctxmgr.core.objects.envelope import check_short_text
from ctxmgr.core.objects.toolcall import ToolCall
from ctxmgr.core.sandbox import Command, CommandResult, Sandbox
from ctxmgr.core.store.commits import finish_despite_cancel
from ctxmgr.core.store.documents import check_value
from ctxmgr.errors import Denied, Incorrect, NotFound, Unavailable

BASH_SECONDS: Final = 120.0
"""For one command, unless the model asks for more."""

BASH_SECONDS_MAX: Final = 3_600.0
"""The most that a model may ask for."""


NAME_CHARS_COMPARED: Final = 80
"""Characters of an unknown argument's name that are compared, which takes quadratic time."""

RECALL_QUERY_CHARS_MAX: Final = 1_000
"""In one query."""


class Arguments(BaseModel):
    """The base of all tool arguments."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ObjectArguments(Arguments):
    id: str = Field(min_length=1)


class ReadArguments(Arguments):
    path: str = Field(min_length=1)
    offset: int = Field(default=1, ge=1, description="The first line, from 1.")
    limit: int | None = Field(default=None, ge=1, description="How many lines; all by default.")


class WriteArguments(Arguments):
    path: str = Field(min_length=1)
    content: str


class EditArguments(Arguments):
    path: str = Field(min_length=1)
    old: str = Field(min_length=1, description="Text that is in the file exactly once.")
    new: str


class LsArguments(Arguments):
    path: str = "."


class GrepArguments(Arguments):
    pattern: str = Field(min_length=1, description="A basic regular expression.")
    path: str = "."


class FindArguments(Arguments):
    path: str = "."
    name: str | None = Field(default=None, description="A shell pattern for the file's name.")


class RecallArguments(Arguments):
    query: str = Field(
        min_length=1, max_length=RECALL_QUERY_CHARS_MAX, description="Words to look for."
    )
    limit: int = Field(default=5, ge=1, le=20, description="How many objects at most.")


class BashArguments(Arguments):
    command: str = Field(min_length=1)
    timeout_s: float = Field(default=BASH_SECONDS, gt=0, le=BASH_SECONDS_MAX)


def read_arguments(tool: str, model: type[Arguments], args: Mapping[str, Any]) -> Arguments:
    """Check the arguments of a call; ``Incorrect`` names the first that is wrong."""
    unknown = next((name for name in args if name not in model.model_fields), None)
    if unknown is not None:  # before what is missing, which may be misspelt
        near = get_close_matches(str(unknown)[:NAME_CHARS_COMPARED], model.model_fields, n=1)
        names = ", ".join(model.model_fields)
        hint = f"did you mean {near[0]!r}?" if near else f"it takes {names}"
        raise Incorrect(f"{tool}: unknown argument {unknown!r:.80} ({hint})")
    try:
        return model.model_validate(dict(args))
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(str(part) for part in fault["loc"]) or "arguments"
        raise Incorrect(f"{tool}: {where}: {fault['msg']}") from error


FILE_SECONDS: Final = 30.0
"""For writing or listing files: a slow disk, not a stuck one."""

INTERRUPTED: Final = "interrupted before it ended; what it had done until then was done"
"""The output of a tool that was cancelled."""

WORD_BYTES_MAX: Final = 131_071
"""One argument of a program, on Linux (MAX_ARG_STRLEN)."""

ARGUMENT_CHARS_MAX: Final = 8_000_000
"""All arguments of a call: with its output, they have to fit into one document."""

RAW_CHARS_MAX: Final = 2_000
"""What is kept of a call that cannot be stored as it was sent."""

_INVALID: Final = "invalid"
"""The stored name of a tool whose call could not be stored as it was sent."""

_WRITE: Final = 'mkdir -p -- "$(dirname -- "$1")" && cat > "$1"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A tool that is offered to the model."""

    name: str
    description: str
    arguments: type[Arguments]
    """A pydantic model of the arguments."""
    id_help: str | None = None
    """What the argument ``id`` may be; None: there is none, or it needs no explanation."""

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        schema = self.arguments.model_json_schema()
        if self.id_help is not None:
            schema["properties"]["id"]["description"] = self.id_help
        return schema


def context_tools(policy: str | NamedPolicy) -> tuple[Definition, ...]:
    """Return the tools that change what a session shows, as its policy words them."""
    help_ = tool_help(policy)
    described = {
        "activate": help_.activate,
        "deactivate": help_.deactivate,
        "pin": help_.pin,
        "unpin": help_.unpin,
    }
    return tuple(
        Definition(
            name=name,
            description=description,
            arguments=ObjectArguments,
            id_help=help_.object_id,
        )
        for name, description in described.items()
    )


DEFINITIONS: Final = (
    *context_tools("plain"),
    Definition(name="read", description="Read a text file.", arguments=ReadArguments),
    Definition(
        name="write", description="Write a text file, replacing it.", arguments=WriteArguments
    ),
    Definition(
        name="edit", description="Replace one piece of a text file.", arguments=EditArguments
    ),
    Definition(name="ls", description="List a folder.", arguments=LsArguments),
    Definition(name="grep", description="Search files for a pattern.", arguments=GrepArguments),
    Definition(name="find", description="Find files below a folder.", arguments=FindArguments),
    Definition(name="bash", description="Run a shell command.", arguments=BashArguments),
)
"""The tools of every session, in the words of the plain form. ``Tools.definitions`` has those of
one session: in the words of its policy, and with ``recall`` where its client can search."""

RECALL: Final = Definition(
    name=recall.TOOL,
    description=(
        "Search everything that was read or printed in this session, also what is folded or no "
        "longer shown. Gives ids to activate."
    ),
    arguments=RecallArguments,
)
CONTEXT_TOOLS: Final = frozenset({"activate", "deactivate", "pin", "unpin"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The result of a tool call."""

    ok: bool
    """False if the tool failed or was called incorrectly."""
    message: str
    """The output, or what went wrong."""
    toolcall: ToolCall | None = field(default=None, repr=False)
    """The stored object; None for the context tools, which create none."""


class Tools:
    """Runs the tool calls of one session in the client's sandbox, and records them."""

    def __init__(self, session: LiveSession) -> None:
        self._session = session
        self._runs: Mapping[str, Callable[[Any], Awaitable[tuple[bool, str]]]] = {
            "read": self._read,
            "write": self._write,
            "edit": self._edit,
            "ls": self._ls,
            "grep": self._grep,
            "find": self._find,
            "bash": self._bash,
            RECALL.name: self._recall,
        }
        self._offered = {tool.name: tool for tool in self.definitions}

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """The tools to offer to the model in this session, in the words of its policy."""
        context = {tool.name: tool for tool in context_tools(self._session.policy)}
        tools = tuple(context.get(tool.name, tool) for tool in DEFINITIONS)
        return (*tools, RECALL) if self._session.recall is not None else tools

    async def dispatch(
        self, tool_call_id: str, *, name: str, args: Mapping[str, Any]
    ) -> ToolResult:
        """Run one tool call and store it with the files that it touched.

        A mistake of the agent's, such as an unknown tool or a missing file, is a result with
        ``ok=False``, whatever the model sent as name and arguments. An id that an earlier call of
        the session has is not run again, and neither is a reserved one. Only failures that the
        agent cannot help are raised, such as ``Unavailable``. If this is cancelled, the tool is
        terminated and the call is stored as failed.
        """
        fault = _fault(name, args)
        if fault is not None:  # what cannot be stored is stored as a description
            name, args = _INVALID, {"raw": ascii((name, args))[:RAW_CHARS_MAX]}
        if tool_call_id in self._session.sets.session_index:
            return ToolResult(ok=False, message=f"an earlier call has the id {tool_call_id}")
        try:
            check_toolcall_id(tool_call_id)
        except Incorrect as error:
            return ToolResult(ok=False, message=str(error))
        if name in CONTEXT_TOOLS:
            return await finish_despite_cancel(self._change(tool_call_id, name, args))
        try:
            ok, message = (False, fault) if fault is not None else await self._run(name, args)
        except (Incorrect, NotFound, Denied) as error:
            ok, message = False, str(error)
        except asyncio.CancelledError:
            await self._record(tool_call_id, name=name, args=args, ok=False, message=INTERRUPTED)
            raise
        toolcall = await finish_despite_cancel(
            self._record(tool_call_id, name=name, args=args, ok=ok, message=message)
        )
        return ToolResult(ok=ok, message=message, toolcall=toolcall)

    async def _record(
        self, tool_call_id: str, *, name: str, args: Mapping[str, Any], ok: bool, message: str
    ) -> IndexedToolCall:
        whole = name == "read" and ok and not {"offset", "limit"} & set(args)
        return await self._session.record(
            tool_call_id,
            tool=name,
            args=args,
            output=message,
            status="ok" if ok else "fail",
            faithful=whole,
            discover=name != RECALL.name,
        )

    async def _change(self, tool_call_id: str, name: str, args: Mapping[str, Any]) -> ToolResult:
        try:
            arguments = read_arguments(name, ObjectArguments, args)
            assert isinstance(arguments, ObjectArguments)
            await getattr(self._session, name)(arguments.id)
        except (Incorrect, NotFound, Denied, Unavailable) as error:
            result = ToolResult(ok=False, message=str(error))
        else:
            result = ToolResult(ok=True, message=f"{name}: {arguments.id}")
        self._session.note_context_call(
            tool_call_id, status="ok" if result.ok else "fail", output=result.message
        )
        return result

    async def _run(self, name: str, args: Mapping[str, Any]) -> tuple[bool, str]:
        if name not in self._offered:
            raise Incorrect(f"there is no tool {name!r:.80}; there are {', '.join(self._offered)}")
        return await self._runs[name](read_arguments(name, self._offered[name].arguments, args))

    async def _read(self, args: ReadArguments) -> tuple[bool, str]:
        text = await self._text(self._absolute(args.path))
        if args.offset == 1 and args.limit is None:
            return True, text
        lines = text.splitlines(keepends=True)[args.offset - 1 :]
        return True, "".join(lines[: args.limit])

    async def _write(self, args: WriteArguments) -> tuple[bool, str]:
        path = self._absolute(args.path)
        ran = await self._command(["sh", "-c", _WRITE, "sh", path], stdin=args.content.encode())
        return _result(ran, f"wrote {len(args.content)} characters to {path}")

    async def _edit(self, args: EditArguments) -> tuple[bool, str]:
        path = self._absolute(args.path)
        text = await self._text(path)
        times = text.count(args.old)
        if times != 1:
            raise Incorrect(f"{path} holds the old text {times} times; it must be there once")
        changed = text.replace(args.old, args.new).encode()
        ran = await self._command(["sh", "-c", _WRITE, "sh", path], stdin=changed)
        return _result(ran, f"edited {path}")

    async def _ls(self, args: LsArguments) -> tuple[bool, str]:
        return _result(await self._command(["ls", "-1Ap", "--", args.path]))

    async def _grep(self, args: GrepArguments) -> tuple[bool, str]:
        ran = await self._command(["grep", "-rnI", "-e", args.pattern, "--", args.path])
        nothing_found = ran.exit_code == 1 and not ran.timed_out
        return (True, ran.text) if nothing_found else _result(ran)

    async def _find(self, args: FindArguments) -> tuple[bool, str]:
        if args.path.startswith("-"):
            raise Incorrect(f"{args.path!r:.80} is not a folder: write ./{args.path:.80}")
        named = ["-name", args.name] if args.name is not None else []
        return _result(await self._command(["find", args.path, *named]))

    async def _bash(self, args: BashArguments) -> tuple[bool, str]:
        return _result(await self._command(args.command, timeout_s=args.timeout_s))

    async def _recall(self, args: RecallArguments) -> tuple[bool, str]:
        recall = self._session.recall
        assert recall is not None, "not offered without"
        return True, await recall(args.query, self._session.sets, args.limit)

    async def _text(self, path: str) -> str:
        read = await self._sandbox().read(path, bytes_max=FILE_BYTES_MAX)
        if not isinstance(read, ReadFile):
            raise NotFound(f"{path} cannot be read: {read.reason}")
        try:
            return read.data.decode()
        except UnicodeDecodeError as error:
            raise Incorrect(f"{path} is not text") from error

    async def _command(
        self, command: Command, *, timeout_s: float = FILE_SECONDS, stdin: bytes | None = None
    ) -> CommandResult:
        for word in [command] if isinstance(command, str) else command:
            if "\0" in word:
                raise Incorrect("a command cannot contain a NUL character")
            if len(word.encode()) > WORD_BYTES_MAX:
                raise Incorrect(
                    f"a command of {len(word.encode()):,} bytes is too long (at most "
                    f"{WORD_BYTES_MAX:,}): write it to a file and run that"
                )
        directory = self._session.directory or "/"
        return await self._sandbox().run(command, cwd=directory, timeout_s=timeout_s, stdin=stdin)

    def _absolute(self, path: str) -> str:
        absolute_path = absolute(path, directory=self._session.directory)
        if absolute_path is None:
            raise Incorrect(f"{path!r:.200} is not absolute")
        return absolute_path

    def _sandbox(self) -> Sandbox:
        sandbox = self._session.sandbox
        if sandbox is None:
            raise Incorrect("this client has no sandbox: the harness runs its tools and records")
        return sandbox


def _fault(name: object, args: object) -> str | None:
    """Say why a call cannot be stored as the model sent it; None if it can."""
    try:
        check_short_text("the tool's name", name)
        if not isinstance(args, Mapping):
            return "the arguments must be a JSON object"
        check_value(dict(args), where="arguments", depth=1)
    except Incorrect as error:
        return str(error)
    length = len(json.dumps(dict(args)))
    if length > ARGUMENT_CHARS_MAX:
        return f"the arguments have {length:,} characters (at most {ARGUMENT_CHARS_MAX:,})"
    return None


def _result(ran: CommandResult, message: str | None = None) -> tuple[bool, str]:
    if ran.exit_code == 0 and not ran.timed_out:
        return True, ran.text if message is None else message
    why = "it took too long and was ended" if ran.timed_out else f"exit code {ran.exit_code}"
    line_end = "" if not ran.text or ran.text.endswith("\n") else "\n"
    return False, f"{ran.text}{line_end}[{why}]\n"
