"""An XTDB server for benchmarks, behind a proxy that records requests. Starts processes.

The proxy sees the bytes that are actually sent, including headers. Another client can send the
recorded bytes again as a baseline.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urlsplit

import httpx

from ctxmgr.bench.report import Say
from ctxmgr.core.objects.codec import KINDS
from ctxmgr.settings import cache_dir
from ctxmgr.stores.xtdb.server_process import XtdbProcess
from ctxmgr.stores.xtdb.store import XtdbStore

WAIT_SECONDS: Final = 120.0
"""For one call, so that a busy machine makes a benchmark slow but does not end it."""

_CHUNK_BYTES: Final = 65_536
_CONTENT_LENGTH: Final = re.compile(rb"(?i)\r\ncontent-length:\s*(\d+)")


@dataclass(slots=True)
class Wiretap:
    """The bytes from client to server since the last ``clear``."""

    port: int = 0
    lines: list[bytearray] = field(default_factory=list)
    """One buffer per connection, so that concurrent requests are not mixed."""

    @property
    def sent(self) -> bytes:
        return b"".join(self.lines)

    def clear(self) -> None:
        for line in self.lines:
            line.clear()

    def bodies(self, path: str) -> list[bytes]:
        """Return the bodies of the requests to this path, in order on each connection."""
        bodies: list[bytes] = []
        rest = self.sent
        while rest:
            head, _, rest = rest.partition(b"\r\n\r\n")
            header = _CONTENT_LENGTH.search(head)
            length = int(header[1]) if header else 0
            if path.encode() in head.split(b"\r\n", 1)[0]:
                bodies.append(rest[:length])
            rest = rest[length:]
        return bodies

    def targets(self, path: str) -> list[str]:
        """Return the URLs of the POST requests to this path, in the order of ``bodies``."""
        lines = re.findall(rb"POST (\S+) HTTP/1.1\r\n", self.sent)
        return [line.decode() for line in lines if path.encode() in line]


@asynccontextmanager
async def tapped(port: int) -> AsyncIterator[Wiretap]:
    """Open a port that forwards to the server's."""
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
        await asyncio.sleep(0)  # lets the task of a new connection start
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


EDN: Final = {"Content-Type": "application/edn", "Accept": "application/edn"}


@dataclass(frozen=True, slots=True)
class OwnXtdb:
    """A server, and the clients to measure it with."""

    store: XtdbStore
    tap: Wiretap
    direct: httpx.AsyncClient
    """Sends to the server without the proxy."""
    base: str
    data_dir: Path


@asynccontextmanager
async def own_xtdb(say: Say) -> AsyncIterator[OwnXtdb]:
    """Start a server on RocksDB; it stops when the context ends."""
    with TemporaryDirectory(prefix="ctxmgr-bench-") as folder:
        data_dir = Path(folder) / "data"
        server = XtdbProcess(
            state_dir=Path(folder) / "state",
            data_dir=data_dir,
            lib_dir=cache_dir() / "xtdb",
            say=say,
        )
        status = await server.up(config="rocksdb", port=0)
        assert status.url is not None
        try:
            async with tapped_xtdb(status.url, data_dir=data_dir) as xtdb:
                yield xtdb
        finally:
            await server.down()


@asynccontextmanager
async def tapped_xtdb(url: str, *, data_dir: Path) -> AsyncIterator[OwnXtdb]:
    """Connect to a running server, through a proxy and directly."""
    base = url.removeprefix("xtdb+")
    async with AsyncExitStack() as stack:
        tap = await stack.enter_async_context(tapped(urlsplit(base).port or 0))
        opened = await XtdbStore.open(
            f"xtdb+http://127.0.0.1:{tap.port}", kinds=KINDS, timeout_s=WAIT_SECONDS
        )
        store = await stack.enter_async_context(opened)
        direct = await stack.enter_async_context(
            httpx.AsyncClient(base_url=base, timeout=WAIT_SECONDS)
        )
        yield OwnXtdb(store, tap, direct, base, data_dir)
