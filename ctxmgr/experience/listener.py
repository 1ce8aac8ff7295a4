"""Record a store's events as experience, each exactly once. Appends to the log.

    turn_finished           input (the user's words) and output (the answer)
    toolcall_created        tool_call (the arguments) and tool_response (the output)
    system_prompt_changed   system (its text)
    sets_changed            nothing: it follows from the others
    everything else         system (its fields, as JSON)

Events are delivered at least once and in order. The log stores the last one with the steps that it
results in, in one transaction. What was recorded token by token while it was streamed (``streams``)
is not recorded again.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, TypeAlias

from ctxmgr.core.events.event_type import EventType
from ctxmgr.core.events.events import (
    Event,
    EventId,
    EventOrigin,
    SetsChanged,
    SystemPromptChanged,
    ToolCallCreated,
    TurnFinished,
)
from ctxmgr.core.events.origins import EventSource, StoreLineage
from ctxmgr.experience.log.log import ExperienceLog
from ctxmgr.experience.records.contents import (
    answer_id,
    answer_text,
    as_json,
    input_id,
    recorded_session,
    storable,
)
from ctxmgr.experience.records.timestep import NewTimestep
from ctxmgr.experience.streams import OnAppended, TokenStream
from ctxmgr.experience.windows.compression import token_count

FILES_SESSION: Final = "files"
"""The session of events that belong to none: files are shared by all sessions."""


Activations: TypeAlias = Callable[[str], Mapping[str, float]]
"""What lenses say about a text."""


class ExperienceListener:
    """A listener that records everything it receives."""

    name = "experience"

    def __init__(
        self,
        log: ExperienceLog,
        source: EventSource,
        *,
        stream: TokenStream,
        activations: Activations,
        on_appended: OnAppended | None = None,
        on_recorded: Callable[[str, Sequence[NewTimestep]], Awaitable[None]] | None = None,
    ) -> None:
        self._log = log
        self._source = source
        self._stream = stream
        self._activations = activations
        self._on_appended = on_appended
        self._on_recorded = on_recorded
        """Called with a session and the steps of an event, at least once, when they are stored."""
        self._lineage = StoreLineage(source, log.last_event)

    async def last_handled(self) -> EventId | None:
        store = await self._lineage.name()
        last = None if store is None else await self._log.last_event(store)
        return None if last is None else EventId(last[0].sequence, last[0].position)

    async def handle(self, event: Event) -> None:
        store = await self._lineage.name()
        assert store is not None, "a store with an event has a transaction"
        if isinstance(event, SetsChanged):
            return
        session_id, steps = await self._steps(event)
        appended = await self._log.append(
            session_id,
            steps,
            origin=EventOrigin(store, event.id.sequence, event.id.position, 0),
            origin_time=event.system_time,
        )
        if appended is not None and self._on_appended is not None:
            tokens = map(token_count, steps)
            await self._on_appended(session_id, list(enumerate(tokens, appended.first_tick)))
        if self._on_recorded is not None:
            whole = list(self._turn(event)) if isinstance(event, TurnFinished) else steps
            await self._on_recorded(session_id, whole)

    async def _steps(self, event: Event) -> tuple[str, list[NewTimestep]]:
        match event:
            case TurnFinished():
                session_id = recorded_session(event.session_id)
                for event_id in (input_id(event.n), answer_id(event.n)):
                    await self._stream.end(session_id, event_id)
                steps = [
                    step
                    for step in self._turn(event)
                    if not await self._log.has_ended_event(session_id, step.event_id or "")
                ]
            case ToolCallCreated():
                session_id = recorded_session(event.chat_ref.removeprefix("chat:"))
                await self._stream.end(session_id)  # a model has answered before its tools run
                call = await self._source.tool_call(event)
                steps = list(self._call(event, call or {}))
            case SystemPromptChanged():
                session_id = recorded_session(event.session_id)
                steps = [self._step(event, EventType.SYSTEM, event.text, role="system")]
            case _:
                values = asdict(event)
                del values["id"], values["system_time"]
                session_id = recorded_session(values.pop("session_id", FILES_SESSION))
                content = as_json({"event": event.name, **values})
                steps = [self._step(event, EventType.SYSTEM, content)]
        return session_id, steps

    def _turn(self, event: TurnFinished) -> Iterator[NewTimestep]:
        turn = event.turn or {}
        if turn.get("user"):
            yield self._step(
                event, EventType.INPUT, str(turn["user"]), role="user", event_id=input_id(event.n)
            )
        text = answer_text(turn.get("assistant") or ())
        if text:
            yield self._step(
                event, EventType.OUTPUT, text, role="assistant", event_id=answer_id(event.n)
            )

    def _call(self, event: ToolCallCreated, call: Mapping[str, Any]) -> Iterator[NewTimestep]:
        arguments = as_json({"tool": event.tool, "args": call.get("args")})
        shared: dict[str, Any] = {"event_id": event.object_id}
        yield self._step(
            event, EventType.TOOL_CALL, arguments, role="assistant", **shared, ends=False
        )
        yield self._step(
            event,
            EventType.TOOL_RESPONSE,
            str(call.get("content") or ""),
            role="tool",
            **shared,
            starts=False,
        )

    def _step(
        self,
        event: Event,
        event_type: EventType,
        content: str,
        *,
        role: Any = None,
        event_id: str | None = None,
        starts: bool = True,
        ends: bool = True,
    ) -> NewTimestep:
        return NewTimestep(
            timestamp=event.system_time,
            event_type=event_type,
            content=storable(content),
            concept_activations=self._activations(content),
            event_id=event_id,
            event_start=event_id is not None and starts,
            event_end=event_id is not None and ends,
            role=role,
        )
