"""What the harness offers the agent. Runs commands in the sandbox, and records what they did.

    activate, deactivate, pin, unpin     change what the session shows; make no object
    read, write, edit, ls, grep, find, bash
                                         run in the sandbox; each call becomes an object, and the
                                         files it touched or named are indexed
    recall                               searches what the session has met; offered only where the
                                         client has a search index

A call always comes back with ``ok`` and a message: what an agent does wrong is told to the agent.
Only what the agent cannot help, such as a store that is away, is raised.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ctxmgr.core import recalled
from ctxmgr.core.contents import ToolCall
from ctxmgr.core.file_outcomes import Read
from ctxmgr.core.hostfiles import FILE_BYTES_MAX
from ctxmgr.core.live_session import LiveSession
from ctxmgr.core.sandbox import Command, Ran, Sandbox
from ctxmgr.core.tool_arguments import (
    Arguments,
    BashArguments,
    EditArguments,
    FindArguments,
    GrepArguments,
    LsArguments,
    ObjectArguments,
    ReadArguments,
    RecallArguments,
    WriteArguments,
    read_arguments,
)
from ctxmgr.core.tool_traces import absolute
from ctxmgr.core.uncut import uncut
from ctxmgr.errors import Denied, Incorrect, NotFound, Unavailable

FILE_SECONDS: Final = 30.0
"""For writing or listing files: a slow disk, not a stuck one."""

INTERRUPTED: Final = "interrupted before it ended; what it had done until then was done"
"""The output of a tool that was cancelled."""

_WRITE: Final = 'mkdir -p -- "$(dirname -- "$1")" && cat > "$1"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A tool as a model is told of it."""

    name: str
    description: str
    arguments: type[Arguments]

    @property
    def schema(self) -> dict[str, Any]:
        """JSON schema of the arguments."""
        return self.arguments.model_json_schema()


