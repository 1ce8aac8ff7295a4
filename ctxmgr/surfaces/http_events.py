"""What happens in the store, as a stream of server-sent events: the path that gives it."""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from ctxmgr.core.events import EventId
from ctxmgr.errors import Denied, Incorrect
from ctxmgr.surfaces.arguments import INTEGER_MAX
from ctxmgr.surfaces.event_hub import Hub, last_frame
from ctxmgr.surfaces.http_answers import UNSTORED, Answering
from ctxmgr.surfaces.http_guard import GRANT
from ctxmgr.surfaces.scopes import check_session

if TYPE_CHECKING:
    from ctxmgr.surfaces.access_tokens import Grant, Keys

START: Final = "start"
"""In place of an event's id: from the first event of the store."""


class Events(Answering):
    """What happens, as a stream that ends when the token does by which it was asked for."""

    def __init__(self, hub: Hub, keys: "Keys | None") -> None:
        self._hub = hub
        self._keys = keys

    async def answer(self, request: Request) -> Response:
        query = request.query_params
        unknown = set(query) - {"after", "session", "follow"}
        if unknown:
            raise Incorrect(f"events has no parameter {min(unknown)!r:.80}")
        after = request.headers.get("last-event-id") or query.get("after")
        session = query.get("session")
        grant: Grant = request.scope[GRANT]
        if grant.session_id is not None:
            check_session(session, grant.session_id)
            session = grant.session_id
        frames = self._hub.stream(
            last=_event_id(after), session_id=session, follow=_flag(query.get("follow", "true"))
        )
        first = await anext(frames, b"")  # before the status is sent: a refusal has its own
        return _Stream(first, frames, check=lambda: self._check(grant))

    def _check(self, grant: "Grant") -> None:
        if self._keys is not None:
            self._keys.check(grant, now=time.time())


class _Stream(StreamingResponse):
    """Frames as they come; however it ends, whoever gives them is told."""

    def __init__(
        self, first: bytes, frames: AsyncGenerator[bytes], *, check: Callable[[], None]
    ) -> None:
        super().__init__(
            _led_by(first, frames, check),
            media_type="text/event-stream",
            headers={**UNSTORED, "x-accel-buffering": "no"},
        )
        self._frames = frames

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._frames):
            await super().__call__(scope, receive, send)


async def _led_by(
    first: bytes, rest: AsyncIterator[bytes], check: Callable[[], None]
) -> AsyncIterator[bytes]:
    """Give the frames; nothing after the token has ended but a last one that says so."""
    yield first
    async for each in rest:
        try:
            check()
        except Denied as error:
            yield last_frame("denied", error.code, str(error))
            return
        yield each


def _event_id(text: str | None) -> EventId | None:
    """Read where to go on: SEQUENCE.POSITION, or the word for the beginning."""
    if text is None:
        return None
    if text == START:
        return EventId(0, -1)
    sequence, _, position = text.partition(".")
    numbers = [int(each) for each in (sequence, position) if each.isascii() and each.isdecimal()]
    if len(text) > 40 or len(numbers) != 2 or max(numbers) > INTEGER_MAX:  # noqa: PLR2004
        raise Incorrect(f"{text!r:.80} is no event's id; write SEQUENCE.POSITION, or {START}")
    return EventId(*numbers)


def _flag(text: str) -> bool:
    if text not in {"true", "false"}:
        raise Incorrect(f"follow is true or false, not {text!r:.80}")
    return text == "true"
