"""The time that the proxy adds to the first byte of an answer, and 200 streams at once.

    one session     grows to 500 calls and some 150,000 tokens; its last calls are sent directly to
                    a provider and through the proxy in turns, and the two times are compared
    many streams    200 sessions at once, whose answers arrive in pieces

The proxy is a process of its own with a store in a file, and shapes every request. Client and
provider share this process. Listens on loopback.
"""

import asyncio
import os
import re
import sys
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final, Self
from urllib.parse import urlsplit

from ctxmgr.bench.economy.sessions import RecordedSession
from ctxmgr.bench.proxy.any_proxy import ANSWER_EVENTS, read_body, read_head
from ctxmgr.bench.proxy.client import requests
from ctxmgr.bench.report import Figure, Say, reported, within
from ctxmgr.errors import Unavailable

CALLS: Final = 500
MEASURED: Final = 150
"""Calls at the end of the session that are measured."""

STREAMS: Final = 200
PIECES: Final = 5
PIECE_SECONDS: Final = 0.2
"""Between two pieces of an answer, so that all streams are open at once."""

PAUSE_SECONDS: Final = 0.05
"""Between two calls: an agent runs its tools, and the proxy records the exchange."""

P50_BOUND_MS: Final = 10.0
P99_BOUND_MS: Final = 50.0

WAIT_SECONDS: Final = 120.0
_PROXY: Final = "from ctxmgr.surfaces.terminal.cli import main; main()"
_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)


async def latency_figures(
    sessions: Sequence[RecordedSession], *, quick: bool, say: Say
) -> list[Figure]:
    """Measure with the longest of these sessions, repeated from its beginning if it is short."""
    session = max(sessions, key=lambda one: len(one.turns))
    calls = 40 if quick else CALLS
    longer = replace(session, turns=tuple(islice(cycle(session.turns), calls)))
    measured = min(calls // 2, MEASURED)
    with TemporaryDirectory(prefix="ctxmgr-bench-", dir=Path.cwd()) as folder:
        async with PiecewiseUpstream() as upstream, own_proxy(Path(folder), upstream.url) as url:
            say(f"{calls} calls of one session through the proxy, the last {measured} measured")
            times = await _session(longer, url, upstream, measured=measured)
            say(f"{STREAMS} streams at once")
            lost = await _streams(session, url, upstream)
    return [*_time_figures(times, promised=not quick), lost]


@dataclass(slots=True)
class _Times:
    direct: list[float]
    proxied: list[float]
    shaped: int
    request_bytes: int

    @property
    def added_ms(self) -> list[float]:
        pairs = zip(self.proxied, self.direct, strict=True)
        return sorted(1e3 * (proxied - direct) for proxied, direct in pairs)


async def _session(
    session: RecordedSession, url: str, upstream: "PiecewiseUpstream", *, measured: int
) -> _Times:
    times = _Times([], [], 0, 0)
    proxied, direct = await LoopbackClient.connect(url), await LoopbackClient.connect(upstream.url)
    first = len(session.turns) - measured
    for number, body in enumerate(requests(session)):
        if number < first:
            await proxied.post(body, session="bench")
            continue
        await asyncio.sleep(PAUSE_SECONDS)
        pair = {}
        for client in (direct, proxied) if number % 2 else (proxied, direct):
            pair[client] = await client.post(body, session="bench")
            await asyncio.sleep(PAUSE_SECONDS)
        times.direct.append(pair[direct].first_byte_seconds)
        times.proxied.append(pair[proxied].first_byte_seconds)
        times.shaped += pair[proxied].note.startswith("shaped")
        times.request_bytes = len(body)
    proxied.close()
    direct.close()
    return times


async def _streams(session: RecordedSession, url: str, upstream: "PiecewiseUpstream") -> Figure:
    bodies = list(islice(requests(session), 5))
    upstream.pieces, upstream.seconds = PIECES, PIECE_SECONDS

    async def stream(number: int) -> LoopbackAnswer | None:
        try:
            client = await LoopbackClient.connect(url)
            answer = await client.post(bodies[number % len(bodies)], session=f"stream-{number}")
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError):
            return None
        client.close()
        return answer

    answers = await asyncio.gather(*(stream(number) for number in range(STREAMS)))
    whole = [answer for answer in answers if answer is not None and answer.body == upstream.body()]
    times = sorted(1e3 * answer.first_byte_seconds for answer in whole) or [0.0]
    return within(
        f"{STREAMS} streams at once: lost or incomplete",
        STREAMS - len(whole),
        bound=0,
        unit="streams",
        against="the pieces that the provider sent",
        note=f"first byte p50 {_at(times, 0.5):.0f} ms, p99 {_at(times, 0.99):.0f} ms, all at once",
    )


