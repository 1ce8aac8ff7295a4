"""Stores the events of a coding agent's hooks as a session. Commits; reads the project's files.

    UserPromptSubmit       begins a turn
    PostToolUse(Failure)   a tool call of the turn, with the files it read, wrote or named
    PostCompact            the summary that replaces the conversation, as a call of ``compact``
    Stop, SessionEnd       end the turn; so does the next prompt, if the user interrupted it

A subagent has a session of its own, SESSION/AGENT, which SubagentStop ends.

Events arrive at least once: after a crash they are read again from the start of their file. A call
is recognised by its id, and a turn by its time and prompt. Only files of the project are read: an
agent that may not read a file must not get it by naming it.
"""

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Self

from ctxmgr import (
    AssistantMeta,
    Client,
    Conflict,
    Corrupt,
    Denied,
    Incorrect,
    LiveSession,
    NotFound,
    Store,
    ToolCall,
    Unavailable,
    connect,
    from_document,
    text_part,
    toolcall_part,
)
from ctxmgr.core.discovery.known_tools import command_text, trace_of
from ctxmgr.core.discovery.read_files import read_files
from ctxmgr.core.model import to_value
from ctxmgr.core.store.documents import storable
from ctxmgr.errors import CtxmgrError
from ctxmgr.integrations.agents.events import AgentEvent
from ctxmgr.integrations.agents.outputs import ToolOutput, read_output
from ctxmgr.integrations.agents.transcript_usage import exit_code, turn_usage

PERSISTED_BYTES_MAX: Final = 16 * 1024 * 1024
"""Read of an output that the client moved to a file: the limit of one document."""

CAPTURED: Final = "hook"
"""The API of turns that hooks reported."""

COMPACT: Final = "compact"
"""The tool of a compaction."""

