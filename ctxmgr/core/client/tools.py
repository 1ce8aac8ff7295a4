"""The tools that a harness offers to its agent. Runs commands in the sandbox, and records calls.

    activate, deactivate, pin, unpin     change what the session shows; create no object
    read, write, edit, ls, grep, find, bash
                                         run in the sandbox; each call becomes an object, and the
                                         files that it touched or named are indexed
    recall                               searches what the session has seen; offered only if the
                                         client has a search index
    list_objects                         lists what a limited pool leaves out; offered only under
                                         the compact policy
    search, note, …                      tools of the client's layers

A mistake of the agent is a result with ``ok=False`` and a message for the agent. Only failures that
the agent cannot fix, such as an unreachable store, are raised.

Arguments come from models, so they are validated first (``tool_definitions``).
"""

import asyncio
import json
import re
import shlex
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.client.tool_calls import IndexedToolCall
from ctxmgr.core.client.tool_definitions import (
    CONTEXT_TOOLS,
    DEFINITIONS,
    LIST_OBJECTS,
    RECALL,
    BashArguments,
    Definition,
    EditArguments,
    FindArguments,
    GrepArguments,
    ListArguments,
    LsArguments,
    ObjectArguments,
    ReadArguments,
    RecallArguments,
    WriteArguments,
    context_tools,
    read_arguments,
)
from ctxmgr.core.context.layer_tools import LayerTool
from ctxmgr.core.discovery.known_tools import absolute, output_kind
from ctxmgr.core.discovery.search_commands import (
    NO_FILES,
    NO_MATCHES,
    find_command,
    grep_command,
    listing,
    ls_command,
    page_command,
)
from ctxmgr.core.files.encodings import UTF_8, DecodedText, decode
from ctxmgr.core.files.host_files import FILE_BYTES_MAX
from ctxmgr.core.files.outcomes import ReadFile, Refusal, RefusedFile, Unread
from ctxmgr.core.objects.codec import check_toolcall_id
from ctxmgr.core.objects.envelope import check_short_text
from ctxmgr.core.objects.toolcall import ToolCall
from ctxmgr.core.sandbox import Command, CommandResult, Sandbox
from ctxmgr.core.store.commits import finish_despite_cancel
from ctxmgr.core.store.documents import check_value
from ctxmgr.errors import CtxmgrError, Denied, Incorrect, NotFound, Unavailable

PAGE_LINES: Final = 2_000
"""Lines of a file that is too large to be read whole, unless the model asks for fewer."""

PAGE_BYTES_MAX: Final = 128 * 1024
"""Of one page of such a file: half of what a sandbox keeps of an output by default."""

_HANDLE: Final = re.compile(r"#\d{1,9}")
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")

FILE_SECONDS: Final = 30.0
"""For writing or listing files: a slow disk, not a stuck one."""

INTERRUPTED: Final = "interrupted before it ended; what it had done until then was done"
"""The output of a tool that was cancelled."""

WORD_BYTES_MAX: Final = 131_071
"""One argument of a program, on Linux (MAX_ARG_STRLEN)."""

ARGUMENT_CHARS_MAX: Final = 8_000_000
"""All arguments of a call: with its output, they have to fit into one document."""

UTF_8_BYTES_MAX: Final = 4
"""Of one character."""

RAW_CHARS_MAX: Final = 2_000
"""What is kept of a call that cannot be stored as it was sent."""

_INVALID: Final = "invalid"
"""The stored name of a tool whose call could not be stored as it was sent."""

_WRITE: Final = 'mkdir -p -- "$(dirname -- "$1")" && cat > "$1"'


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The result of a tool call."""

    ok: bool
    """False if the tool failed or was called incorrectly."""
    message: str
    """The output, or what went wrong."""
    toolcall: ToolCall | None = field(default=None, repr=False)
    """The stored object; None for the context tools, which create none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Output:
    """What a tool gave back."""

    ok: bool
    text: str
    faithful: bool = False
    """The text is byte for byte the file that was read."""


def _layer_definition(tool: LayerTool) -> Definition:
    return Definition(name=tool.name, description=tool.description, arguments=tool.arguments)


