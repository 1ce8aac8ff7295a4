"""A scripted model server on loopback for both APIs. Touches the network.

    async with ModelServer() as server:
        server.script(refuse(429), says(Text("Hello")))     # one reply for each request

Like the providers, it rejects a tool call without a result in the next message. A reply can break
off after some of its events: the connection is closed, the reply ends early, or nothing follows.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Self

from tests.loopback import Loopback
from tests.models import wire
from tests.models.wire import Call, Text

APIS: Final = ("anthropic", "openai")
KEY: Final = "sk-scripted-0123456789"


@dataclass(frozen=True)
class Request:
    api: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def text(self) -> str:
        """The whole request body as text."""
        return json.dumps(self.body, ensure_ascii=False)


@dataclass(frozen=True)
class Reply:
    """One answer, or an error."""

    parts: tuple[Text | Call, ...] = ()
    stop: str | None = None
    events_max: int | None = None
    """The number of events that are sent; None for all."""
    then: Literal["end", "cut", "hang"] = "end"
    """What follows: a proper end of the reply, a closed connection, or nothing."""
    alter: Callable[[str], str] = lambda event: event
    """Changes each event before it is sent."""
    bytes_at_once: int | None = None
    """The size of chunks on the wire; None for one chunk per event."""
    status: int = 200
    headers: tuple[str, ...] = ()
    body: str | None = None
    """The body of an error."""


def says(*parts: Text | Call, stop: str | None = None) -> Reply:
    return Reply(parts=parts, stop=stop)


def refuse(status: int, *headers: str, body: str | None = None) -> Reply:
    default = json.dumps({"type": "error", "error": {"type": "some_error", "message": "not now"}})
    return Reply(status=status, headers=headers, body=body or default)


def breaks(reply: Reply, *, after: int, then: Literal["end", "cut", "hang"]) -> Reply:
    """Return the reply, broken off after some of its events."""
    return replace(reply, events_max=after, then=then)


@dataclass
class ModelServer:
    requests: list[Request] = field(default_factory=list)
    silent: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a reply hangs."""
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the client closed a reply that hangs."""
    port: int = 0
    _replies: list[Reply] = field(default_factory=list)

    def script(self, *replies: Reply) -> None:
        """Set the replies to the next requests; further requests are errors."""
        self._replies = list(replies)

    def base_url(self, api: str) -> str:
        return f"http://127.0.0.1:{self.port}" + ("/v1" if api == "openai" else "")

    async def __aenter__(self) -> Self:
        self._loopback = Loopback(self._converse)
        self.port = await self._loopback.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._loopback.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        request = await _read(reader)
        self.requests.append(request)
        violation = _violation(request)
        nothing = refuse(400, body="the script has ended")
        reply = self._replies.pop(0) if self._replies else nothing
        if violation is not None:
            reply = refuse(400, body=violation)
        if reply.body is not None:
            writer.write(_refusal(reply))
            await writer.drain()
            return True
        return await self._stream(request, reply, reader, writer)

    async def _stream(
        self,
        request: Request,
        reply: Reply,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        events = getattr(wire, request.api)(reply.parts, reply.stop)
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
        writer.write(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        for event in map(reply.alter, events[: reply.events_max]):
            for chunk in _chunks(event.encode(), reply.bytes_at_once):
                writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                await writer.drain()
        if reply.then == "cut":
            return False
        if reply.then == "hang":
            self.silent.set()
            await reader.read()  # until the client disconnects
            self.gone.set()
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


def _chunks(data: bytes, size: int | None) -> list[bytes]:
    size = size or len(data)
    return [data[start : start + size] for start in range(0, len(data), size)]


def _refusal(reply: Reply) -> bytes:
    data = (reply.body or "").encode()
    lines = [
        f"HTTP/1.1 {reply.status} Some Status",
        f"Content-Length: {len(data)}",
        "Content-Type: application/json",
        *reply.headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode() + data


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    path = head[0].split(" ")[1]
    pairs = (line.partition(": ") for line in head[1:] if line)
    headers = {name.lower(): value for name, _, value in pairs}
    body = json.loads(await reader.readexactly(int(headers["content-length"])))
    return Request({"/v1/messages": "anthropic"}.get(path, "openai"), headers, body)


def _violation(request: Request) -> str | None:
    """Return why a provider would reject the request: a call without a result."""
    messages = request.body["messages"]
    for message, following in zip(messages, [*messages[1:], {}], strict=True):
        missing = _calls(message) - _results(following, messages, message)
        if missing:
            return f"the tool calls {sorted(missing)} have no results"
    return None


def _calls(message: dict[str, Any]) -> set[str]:
    blocks = message["content"] if isinstance(message["content"], list) else []
    uses = [block["id"] for block in blocks if block["type"] == "tool_use"]
    return {*uses, *(call["id"] for call in message.get("tool_calls") or ())}


def _results(
    following: dict[str, Any], messages: list[dict[str, Any]], calling: dict[str, Any]
) -> set[str]:
    """Anthropic expects all results in the next message, OpenAI one message for each."""
    if following.get("role") == "tool":
        rest = messages[messages.index(calling) + 1 :]
        return {message["tool_call_id"] for message in rest if message["role"] == "tool"}
    blocks = following.get("content")
    results = blocks if isinstance(blocks, list) else []
    return {block["tool_use_id"] for block in results if block["type"] == "tool_result"}
