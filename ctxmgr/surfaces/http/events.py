"""The endpoint ``/events``: changes to the store as server-sent events. Streams."""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from ctxmgr.core.events.events import EventId
from ctxmgr.errors import Denied, Incorrect
from ctxmgr.surfaces.arguments import JSON_INTEGER_MAX
from ctxmgr.surfaces.http.answers import NO_STORE, Endpoint
from ctxmgr.surfaces.http.event_hub import EventHub, last_frame
from ctxmgr.surfaces.http.guard import require_grant
from ctxmgr.surfaces.scopes import check_session

if TYPE_CHECKING:
    from ctxmgr.surfaces.access_tokens import Keys


START: Final = "start"
"""In place of an event id: from the first event of the store."""


class EventsEndpoint(Endpoint):
    """The event stream, which ends when the token of its request ends."""

    def __init__(self, hub: EventHub, keys: "Callable[[], Keys | None]") -> None:
        self._hub = hub
        self._keys = keys

    async def answer(self, request: Request) -> Response:
        query = request.query_params
        unknown = set(query) - {"after", "session", "follow"}
        if unknown:
            raise Incorrect(
                f"events: unknown parameter {min(unknown)!r:.80} (one of: after, session, follow)"
            )
        after = request.headers.get("last-event-id") or query.get("after")
        session = query.get("session")
        grant = require_grant(request.scope)
        if grant.session_id is not None:
            check_session(session, grant.session_id)
            session = grant.session_id
        follow = query.get("follow", "true")
        if follow not in {"true", "false"}:
            raise Incorrect(f"follow must be true or false, not {follow!r:.80}")
        frames = self._hub.stream(
            last=_event_id(after), session_id=session, follow=follow == "true"
        )

        def check() -> None:
            keys = self._keys()
            if keys is not None:
                keys.check(grant, now=time.time())

        first = await anext(frames, b"")  # before the status is sent, so that errors have theirs
        return _EventStream(first, frames, check=check)


class _EventStream(StreamingResponse):
    """A stream of frames that closes their generator however it ends."""

    def __init__(
        self, first: bytes, frames: AsyncGenerator[bytes], *, check: Callable[[], None]
    ) -> None:
        super().__init__(
            _until_denied(first, frames, check),
            media_type="text/event-stream",
            headers={**NO_STORE, "x-accel-buffering": "no"},
        )
        self._frames = frames

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._frames):
            await super().__call__(scope, receive, send)


async def _until_denied(
    first: bytes, rest: AsyncIterator[bytes], check: Callable[[], None]
) -> AsyncIterator[bytes]:
    """Yield the frames; when the token has ended, a last one says so."""
    yield first
    async for chunk in rest:
        try:
            check()
        except Denied as error:
            yield last_frame("denied", error.code, str(error))
            return
        yield chunk


def _event_id(text: str | None) -> EventId | None:
    """Read the event to resume from: SEQUENCE.POSITION, or ``START``."""
    if text is None:
        return None
    if text == START:
        return EventId(0, -1)
    sequence, _, position = text.partition(".")
    numbers = [
        int(number) for number in (sequence, position) if number.isascii() and number.isdecimal()
    ]
    if len(text) > 40 or len(numbers) != 2 or max(numbers) > JSON_INTEGER_MAX:  # noqa: PLR2004
        raise Incorrect(f"invalid event id {text!r:.80}: write SEQUENCE.POSITION or {START}")
    return EventId(*numbers)