def _time_figures(times: _Times, *, promised: bool) -> list[Figure]:
    added, against = times.added_ms, "the same provider directly, in turns"
    direct, proxied = sorted(times.direct), sorted(times.proxied)
    note = (
        f"{len(added)} calls of {times.request_bytes:,} bytes at the end, {times.shaped} shaped;"
        f" directly {1e3 * _at(direct, 0.5):.1f} / {1e3 * _at(direct, 0.99):.1f} ms,"
        f" through the proxy {1e3 * _at(proxied, 0.5):.1f} / {1e3 * _at(proxied, 0.99):.1f} ms"
    )
    figures = []
    for name, share, bound in (("p50", 0.5, P50_BOUND_MS), ("p99", 0.99, P99_BOUND_MS)):
        what, value = f"added time to first byte, {name} (ms)", round(_at(added, share), 1)
        if promised:
            figures.append(within(what, value, bound=bound, unit="ms", against=against, note=note))
        else:
            figures.append(reported(what, value, against=against, note=note))
    return figures


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@asynccontextmanager
async def own_proxy(folder: Path, upstream: str) -> AsyncIterator[str]:
    """Run a proxy on a free port that records in a folder; it ends with the context."""
    words = ("proxy", "--port", "0", "--upstream", f"anthropic={upstream}")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _PROXY, *words, "--store", f"sqlite:///{folder / 'proxy.db'}"),
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"XDG_STATE_HOME": str(folder)},  # nobody else is to find it
    )
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), WAIT_SECONDS)
        url = re.search(rb"http://[^\s,]+", line)
        if url is None:
            raise Unavailable("the proxy did not start; run `ctxmgr proxy` to see the reason")
        yield f"{url[0].decode()}/anthropic"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


class PiecewiseUpstream:
    """A provider that streams a short answer, in pieces if it is asked to."""

    def __init__(self) -> None:
        self._server: asyncio.Server | None = None
        self.pieces, self.seconds = 1, 0.0

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def body(self) -> bytes:
        """Return the answer that it streams now."""
        return b"".join(self._chunks())

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._converse, "127.0.0.1", 0, backlog=STREAMS)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    def _chunks(self) -> list[bytes]:
        first, *rest = ANSWER_EVENTS
        pings = [f'event: ping\ndata: {{"n":{n}}}\n\n'.encode() for n in range(self.pieces - 1)]
        return [first, *pings, *rest]

    async def _converse(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            while True:
                _, headers = await read_head(reader)
                await read_body(reader, headers)
                writer.write(_HEAD)
                for chunk in self._chunks():
                    writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
                    await writer.drain()
                    if self.seconds:
                        await asyncio.sleep(self.seconds)
                writer.write(b"0\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return  # the other side closed the connection
        finally:
            writer.close()


@dataclass(frozen=True, slots=True)
class LoopbackAnswer:
    """An answer, and when it began."""

    first_byte_seconds: float
    note: str
    body: bytes


class LoopbackClient:
    """One kept-alive connection over which requests are sent."""

    def __init__(self, url: str, reader: StreamReader, writer: StreamWriter) -> None:
        self._url = urlsplit(url)
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, url: str) -> Self:
        parts = urlsplit(url)
        return cls(url, *await asyncio.open_connection(parts.hostname, parts.port))

    def close(self) -> None:
        self._writer.close()

    async def post(self, body: bytes, *, session: str) -> LoopbackAnswer:
        """Send a request; the time is that from its first byte to the first of the answer's."""
        headers = {
            "host": self._url.netloc,
            "content-type": "application/json",
            "content-length": str(len(body)),
            "x-api-key": "bench",
            "anthropic-version": "2023-06-01",
            "x-claude-code-session-id": session,
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"POST {self._url.path}/v1/messages HTTP/1.1\r\n{lines}\r\n".encode()
        async with asyncio.timeout(WAIT_SECONDS):
            started = perf_counter()
            self._writer.write(head + body)
            await self._writer.drain()
            _, answered = await read_head(self._reader)
            size = int((await self._reader.readline()).split(b";")[0], 16)
            elapsed = perf_counter() - started
            first = await self._reader.readexactly(size)
            await self._reader.readexactly(2)
            rest = await read_body(self._reader, answered) if size else b""
        return LoopbackAnswer(elapsed, answered.get("x-ctxmgr-proxy", ""), first + rest)
