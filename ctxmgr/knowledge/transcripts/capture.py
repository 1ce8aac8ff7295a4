"""Write transcripts of sessions. Door of the room; writes below the raw root.

    on_session_start ─► on_message, on_tool_call … ─► on_session_end ─► committed and extracted

A harness calls these four, or a ``TranscriptListener`` derives everything from a store's events.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

from ctxmgr.core.events.events import EventOrigin
from ctxmgr.core.store.contract import Instant
from ctxmgr.errors import CtxmgrError, Incorrect, Unavailable
from ctxmgr.knowledge.transcripts.open_transcripts import (
    ClosedTranscript,
    OpenTranscripts,
    Said,
    SessionKey,
)
from ctxmgr.knowledge.transcripts.transcript import (
    AttachmentLine,
    Block,
    Role,
    ToolLine,
    TranscriptTurn,
)
from ctxmgr.knowledge.transcripts.turns import CapturedCall, Mask

CHANNEL: Final = "agent"
"""The channel of a session that nobody names another one for."""

IDLE_MS: Final = 24 * 3_600_000
"""A session whose harness died is closed when nothing was added for a day."""

OnClosed: TypeAlias = Callable[[ClosedTranscript], Awaitable[None]]
"""Commits a closed transcript and extracts from it. Called at least once for each."""


_log = logging.getLogger(__name__)


async def _nothing(_: ClosedTranscript) -> None:
    return


class ConversationCapture:
    """The transcripts of sessions, while they are written."""

    def __init__(
        self, transcripts: OpenTranscripts, *, mask: Mask, on_closed: OnClosed = _nothing
    ) -> None:
        self._transcripts = transcripts
        self.mask = mask
        """Removes the secrets of a text; everything that is written went through it."""
        self._on_closed = on_closed
        self._finishing = asyncio.Lock()

    @classmethod
    async def open(cls, raw: Path, *, mask: Mask, on_closed: OnClosed = _nothing) -> Self:
        """Open the transcripts below a raw root, which is created if there is none."""
        transcripts = await asyncio.to_thread(OpenTranscripts.open, raw)
        return cls(transcripts, mask=mask, on_closed=on_closed)

    async def close(self) -> None:
        await asyncio.to_thread(self._transcripts.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @property
    def raw(self) -> Path:
        return self._transcripts.raw

    async def on_session_start(
        self, session_id: str, *, at: Instant, model: str | None = None, channel: str = CHANNEL
    ) -> str:
        """Create the transcript of a session; return its path below the raw root."""
        return await asyncio.to_thread(
            self._transcripts.begin, SessionKey("", session_id), at, model=model, channel=channel
        )

    async def on_message(
        self,
        session_id: str,
        role: str,
        content: str,
        meta: Mapping[str, Any] | None = None,
        *,
        at: Instant,
    ) -> None:
        """Append a message. ``meta`` may have a ``type``, which becomes a suffix, and
        ``attachments``, a list of paths."""
        if role not in set(Role):
            raise Incorrect(f"unknown role {role!r:.80} (one of: {', '.join(Role)})")
        meta = meta or {}
        blocks: list[Block] = [self.mask(content)]
        blocks += [AttachmentLine.of(str(path)) for path in meta.get("attachments") or ()]
        suffix = meta.get("type")
        turn = TranscriptTurn.of(at, Role(role), blocks, suffix=str(suffix) if suffix else None)
        await self.add(SessionKey("", session_id), Said(turns=(turn,)), at)

    async def on_tool_call(
        self, session_id: str, tool: str, args_summary: str, result_summary: str, *, at: Instant
    ) -> None:
        """Append one line for a tool call."""
        line = ToolLine.of(tool, self.mask(args_summary), self.mask(result_summary))
        turn = TranscriptTurn.of(at, Role.AGENT, [line])
        await self.add(SessionKey("", session_id), Said(turns=(turn,)), at)

    async def on_session_end(
        self, session_id: str, *, at: Instant, tags: tuple[str, ...] = ()
    ) -> ClosedTranscript | None:
        """Complete the transcript, make it read-only, commit it and extract from it."""
        closed = await self.end(SessionKey("", session_id), at, tags=tags)
        await self.finish()
        return closed

    async def last_event(self, store: str) -> tuple[EventOrigin, Instant] | None:
        """Return the last event of a store that was recorded, and when it happened."""
        return await asyncio.to_thread(self._transcripts.last_event, store)

    async def begin(self, key: SessionKey, at: Instant, *, origin: EventOrigin) -> None:
        """Create the transcript of a session of a store."""
        await asyncio.to_thread(self._transcripts.begin, key, at, channel=CHANNEL, origin=origin)

    async def add(
        self, key: SessionKey, said: Said, at: Instant, *, origin: EventOrigin | None = None
    ) -> None:
        """Append turns, and what they add to the head."""
        await asyncio.to_thread(
            self._transcripts.add, key, said, at, channel=CHANNEL, origin=origin
        )

    async def hold(
        self,
        key: SessionKey,
        object_id: str,
        call: CapturedCall,
        at: Instant,
        *,
        origin: EventOrigin,
    ) -> None:
        """Keep a tool call until its turn is finished."""
        await asyncio.to_thread(self._transcripts.hold, key, object_id, call, at, origin=origin)

    async def held(self, key: SessionKey) -> dict[str, CapturedCall]:
        """Return the tool calls that wait for their turn."""
        return await asyncio.to_thread(self._transcripts.held, key)

    async def end(
        self,
        key: SessionKey,
        at: Instant,
        *,
        tags: tuple[str, ...] = (),
        origin: EventOrigin | None = None,
    ) -> ClosedTranscript | None:
        """Close the transcript of a session, if one is open; ``finish`` does the rest."""
        return await asyncio.to_thread(self._transcripts.end, key, at, tags=tags, origin=origin)

    async def end_idle(self, *, now: Instant, idle_ms: int = IDLE_MS) -> list[ClosedTranscript]:
        """Close transcripts of sessions that were not continued, with what is known (002-A06).

        What cannot be committed or extracted from is logged, and tried again the next time.
        """
        idle = await asyncio.to_thread(self._transcripts.idle, before=now - idle_ms)
        ended = [await self.end(key, touched) for key, touched in idle]
        try:
            await self.finish()
        except CtxmgrError as error:
            _log.warning("closed transcripts wait: %s", error)
        return [closed for closed in ended if closed is not None]

    async def finish(self) -> None:
        """Commit and extract from closed transcripts, also those of a process that crashed.

        One that fails does not hold up the others; ``Unavailable`` names it at the end.
        """
        failed: dict[str, Exception] = {}
        async with self._finishing:
            for closed in await asyncio.to_thread(self._transcripts.unfinished):
                try:
                    await self._on_closed(closed)
                except Exception as error:  # noqa: BLE001 (reported below)
                    failed[closed.path] = error
                else:
                    await asyncio.to_thread(self._transcripts.finish, closed.path)
        if failed:
            path, first = next(iter(failed.items()))
            more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
            raise Unavailable(f"{path} could not be finished: {first}{more}") from first