DEFINITIONS: Final = (
    Definition(
        name="activate",
        description="Show a known object in full. A file that was never read is read.",
        arguments=ObjectArguments,
    ),
    Definition(
        name="deactivate",
        description="Fold an object back to its one line; nothing is lost.",
        arguments=ObjectArguments,
    ),
    Definition(
        name="pin",
        description="Keep an object from being folded by itself.",
        arguments=ObjectArguments,
    ),
    Definition(
        name="unpin",
        description="Let an object be folded by itself again.",
        arguments=ObjectArguments,
    ),
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
RECALL: Final = Definition(
    name=recalled.TOOL,
    description=(
        "Search everything that was read or printed in this session, also what is folded or no "
        "longer shown. Gives ids to activate."
    ),
    arguments=RecallArguments,
)
CONTEXT_TOOLS: Final = frozenset({"activate", "deactivate", "pin", "unpin"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What an agent is told of its call."""

    ok: bool
    message: str
    """The output, or what went wrong."""
    toolcall: ToolCall | None = field(default=None, repr=False)
    """None: a context tool, which makes no object."""


class Tools:
    """The tools of one session."""

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
        self._offered = {each.name: each for each in self.definitions}

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """The tools that the agent of this session is offered."""
        searches = self._session.state.surroundings.recall is not None
        return (*DEFINITIONS, RECALL) if searches else DEFINITIONS

    async def dispatch(
        self, tool_call_id: str, *, name: str, args: Mapping[str, Any]
    ) -> ToolResult:
        """Run one tool call and store it.

        Cancelled, the tool is ended and the call is stored as a failed one before the cancellation
        goes on: what it did so far was done.
        """
        if name in CONTEXT_TOOLS:
            return await uncut(self._change(tool_call_id, name, args))
        try:
            ok, message = await self._run(name, args)
        except (Incorrect, NotFound, Denied) as error:
            ok, message = False, str(error)
        except asyncio.CancelledError:
            await self._record(tool_call_id, name=name, args=args, ok=False, message=INTERRUPTED)
            raise
        toolcall = await uncut(
            self._record(tool_call_id, name=name, args=args, ok=ok, message=message)
        )
        return ToolResult(ok=ok, message=message, toolcall=toolcall)

    async def _record(
        self, tool_call_id: str, *, name: str, args: Mapping[str, Any], ok: bool, message: str
    ) -> ToolCall:
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
            given = read_arguments(ObjectArguments, args)
            assert isinstance(given, ObjectArguments)
            await getattr(self._session, name)(given.id)
        except (Incorrect, NotFound, Denied, Unavailable) as error:
            result = ToolResult(ok=False, message=str(error))
        else:
            result = ToolResult(ok=True, message=f"{name}: {given.id}")
        self._session.note_context_call(
            tool_call_id, status="ok" if result.ok else "fail", output=result.message
        )
        return result

    async def _run(self, name: str, args: Mapping[str, Any]) -> tuple[bool, str]:
        if name not in self._offered:
            raise Incorrect(f"there is no tool {name!r:.80}; there are {', '.join(self._offered)}")
        return await self._runs[name](read_arguments(self._offered[name].arguments, args))

    async def _read(self, args: ReadArguments) -> tuple[bool, str]:
        text = await self._text(self._absolute(args.path))
        if args.offset == 1 and args.limit is None:
            return True, text
        lines = text.splitlines(keepends=True)[args.offset - 1 :]
        return True, "".join(lines[: args.limit])

    async def _write(self, args: WriteArguments) -> tuple[bool, str]:
        path = self._absolute(args.path)
        ran = await self._command(["sh", "-c", _WRITE, "sh", path], stdin=args.content.encode())
        return _said(ran, f"wrote {len(args.content)} characters to {path}")

    async def _edit(self, args: EditArguments) -> tuple[bool, str]:
        path = self._absolute(args.path)
        text = await self._text(path)
        times = text.count(args.old)
        if times != 1:
            raise Incorrect(f"{path} holds the old text {times} times; it must be there once")
        changed = text.replace(args.old, args.new).encode()
        ran = await self._command(["sh", "-c", _WRITE, "sh", path], stdin=changed)
        return _said(ran, f"edited {path}")

    async def _ls(self, args: LsArguments) -> tuple[bool, str]:
        return _said(await self._command(["ls", "-1Ap", "--", args.path]))

    async def _grep(self, args: GrepArguments) -> tuple[bool, str]:
        ran = await self._command(["grep", "-rnI", "-e", args.pattern, "--", args.path])
        nothing_found = ran.exit_code == 1 and not ran.timed_out
        return (True, ran.text) if nothing_found else _said(ran)

    async def _find(self, args: FindArguments) -> tuple[bool, str]:
        if args.path.startswith("-"):
            raise Incorrect(f"{args.path!r:.80} is no folder: write ./{args.path:.80}")
        named = ["-name", args.name] if args.name is not None else []
        return _said(await self._command(["find", args.path, *named]))

    async def _bash(self, args: BashArguments) -> tuple[bool, str]:
        return _said(await self._command(args.command, timeout_s=args.timeout_s))

    async def _recall(self, args: RecallArguments) -> tuple[bool, str]:
        recall = self._session.state.surroundings.recall
        assert recall is not None, "not offered without"
        return True, await recall(args.query, self._session.sets, args.limit)

    async def _text(self, path: str) -> str:
        found = await self._sandbox().read(path, bytes_max=FILE_BYTES_MAX)
        if not isinstance(found, Read):
            raise NotFound(f"{path} cannot be read: {found.reason}")
        try:
            return found.data.decode()
        except UnicodeDecodeError as error:
            raise Incorrect(f"{path} is no text") from error

    async def _command(
        self, command: Command, *, timeout_s: float = FILE_SECONDS, stdin: bytes | None = None
    ) -> Ran:
        directory = self._session.directory or "/"
        return await self._sandbox().run(command, cwd=directory, timeout_s=timeout_s, stdin=stdin)

    def _absolute(self, path: str) -> str:
        found = absolute(path, directory=self._session.directory)
        if found is None:
            raise Incorrect(f"{path!r:.200} is not absolute")
        return found

    def _sandbox(self) -> Sandbox:
        sandbox = self._session.state.surroundings.sandbox
        if sandbox is None:
            raise Incorrect("this client has no sandbox: the harness runs its tools and records")
        return sandbox


def _said(ran: Ran, message: str | None = None) -> tuple[bool, str]:
    if ran.exit_code == 0 and not ran.timed_out:
        return True, ran.text if message is None else message
    why = "it took too long and was ended" if ran.timed_out else f"exit code {ran.exit_code}"
    line_end = "" if not ran.text or ran.text.endswith("\n") else "\n"
    return False, f"{ran.text}{line_end}[{why}]\n"