WAITING: Final = (Unavailable, Conflict, Denied, Corrupt, OSError, MemoryError)
"""Failures of the store or the machine: the events wait. All others are those of an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTurn:
    """What is known of a turn that has not ended."""

    prompt: str | None = None
    """None: no turn has begun."""
    at: int = 0
    model: str | None = None
    instructions: Mapping[str, Any] | None = None
    """Of a compaction that has begun."""
    ended: int = 0
    """When the turn before has ended."""
    read_to: int = 0
    """Where the client's transcript continues after that turn."""

    @classmethod
    def load(cls, value: Mapping[str, Any] | None) -> Self:
        """Read the stored form; what another version wrote is left out."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: item for name, item in (value or {}).items() if name in known})

    def to_value(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(slots=True, kw_only=True)
class SessionCapture:
    """One session while its events are stored."""

    session: LiveSession
    store: Store
    turn: OpenTurn

    async def apply(self, event: AgentEvent) -> None:
        """Store one event; ``Incorrect`` if a field is missing."""
        match event.name:
            case "SessionStart":
                self.turn = replace(self.turn, model=event.model or self.turn.model)
            case "UserPromptSubmit":
                await self._begin(event)
            case "PostToolUse":
                output = read_output(
                    event.fields.get("tool_response"),
                    tool=event.tool,
                    persisted=lambda path: _read_persisted(event, path),
                )
                if not output.failed and isinstance(event.fields.get("tool_response"), str):
                    code = await exit_code(event, event.call_id)  # only Codex answers with text
                    output = replace(output, failed=code not in {None, 0})
                await self._record(event, output)
            case "PostToolUseFailure":
                error = event.fields.get("error")
                if not isinstance(error, str):
                    error = read_output(error, tool=event.tool, persisted=_no).text
                await self._record(event, ToolOutput(text=error, failed=True))
            case "PreCompact":
                self.turn = replace(self.turn, instructions=_compaction(event))
            case "PostCompact":
                await self._compacted(event)
            case "PreCompress":  # Gemini CLI sends it before every call, with the trigger auto
                if event.fields.get("trigger") == "manual":
                    await self._compacted(event)
            case "Stop" | "SubagentStop":
                await self._end(event, answer=event.answer)
            case "SessionEnd":
                if self.turn.prompt is not None:
                    await self._end(event, answer="")

    async def _begin(self, event: AgentEvent) -> None:
        if self.turn.prompt is not None and self.turn.at != event.at:
            await self._end(event, answer="")  # the user has interrupted it
        self.turn = replace(self.turn, prompt=event.prompt, at=event.at)

    async def _record(self, event: AgentEvent, output: ToolOutput) -> None:
        await self._store_call(
            event,
            event.call_id,
            tool=event.tool,
            args=event.args,
            output=output,
            directory=event.directory,
        )

    async def _compacted(self, event: AgentEvent) -> None:
        summary = event.fields.get("compact_summary")
        await self._store_call(
            event,
            f"{event.session}:{event.key}",
            tool=COMPACT,
            args={**(self.turn.instructions or {}), **_compaction(event)},
            output=ToolOutput(text=summary if isinstance(summary, str) else ""),
            directory=None,
        )
        self.turn = replace(self.turn, instructions=None)

    async def _store_call(
        self,
        event: AgentEvent,
        call_id: str,
        *,
        tool: str,
        args: Mapping[str, Any],
        output: ToolOutput,
        directory: str | None,
    ) -> None:
        """Record a call. If its id cannot be used, it gets one of its own.

        Another session may have the id, or this one: some models count from one in every answer.
        """
        session_id = self.session.session_id
        own, unique = f"{session_id}:{call_id}", f"{session_id}:{event.key}"
        trace = trace_of(tool, args, directory=directory)
        reads = None
        if trace.command is not None and trace.directory is not None and not output.failed:
            # Agents read with cat and sed as often as with a tool for it.
            reads = read_files(command_text(args) or "", directory=trace.directory)
        for chosen in (call_id, own, unique):
            try:
                await self.session.record(
                    chosen,
                    tool=storable(tool),
                    args=args,
                    output=storable(output.text),
                    status="fail" if output.failed else "ok",
                    directory=directory,
                    reads=reads,
                )
            except Incorrect:
                if chosen == unique:
                    raise
            else:
                return

    async def _end(self, event: AgentEvent, *, answer: str) -> None:
        """End the turn, unless it was ended before a crash."""
        prompt = self.turn.prompt or ""
        calls = await self._pending_calls()
        done = any(
            turn.assistant_meta.timestamp == event.at and turn.user == prompt
            for turn in self.session.chat.turns
        )
        since = self.turn.at or self.turn.ended
        self.turn = replace(self.turn, prompt=None, at=0, ended=event.at)
        if done or not (prompt or answer or calls):
            return
        cost = await turn_usage(event, since=since, read_to=self.turn.read_to)
        self.turn = replace(self.turn, model=cost.model or self.turn.model, read_to=cost.read_to)
        parts = [
            toolcall_part(call.object_id, call_id=call.object_id, tool=call.tool, args=call.args)
            for call in calls
        ]
        meta = AssistantMeta(
            api=CAPTURED,
            model=self.turn.model,
            usage=None if cost.usage is None else to_value(cost.usage),
            timestamp=event.at,
        )
        parts += [text_part(answer)] if answer else []
        await self.session.end_turn(parts, user=prompt, meta=meta)

    async def _pending_calls(self) -> list[ToolCall]:
        ids = self.session.pending_calls
        stored = await self.store.get_many(list(ids)) if ids else {}
        found = [from_document(stored[call_id].document) for call_id in ids if call_id in stored]
        return [call for call in found if isinstance(call, ToolCall)]


async def capture_events(
    store: Store,
    events: Sequence[AgentEvent],
    *,
    project: Path,
    turn: OpenTurn,
    audit: Path | None = None,
    refuse: Callable[[AgentEvent, str], None],
) -> OpenTurn:
    """Store the events of one session, in order; return what is known of its next turn.

    ``project`` is the folder that the person gave to the agent; no other files are read. ``audit``
    is the folder of an audit log. An event that cannot be stored is passed to ``refuse`` with the
    reason, and those after it are stored all the same.
    """
    session_id = events[0].session
    async with (
        connect(
            store=store,
            mounts=_mounts(project, named=events[0].project),
            directory=str(project),
            filesystem_id=f"claude-code:{session_id}",
            audit=audit,
            tracking=False,
        ) as client,
        _open_session(client, session_id) as session,
    ):
        capture = SessionCapture(session=session, store=store, turn=turn)
        for event in events:
            try:
                await capture.apply(event)
            except WAITING:
                raise
            except Exception as error:  # noqa: BLE001 (those after it are not to wait for ever)
                refuse(event, describe_refusal(error))
    return capture.turn


def describe_refusal(error: Exception) -> str:
    """Return why an event cannot be stored."""
    return str(error) if isinstance(error, CtxmgrError) else f"{type(error).__name__}: {error}"


@asynccontextmanager
async def _open_session(client: Client, session_id: str) -> AsyncIterator[LiveSession]:
    try:
        session = await client.resume(session_id, eager=False)
    except NotFound:
        try:
            session = await client.start(session_id, system_prompt="")
        except Incorrect:  # another client has started it meanwhile
            session = await client.resume(session_id, eager=False)
    yield session
    await client.pause(session_id)


def _mounts(project: Path, *, named: str) -> list[dict[str, str]]:
    """Mount the project where the agent sees it: without symbolic links, and as its client has it.

    ``named`` is the client's name of it; empty: unknown.
    """
    real = os.path.realpath(project)
    prefixes = [real]
    name = "/" + os.path.normpath(named).lstrip("/") if named.startswith("/") else real
    if name != real and os.path.realpath(name) == real:
        prefixes.append(name)
    return [{"agentPrefix": prefix, "canonicalPrefix": real} for prefix in prefixes]


def _compaction(event: AgentEvent) -> dict[str, Any]:
    named = ("trigger", "custom_instructions")
    return {
        name: storable(event.fields[name])
        for name in named
        if isinstance(event.fields.get(name), str) and event.fields[name]
    }


def _read_persisted(event: AgentEvent, path: str) -> str | None:
    """Return the output that a client moved to a file; None if it is not there any more.

    The path is the client's word, so it has to lie where Claude Code keeps outputs: in a folder
    ``tool-results`` of its own folder of this session.
    """
    try:
        real, root = Path(path).resolve(), Path(event.client_folder).resolve() / "projects"
        folders = real.relative_to(root).parts[:-1]
        if "tool-results" not in folders or event.client_session not in folders:
            return None
        if not real.is_file():  # opening a pipe would wait for a writer
            return None
        with real.open("rb") as file:
            return file.read(PERSISTED_BYTES_MAX).decode("utf-8", "replace")
    except (OSError, ValueError, RuntimeError):
        return None


def _no(_path: str) -> None:
    return None
