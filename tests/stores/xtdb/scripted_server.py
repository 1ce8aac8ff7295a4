"""A server that sends scripted replies, byte for byte, to inject failures. Touches the network.

    async with ScriptedServer() as server:
        server.answer("query", lost(), edn("()"))      # the second request is answered
        await XtdbStore.open(server.url)

Replies to a path are used in order, and the last one repeatedly; ``status`` has a default.
Replies of the official server are read from the recordings beside the checkout, never copied.
"""

import asyncio
import json
import ssl
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from tests.components import SHARED, need
from tests.loopback import Loopback

EDN = "application/edn; charset=utf-8"
REASONS = defaultdict(lambda: "Some Status", {200: "OK", 202: "Accepted"})


@dataclass(frozen=True)
class Request:
    path: str
    params: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Reply:
    data: bytes = b""
    close: bool = False
    """Close the connection after the reply."""
    poisoned: bool = False
    """Keep the connection open, and silently drop the next request on it."""
    hang: bool = False
    """Send nothing more, and keep the connection open."""


Answer = Reply | Callable[[Request], Reply]


def reply(status: int, body: str | bytes, *, kind: str | None = EDN) -> Reply:
    data = body.encode() if isinstance(body, str) else body
    head = f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Length: {len(data)}\r\n"
    head += f"Content-Type: {kind}\r\n" if kind else ""
    return Reply(head.encode() + b"\r\n" + data)


def edn(body: str) -> Reply:
    return reply(200, body)


def lost() -> Reply:
    """Read the request, then close the connection."""
    return Reply(close=True)


def recorded(name: str, *, file: str = "official-1.24.3") -> Reply:
    """Return a recorded reply of the official server, with its framing and connection handling."""
    need("shared-data")
    response = _recordings(file)[name]["response"]
    if response["status"] is None:
        return lost()
    kind = response["headers"].get("content-type")
    ends = response["connection_after"] == "closed"
    if response["framing"] != "chunked":
        whole = reply(response["status"], response["body"], kind=kind)
        return Reply(whole.data, poisoned=ends)
    body = response["body"].encode()
    head = f"HTTP/1.1 {response['status']} X\r\nContent-Type: {kind}\r\n"
    head += "Transfer-Encoding: chunked\r\n\r\n"
    chunk = b"%x\r\n%s\r\n" % (len(body), body) if body else b""
    return Reply(head.encode() + chunk + b"0\r\n\r\n", poisoned=ends)


@cache
def _recordings(file: str) -> dict[str, Any]:
    text = (SHARED / "data" / "xtdb-http" / f"{file}.jsonl").read_text(encoding="utf-8")
    return {line["name"]: line for line in map(json.loads, text.splitlines())}


@dataclass
class ScriptedServer:
    requests: list[Request] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a request arrives; a test may clear it."""
    _answers: dict[str, list[Answer]] = field(default_factory=dict)
    port: int = 0
    tls: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        self.answer("status", edn('{:xtdb.version/version "1.24.3", :ingester-failed? false}'))

    def answer(self, path: str, *answers: Answer) -> None:
        self._answers[path] = list(answers)

    def asked(self, path: str) -> list[Request]:
        return [request for request in self.requests if request.path == path]

    @property
    def url(self) -> str:
        return f"xtdb+http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._loopback = Loopback(self._converse, tls=self.tls)
        self.port = await self._loopback.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Refuse new connections, and close those that are open."""
        await self._loopback.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        request = await _read(reader)
        self.requests.append(request)
        self.arrived.set()
        answers = self._answers.get(request.path) or [reply(404, "", kind=None)]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        sent = answer(request) if callable(answer) else answer
        writer.write(sent.data)
        await writer.drain()
        if sent.hang or sent.poisoned:
            await (_read(reader) if sent.poisoned else reader.read())
            return False
        return not sent.close


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    target = urlsplit(head[0].split(" ")[1])
    pairs = (line.partition(": ") for line in head[1:] if line)
    headers = {name.lower(): value for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    path = target.path.removeprefix("/_xtdb/")
    return Request(path, parse_qs(target.query), headers, body)
