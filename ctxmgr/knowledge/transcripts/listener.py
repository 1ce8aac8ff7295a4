"""Write transcripts from a store's events, each exactly once. Writes below the raw root.

    session_started      the transcript is created
    toolcall_created     the call is kept until its turn is finished
    turn_finished        the user's words, the answer with its tool calls, and changed notes
    session_paused       the transcript is closed
    everything else      nothing: context and window are not part of a conversation (002-R036)

A session that goes on after its transcript was closed continues in a new part, since a closed file
never changes (002-R004). One that crashed and is resumed continues in its open file.
"""

import logging
from collections.abc import Mapping
from typing import Any

from ctxmgr.core.events.events import (
    Event,
    EventId,
    EventOrigin,
    SessionPaused,
    SessionStarted,
    ToolCallCreated,
    TurnFinished,
)
from ctxmgr.core.events.origins import EventSource, StoreLineage
from ctxmgr.core.model import Usage, read_usage
from ctxmgr.errors import CtxmgrError
from ctxmgr.knowledge.transcripts.capture import ConversationCapture
from ctxmgr.knowledge.transcripts.open_transcripts import Said, SessionKey
from ctxmgr.knowledge.transcripts.turns import captured_call, captured_turns

_log = logging.getLogger(__name__)


class TranscriptListener:
    """A listener that writes one transcript per session."""

    name = "transcripts"

    def __init__(self, capture: ConversationCapture, source: EventSource) -> None:
        self._capture = capture
        self._source = source
        self._lineage = StoreLineage(source, capture.last_event)
        self._seen: EventId | None = None
        """The last event that was handled here; the stored position knows those that count."""

    async def last_handled(self) -> EventId | None:
        store = await self._lineage.name()
        last = None if store is None else await self._capture.last_event(store)
        stored = None if last is None else EventId(last[0].sequence, last[0].position)
        await self._finish()
        return max((each for each in (stored, self._seen) if each), default=None)

    async def handle(self, event: Event) -> None:
        store = await self._lineage.name()
        assert store is not None, "a store with an event has a transaction"
        origin = EventOrigin(store, event.id.sequence, event.id.position, 0)
        at = event.system_time
        match event:
            case SessionStarted():
                key = SessionKey(store, event.session_id)
                await self._capture.begin(key, at, origin=origin)
            case ToolCallCreated():
                key = SessionKey(store, event.chat_ref.removeprefix("chat:"))
                found = await self._source.tool_call(event) or {}
                output = found.get("content")
                call = captured_call(
                    event.tool,
                    found.get("args"),
                    status=event.status,
                    output=output if isinstance(output, str) else None,
                    mask=self._capture.mask,
                )
                await self._capture.hold(key, event.object_id, call, at, origin=origin)
            case TurnFinished():
                key = SessionKey(store, event.session_id)
                said = await self._said(key, event)
                await self._capture.add(key, said, at, origin=origin)
            case SessionPaused():
                key = SessionKey(store, event.session_id)
                await self._capture.end(key, at, origin=origin)
                await self._finish()
            case _:
                pass
        self._seen = event.id

    async def _finish(self) -> None:
        """Commit and extract; if that fails, transcripts are still written, and it is retried."""
        try:
            await self._capture.finish()
        except CtxmgrError as error:
            _log.warning("a closed transcript is not committed yet: %s", error)

    async def _said(self, key: SessionKey, event: TurnFinished) -> Said:
        turn = event.turn or {}
        calls = await self._capture.held(key)
        meta = turn.get("assistant_meta")
        meta = meta if isinstance(meta, Mapping) else {}
        usage = _usage(meta.get("usage"))
        model = meta.get("model")
        return Said(
            turns=tuple(
                captured_turns(turn, event.system_time, calls=calls, mask=self._capture.mask)
            ),
            model=model if isinstance(model, str) else None,
            tokens_in=usage.prompt_tokens,
            tokens_out=usage.output_tokens,
            calls=tuple(str(call) for call in turn.get("toolcall_ids") or ()),
        )


def _usage(value: Any) -> Usage:
    return (read_usage(value) if isinstance(value, Mapping) else None) or Usage()
