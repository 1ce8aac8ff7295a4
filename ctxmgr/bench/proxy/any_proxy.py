"""Measures a proxy that is running: sends requests to it, and records what it forwards.

The proxy's provider must be the address of ``RecordingUpstream``, which gives every request the
recorded answer: some proxies shorten nothing unless the next request contains it. Listens on
loopback, and connects to the given URL. Plain HTTP alone.
"""

import asyncio
import json
from asyncio import Queue, StreamReader, StreamWriter
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

from ctxmgr.core.model import Usage
from ctxmgr.errors import Incorrect, Unavailable
from ctxmgr.proxy.engine import Incoming, Outgoing

WAIT_S: Final = 60.0
"""For one request to arrive at the other end."""

BODY_BYTES_MAX: Final = 64 * 1024 * 1024

_USAGE: Final = {"input_tokens": 1, "output_tokens": 1}
_MESSAGE: Final[dict[str, Any]] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "bench",
    "content": [],
    "stop_reason": None,
    "usage": _USAGE,
}


def answer_events(content: Sequence[Mapping[str, Any]] = ()) -> tuple[bytes, ...]:
    """Return the events of a streamed answer with some blocks."""
    events: list[dict[str, Any]] = [{"type": "message_start", "message": _MESSAGE}]
    for index, block in enumerate(content):
        if block["type"] == "tool_use":
            empty: dict[str, Any] = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        else:
            empty = {**block, "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        events += (
            {"type": "content_block_start", "index": index, "content_block": empty},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        )
    calls = any(block["type"] == "tool_use" for block in content)
    reason = {"stop_reason": "tool_use" if calls else "end_turn"}
    events += (
        {"type": "message_delta", "delta": reason, "usage": _USAGE},
        {"type": "message_stop"},
    )
    return tuple(
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events
    )


ANSWER_EVENTS: Final = answer_events()


class RecordingUpstream:
    """A provider that keeps the bodies it receives."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._server: asyncio.Server | None = None
        self.bodies: Queue[bytes] = Queue()
        self.content: Sequence[Mapping[str, Any]] = ()
        """Of the answer to the next request."""

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def __aenter__(self) -> Self:
        try:
            self._server = await asyncio.start_server(self._answer, "127.0.0.1", self._port)
        except OSError as error:
            raise Unavailable(f"port {self._port} cannot be listened on: {error}") from error
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _answer(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            line, headers = await read_head(reader)
            body = await read_body(reader, headers)
            if line.startswith("POST") and "/count_tokens" not in line:
                self.bodies.put_nowait(body)
            answer = b"".join(answer_events(self.content))
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n"
                b"content-length: %d\r\n\r\n%b" % (len(answer), answer)
            )
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            return  # the proxy closed the connection, or does not speak HTTP
        finally:
            writer.close()


class AnyProxy:
    """A proxy at a URL, seen as an engine: what it forwards is what it prepares."""

    def __init__(self, url: str, upstream: RecordingUpstream) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or parts.hostname is None:
            raise Incorrect(f"{url!r:.80} is not an http URL, such as http://127.0.0.1:8322")
        self._host, self._port = parts.hostname, parts.port or 80
        self._path = parts.path.rstrip("/")
        self._upstream = upstream

    def expect(self, content: Sequence[Mapping[str, Any]]) -> None:
        """Let the provider give this answer to the next request."""
        self._upstream.content = content

    async def prepare(self, request: Incoming) -> Outgoing:
        """Send a request, and return what arrived at the provider."""
        try:
            async with asyncio.timeout(WAIT_S):
                await self._send(request)
                body = await self._upstream.bodies.get()
        except (TimeoutError, OSError) as error:
            where = f"http://{self._host}:{self._port}"
            raise Unavailable(
                f"{where} forwarded nothing to http://127.0.0.1:{self._upstream.port}: {error};"
                " configure the proxy to use that address as its provider"
            ) from error
        return Outgoing(body=body, shaped=body != request.body)

    async def answered(self, conversation: str, *, status: int, usage: Usage | None) -> None:
        del conversation, status, usage

    async def stored(self, conversation: str) -> bool:
        del conversation
        return True

    async def _send(self, request: Incoming) -> None:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        headers = {
            "host": f"{self._host}:{self._port}",
            "content-type": "application/json",
            "content-length": str(len(request.body)),
            "x-api-key": "bench",
            "anthropic-version": "2023-06-01",
            "connection": "close",
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"POST {self._path}{request.path} HTTP/1.1\r\n{head}\r\n".encode())
        writer.write(request.body)
        await writer.drain()
        while await reader.read(65536):
            pass
        writer.close()


async def read_head(reader: StreamReader) -> tuple[str, dict[str, str]]:
    text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *rest = text.strip().split("\r\n")
    pairs = (one.partition(":") for one in rest)
    return line, {name.strip().lower(): value.strip() for name, _, value in pairs}


async def read_body(reader: StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        length = int(headers.get("content-length", "0"))
        if length > BODY_BYTES_MAX:
            raise ValueError("the body is too long")
        return await reader.readexactly(length)
    pieces = bytearray()
    while size := int((await reader.readline()).split(b";")[0], 16):
        if len(pieces) + size > BODY_BYTES_MAX:
            raise ValueError("the body is too long")
        pieces += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readline()
    return bytes(pieces)
