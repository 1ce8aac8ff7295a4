"""Deadlines for connections that send no complete request header, or read no response.

The protocol is h11's, which bounds the size of headers; httptools' does not. uvicorn closes a
connection that is idle between requests, but waits forever for the rest of a header, and counts
the connection towards its limit meanwhile. Here such a connection is closed after
``HEADER_SECONDS_MAX``, and the oldest one as soon as there are more than ``UNFINISHED_MAX``, so
that clients that never finish a header cannot keep others out. A client that leaves a response
unread for ``UNREAD_SECONDS_MAX`` is disconnected for the same reason.
"""

import asyncio
from typing import Any, Final
from weakref import WeakKeyDictionary

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS_MAX: Final = 10.0
"""Time for a complete header, from the start of the connection or from its first byte."""

UNFINISHED_MAX: Final = 500
"""Connections without a complete header; a quarter of all connections that the server accepts."""

UNREAD_SECONDS_MAX: Final = 30.0
"""Time in which a client must read something of a response that fills the buffers. A client of the
event stream reconnects and continues where it was."""

_unfinished: "WeakKeyDictionary[asyncio.AbstractEventLoop, dict[DeadlineProtocol, None]]"
_unfinished = WeakKeyDictionary()


class DeadlineProtocol(H11Protocol):
    """An HTTP/1.1 connection that has to send its request headers in time."""

    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._start_deadline()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._start_deadline()
        else:
            self._stop_deadline()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_SECONDS_MAX, self.transport.abort)

    def resume_writing(self) -> None:
        self._stop_unread()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_deadline()
        self._stop_unread()
        super().connection_lost(exc)

    def _start_deadline(self) -> None:
        if self._deadline is not None or self.transport.is_closing():
            return
        self._deadline = self.loop.call_later(HEADER_SECONDS_MAX, self._expire)
        unfinished = _unfinished.setdefault(self.loop, {})
        unfinished[self] = None
        if len(unfinished) > UNFINISHED_MAX:
            next(iter(unfinished))._expire()  # noqa: SLF001 (another connection of this class)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
            _unfinished[self.loop].pop(self, None)

    def _stop_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _expire(self) -> None:
        self._stop_deadline()
        self.transport.close()
