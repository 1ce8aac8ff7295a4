"""A provider on loopback that records each request as it came, and answers as it is told."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Self

from tests.loopback import Loopback


@dataclass(frozen=True)
class ReceivedRequest:
    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def named(self) -> dict[str, str]:
        return dict(self.headers)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)
Writer = Callable[[asyncio.StreamWriter], Awaitable[None]]


def answer(
    body: bytes = b"{}",
    *,
    status: int = 200,
    headers: tuple[str, ...] = (),
    kind: str = "application/json",
) -> Writer:
    """Answer with a body of known length."""

    async def write(writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {status} X", f"content-type: {kind}", f"content-length: {len(body)}"]
        writer.write("\r\n".join([*lines, *headers, "", ""]).encode() + body)
        await writer.drain()

    return write


def stream(
    *chunks: bytes, headers: tuple[str, ...] = (), gate: asyncio.Event | None = None
) -> Writer:
    """Answer with a chunked event stream; with a gate, all but the first chunk wait for it."""

    async def write(writer: asyncio.StreamWriter) -> None:
        lines = ["HTTP/1.1 200 OK", "content-type: text/event-stream", "transfer-encoding: chunked"]
        writer.write("\r\n".join([*lines, *headers, "", ""]).encode())
        for number, chunk in enumerate(chunks):
            if gate is not None and number:
                await gate.wait()
            writer.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    return write


def cut(first: bytes) -> Writer:
    """Begin a stream and close the connection in the middle."""

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD + f"{len(first):x}\r\n".encode() + first + b"\r\n")
        await writer.drain()
        raise ConnectionError

    return write


@dataclass
class ScriptedUpstream:
    requests: list[ReceivedRequest] = field(default_factory=list)
    replies: list[Writer] = field(default_factory=list)
    otherwise: Writer = field(default_factory=answer)
    """The reply when none is left."""
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client closed a connection whose answer hangs."""
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._loopback = Loopback(self._converse)
        self.port = await self._loopback.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._loopback.close()

    def hang(self) -> Writer:
        """Begin a stream, and then send nothing until the client is gone."""

        async def write(writer: asyncio.StreamWriter) -> None:
            writer.write(STREAM_HEAD)
            try:
                while True:  # until the client is gone
                    writer.write(b"3\r\n: x\r\n")
                    await writer.drain()
                    await asyncio.sleep(0.01)
            except ConnectionError:
                self.gone.set()
                raise

        return write

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip().split("\r\n")
        method, target, _ = first.split(" ")
        pairs = [tuple(line.split(": ", 1)) for line in lines]
        headers = [(name.lower(), value) for name, value in pairs]
        named = dict(headers)
        if named.get("transfer-encoding") == "chunked":
            body = await _chunked(reader)
        else:
            body = await reader.readexactly(int(named.get("content-length", "0")))
        self.requests.append(ReceivedRequest(method, target, headers, body))
        reply = self.replies.pop(0) if self.replies else self.otherwise
        await reply(writer)
        return True


async def _chunked(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return body
