"""A tap on the line between a client and its server: counts and keeps what is sent. Opens sockets.

Being outside the client, it sees what really goes over the wire, headers included, and the bytes it
kept can be sent again by another client as the baseline.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

_CHUNK_BYTES: Final = 65_536


@dataclass(slots=True)
class Wiretap:
    """What passed from client to server since it was last cleared."""

    port: int = 0
    lines: list[bytearray] = field(default_factory=list)
    """By connection: requests of several at once are told apart by it alone."""

    @property
    def sent(self) -> bytes:
        return b"".join(self.lines)

    def clear(self) -> None:
        for line in self.lines:
            line.clear()

    def bodies(self, path: str) -> list[bytes]:
        """Return the bodies of the requests to this path, in order on each connection."""
        found: list[bytes] = []
        rest = self.sent
        while rest:
            head, _, rest = rest.partition(b"\r\n\r\n")
            length = _content_length(head)
            if path.encode() in head.split(b"\r\n", 1)[0]:
                found.append(rest[:length])
            rest = rest[length:]
        return found

    def targets(self, path: str) -> list[str]:
        """Return what the requests that were posted to this path asked for, in that order."""
        lines = re.findall(rb"POST (\S+) HTTP/1.1\r\n", self.sent)
        return [line.decode() for line in lines if path.encode() in line]


@asynccontextmanager
async def tapped(port: int) -> AsyncIterator[Wiretap]:
    """Open a port of our own that leads to the server's."""
    tap = Wiretap()
    serving: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = {}

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving[writer] = asyncio.current_task()
        tap.lines.append(bytearray())
        sent = tap.lines[-1]
        upstream, downstream = await asyncio.open_connection("127.0.0.1", port)
        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(_pump(reader, downstream, sent))
                pumps.create_task(_pump(upstream, writer, None))
        finally:
            downstream.close()
            writer.close()

    server = await asyncio.start_server(connect, "127.0.0.1", 0)
    tap.port = server.sockets[0].getsockname()[1]
    try:
        yield tap
    finally:
        server.close()
        await asyncio.sleep(0)  # a connection that has just come has its task begun
        for writer in serving:
            writer.transport.abort()
        await asyncio.gather(*filter(None, serving.values()), return_exceptions=True)


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kept: bytearray | None
) -> None:
    while chunk := await reader.read(_CHUNK_BYTES):
        if kept is not None:
            kept += chunk
        writer.write(chunk)
        await writer.drain()
    writer.close()


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return 0