def _failed(text: str) -> _Output:
    return _Output(ok=False, text=text)


class Tools:
    """Runs the tool calls of one session in the client's sandbox, and records them."""

    def __init__(self, session: LiveSession) -> None:
        self._session = session
        self._runs: Mapping[str, Callable[[Any], Awaitable[_Output]]] = {
            "read": self._read,
            "write": self._write,
            "edit": self._edit,
            "ls": self._ls,
            "grep": self._grep,
            "find": self._find,
            "bash": self._bash,
            RECALL.name: self._recall,
            LIST_OBJECTS.name: self._list_objects,
            **{tool.name: self._layer_run(tool) for tool in session.layer_tools},
        }
        self._offered = {tool.name: tool for tool in self.definitions}
        own = (tool.name for tool in session.layer_tools)
        self._undiscovered = frozenset((RECALL.name, LIST_OBJECTS.name, *own))
        """Tools whose output names no files of the agent."""

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """The tools to offer to the model in this session, in the words of its policy."""
        context = {tool.name: tool for tool in context_tools(self._session.policy)}
        tools = tuple(context.get(tool.name, tool) for tool in DEFINITIONS)
        if self._session.policy_name == "compact":
            tools = (*tools, LIST_OBJECTS)
        if self._session.recall is not None:
            tools = (*tools, RECALL)
        return (*tools, *map(_layer_definition, self._session.layer_tools))

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
            output = _failed(fault) if fault is not None else await self._run(name, args)
        except (Incorrect, NotFound, Denied) as error:
            output = _failed(str(error))
        except asyncio.CancelledError:
            await self._record(tool_call_id, name=name, args=args, output=_failed(INTERRUPTED))
            raise
        toolcall = await finish_despite_cancel(
            self._record(tool_call_id, name=name, args=args, output=output)
        )
        return ToolResult(ok=output.ok, message=output.text, toolcall=toolcall)

    async def _record(
        self, tool_call_id: str, *, name: str, args: Mapping[str, Any], output: _Output
    ) -> IndexedToolCall:
        return await self._session.record(
            tool_call_id,
            tool=name,
            args=args,
            output=output.text,
            status="ok" if output.ok else "fail",
            faithful=output.faithful,
            discover=name not in self._undiscovered and not _reads_output(args),
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

    async def _run(self, name: str, args: Mapping[str, Any]) -> _Output:
        if name not in self._offered:
            raise Incorrect(f"there is no tool {name!r:.80}; there are {', '.join(self._offered)}")
        return await self._runs[name](read_arguments(name, self._offered[name].arguments, args))

    async def _read(self, args: ReadArguments) -> _Output:
        if _HANDLE.fullmatch(args.path):
            return await self._read_output(args)
        path = self._absolute(args.path)
        read = await self._sandbox().read(path, bytes_max=FILE_BYTES_MAX)
        if isinstance(read, RefusedFile) and read.refusal is Refusal.TOO_LARGE:
            return await self._read_page(path, args, why=read.reason)
        decoded = _text(path, read)
        note = _encoding_note(decoded)
        if args.offset == 1 and args.limit is None:
            return _Output(ok=True, text=decoded.text + note, faithful=not note)
        lines = decoded.text.splitlines(keepends=True)
        page = lines[args.offset - 1 :][: args.limit]
        if lines and not page:
            raise Incorrect(f"{path} has {len(lines):,} lines; offset {args.offset:,} is beyond")
        return _Output(ok=True, text="".join(page) + note)

    async def _read_output(self, args: ReadArguments) -> _Output:
        """Read lines of an earlier output, by the numbers that a prompt shows for hidden ones."""
        from ctxmgr.core.economy.file_lines import first_line

        call = await self._session.call_with_handle(args.path)
        content = call.content or ""
        first = first_line(output_kind(call.tool, call.args), call.args, content)
        lines = _LINE.findall(content)
        page = lines[max(0, args.offset - first) :][: args.limit]
        if lines and not page:
            last = first + len(lines) - 1
            raise Incorrect(
                f"{args.path} ends with line {last:,}; offset {args.offset:,} is beyond"
            )
        return _Output(ok=True, text="".join(page))

    async def _read_page(self, path: str, args: ReadArguments, *, why: str) -> _Output:
        """Read some lines of a file that is too large to be read whole and stored."""
        limit = min(args.limit or PAGE_LINES, PAGE_LINES)
        command = page_command(path, offset=args.offset, lines=limit + 1, size=PAGE_BYTES_MAX + 1)
        ran = await self._command(command)
        if ran.exit_code != 0 or ran.timed_out:
            return _output(ran, timeout_s=FILE_SECONDS)
        if ran.truncated:
            raise Incorrect(f"{limit} lines of {path} are more than the sandbox prints; read fewer")
        if not ran.output:
            raise Incorrect(f"{path} has no line {args.offset:,}")
        page = _Page.of(ran.output, limit=limit)
        decoded = decode(page.data)
        if decoded is None:
            raise Incorrect(f"{path} is not text")
        return _Output(
            ok=True,
            text=decoded.text
            + ("" if decoded.text.endswith("\n") else "\n")
            + page.note(path, offset=args.offset, why=why)
            + _encoding_note(decoded),
        )

    async def _write(self, args: WriteArguments) -> _Output:
        path = self._absolute(args.path)
        ran = await self._command(["sh", "-c", _WRITE, "sh", path], stdin=args.content.encode())
        wrote = f"wrote {len(args.content)} characters to {path}"
        return _output(ran, wrote, timeout_s=FILE_SECONDS)

    async def _edit(self, args: EditArguments) -> _Output:
        path = self._absolute(args.path)
        decoded = _text(path, await self._sandbox().read(path, bytes_max=FILE_BYTES_MAX))
        times = decoded.text.count(args.old)
        if times != 1:
            raise Incorrect(f"{path} contains the old text {times} times; it must be there once")
        changed = decoded.encode(decoded.text.replace(args.old, args.new))
        if changed is None:
            raise Incorrect(
                f"{path} is {decoded.encoding}, which lacks a character of the new text"
            )
        ran = await self._command(["sh", "-c", _WRITE, "sh", path], stdin=changed)
        return _output(ran, f"edited {path}", timeout_s=FILE_SECONDS)

    async def _ls(self, args: LsArguments) -> _Output:
        ran = await self._command(ls_command(args.path))
        if ran.exit_code != 0 or ran.timed_out:
            return _output(ran, timeout_s=FILE_SECONDS)
        return _Output(ok=True, text=listing(ran.text))

    async def _grep(self, args: GrepArguments) -> _Output:
        command = grep_command(
            args.pattern, path=args.path, glob=args.glob, ignore_case=args.ignore_case
        )
        return _found(await self._command(command), nothing=NO_MATCHES)

    async def _find(self, args: FindArguments) -> _Output:
        if args.path.startswith("-"):
            raise Incorrect(f"{args.path!r:.80} is not a folder: write ./{args.path:.80}")
        return _found(
            await self._command(find_command(args.path, name=args.name)), nothing=NO_FILES
        )

    async def _bash(self, args: BashArguments) -> _Output:
        ran = await self._command(args.command, timeout_s=args.timeout_s)
        return _output(ran, timeout_s=args.timeout_s, hint="; pass timeout_s")

    def _layer_run(self, tool: LayerTool) -> Callable[[Any], Awaitable[_Output]]:
        async def run(args: Any) -> _Output:
            try:
                return _Output(ok=True, text=await tool.run(self._session.session_id, args))
            except CtxmgrError as error:  # a layer never fails a turn
                return _failed(str(error))

        return run

    async def _list_objects(self, args: ListArguments) -> _Output:
        lines = self._session.known_objects()
        last = args.offset + args.limit - 1
        listed = "".join(lines[args.offset - 1 : last])
        text = f"[{len(lines)} known objects, from {args.offset}]\n{listed}"
        return _Output(ok=True, text=text)

    async def _recall(self, args: RecallArguments) -> _Output:
        recall = self._session.recall
        assert recall is not None, "not offered without"
        found = await recall(args.query, self._session.sets, args.limit)
        return _Output(ok=True, text=found)

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


def _reads_output(args: Mapping[str, Any]) -> bool:
    path = args.get("path")
    return isinstance(path, str) and _HANDLE.fullmatch(path) is not None


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


def _output(
    ran: CommandResult, message: str | None = None, *, timeout_s: float, hint: str = ""
) -> _Output:
    if ran.exit_code == 0 and not ran.timed_out:
        return _Output(ok=True, text=ran.text if message is None else message)
    code = f"exit code {ran.exit_code}"
    why = f"timed out after {timeout_s:g} s{hint}" if ran.timed_out else code
    line_end = "" if not ran.text or ran.text.endswith("\n") else "\n"
    return _Output(ok=False, text=f"{ran.text}{line_end}[{why}]\n")


def _found(ran: CommandResult, *, nothing: str) -> _Output:
    """Return the output of a search, which ends with 1 if it found nothing."""
    if ran.timed_out or ran.exit_code not in {0, 1}:
        return _output(ran, timeout_s=FILE_SECONDS, hint="; search a smaller folder")
    return _Output(ok=True, text=ran.text or nothing)


def _text(path: str, read: ReadFile | Unread) -> DecodedText:
    if isinstance(read, RefusedFile) and read.is_folder:
        raise Incorrect(f"{path} is a directory; ls lists it")
    if not isinstance(read, ReadFile):
        raise NotFound(f"{path} cannot be read: {read.reason}")
    decoded = decode(read.data)
    if decoded is None:
        raise Incorrect(f"{path} is not text in a known encoding; use a tool that reads its format")
    return decoded


def _encoding_note(decoded: DecodedText) -> str:
    if decoded.encoding == UTF_8:
        return ""
    line_end = "" if decoded.text.endswith("\n") else "\n"
    return f"{line_end}[the file is not UTF-8; decoded as {decoded.encoding}]\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    """Some lines of a large file."""

    data: bytes
    lines: int
    """Complete ones."""
    cut: bool
    """The last one is not complete."""
    more: bool
    """Others follow."""

    @classmethod
    def of(cls, output: bytes, *, limit: int) -> Self:
        """Read the output of a command that printed up to a line and a byte more than a page."""
        data = output[:PAGE_BYTES_MAX]
        lines = data.splitlines(keepends=True)
        if len(output) > PAGE_BYTES_MAX and len(lines) > 1 and not data.endswith(b"\n"):
            lines.pop()  # it begins the next page
            return cls(data=b"".join(lines), lines=len(lines), cut=False, more=True)
        if len(output) > PAGE_BYTES_MAX:
            whole = data.endswith(b"\n")
            return cls(data=_whole_characters(data), lines=len(lines), cut=not whole, more=True)
        more = len(lines) > limit
        return cls(data=b"".join(lines[:limit]), lines=min(len(lines), limit), cut=False, more=more)

    def note(self, path: str, *, offset: int, why: str) -> str:
        """Say which lines these are, and how to read on."""
        last = offset + self.lines - 1
        lines = f"line {last:,}" if self.lines == 1 else f"lines {offset:,}-{last:,}"
        size = f"{len(self.data):,} bytes"
        if self.cut:
            rest = (
                f"tail -n +{last} {shlex.quote(path)} | head -n 1 | tail -c +{len(self.data) + 1}"
            )
            onward = (
                f"it is cut after {size}: `{rest} | head -c {PAGE_BYTES_MAX}` shows its next part"
            )
            return f"[{lines}; {onward}; the next line is offset={last + 1}]\n"
        follows = f"; more follow: read on with offset={last + 1}" if self.more else "; the last"
        return f"[{lines}, {size}{follows}; the file is large: {why}]\n"


def _whole_characters(data: bytes) -> bytes:
    """Return bytes without the beginning of a UTF-8 character at their end."""
    for end in range(len(data), max(0, len(data) - UTF_8_BYTES_MAX), -1):
        try:
            data[:end].decode()
        except UnicodeDecodeError:
            continue
        return data[:end]
    return data
