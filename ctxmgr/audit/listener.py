"""Record a store's events in the audit log, each exactly once. Appends to the log.

With ``scores``, every record has what all lenses say about its content, hidden ones included.

Events are delivered at least once and in order. A record names the event it was made from, and the
log drops an event that it holds already, also one that another process recorded meanwhile.

    turn_finished           input (the user's words) and output (the answer and its prompt's hash)
    toolcall_created        tool_call (the arguments) and tool_response (the output)
    everything else         system
"""

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final, TypeAlias

import orjson

from ctxmgr.audit.records import AuditEntry
from ctxmgr.audit.writer import AuditLogWriter
from ctxmgr.core.events.event_type import EventType
from ctxmgr.core.events.events import Event, EventId, EventOrigin, ToolCallCreated, TurnFinished
from ctxmgr.core.events.origins import EventSource, StoreLineage

CONTENT_CHARS_MAX: Final = 1_000_000
"""Characters of one content that are recorded; of a longer one, its beginning and its hash."""

NO_SESSION: Final = "files"
"""The session of events that belong to none: files are shared by all sessions."""


TextScores: TypeAlias = Callable[[str], Mapping[str, float]]
"""What all lenses say about a text: concept id → score."""

_log = logging.getLogger(__name__)


class AuditListener:
    """A listener that records everything it receives."""

    name = "audit"

    def __init__(
        self, writer: AuditLogWriter, source: EventSource, *, scores: TextScores | None = None
    ) -> None:
        self._writer = writer
        self._source = source
        self._scores = scores
        self._lineage = StoreLineage(source, writer.last_event)

    async def last_handled(self) -> EventId | None:
        """Return the id before the last recorded event: some of its records may be missing."""
        store = await self._lineage.name()
        last = None if store is None else await self._writer.last_event(store)
        return None if last is None else EventId(last[0].sequence, last[0].position - 1)

    async def handle(self, event: Event) -> None:
        store = await self._lineage.name()
        assert store is not None, "a store with an event has a transaction"
        call = None
        if isinstance(event, ToolCallCreated):
            call = await self._source.tool_call(event)
        await self._writer.append_all(
            [
                AuditEntry(
                    session_id=session_id,
                    tick=event.id.sequence,
                    event_type=event_type,
                    raw_content=_bounded(content),
                    lens_activations=self._read_lenses(content),
                    timestamp=event.system_time,
                    source=EventOrigin(store, event.id.sequence, event.id.position, part),
                )
                for part, (session_id, event_type, content) in enumerate(_contents(event, call))
            ]
        )

    def _read_lenses(self, content: str) -> Mapping[str, float]:
        """Return all scores of a content; none if a lens fails: the event is recorded anyway."""
        if self._scores is None:
            return {}
        try:
            return dict(self._scores(content))
        except Exception:  # noqa: BLE001 (whatever a lens does wrong)
            _log.exception("a lens failed; the audit log has no scores of this event")
            return {}


def _contents(event: Event, call: Mapping[str, Any] | None) -> Iterator[tuple[str, EventType, str]]:
    match event:
        case TurnFinished(session_id=session_id):
            turn = event.turn or {}
            if turn.get("user"):
                yield session_id, EventType.INPUT, turn["user"]
            answer = {name: value for name, value in turn.items() if name != "user"}
            yield (
                session_id,
                EventType.OUTPUT,
                _json({"n": event.n, "prompt_hash": event.prompt_hash, **answer}),
            )
        case ToolCallCreated():
            session_id = event.chat_ref.removeprefix("chat:")
            stored = dict(call or {})
            output = stored.pop("content", None)
            yield session_id, EventType.TOOL_CALL, _json({**_fields(event), **stored})
            yield session_id, EventType.TOOL_RESPONSE, output or ""
        case _:
            values = _fields(event)
            session_id = values.pop("session_id", NO_SESSION)
            yield session_id, EventType.SYSTEM, _json({"event": event.name, **values})


def _fields(event: Event) -> dict[str, Any]:
    values = asdict(event)
    del values["id"], values["system_time"]
    return values


def _json(value: Mapping[str, Any]) -> str:
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:  # an integer of more than 64 bits, which a store may hold
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _bounded(content: str) -> str:
    if len(content) <= CONTENT_CHARS_MAX:
        return content
    shortened = {
        "chars": len(content),
        "sha256": hashlib.sha256(content.encode()).hexdigest(),
        "begins": content[:CONTENT_CHARS_MAX],
    }
    return _json(shortened)
