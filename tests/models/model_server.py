"""A model's server on loopback that says what it is told to, in both APIs. Touches the network.

    async with ModelServer() as server:
        server.script(refuse(429), says(Text("Hello")))     # one reply for each request

It refuses what the providers refuse: a tool call that the next message does not answer. A reply
can break off after some of its events, by a cut connection or politely, or stay silent for good.
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
        """All that the model was sent, to look for words in."""
        return json.dumps(self.body, ensure_ascii=False)


@dataclass(frozen=True)
class Reply:
    """One answer, or a refusal."""

    parts: tuple[Text | Call, ...] = ()
    stop: str | None = None
    events_max: int | None = None
    """Only so many events are sent; None: all."""
    then: Literal["end", "cut", "hang"] = "end"
    """After that: the reply ends as HTTP wants it, the connection breaks, or nothing comes."""
    alter: Callable[[str], str] = lambda event: event
    """Changes each event on its way."""
    bytes_at_once: int | None = None
    """So many bytes go into each chunk on the wire; None: a whole event."""
    status: int = 200
    headers: tuple[str, ...] = ()
    body: str | None = None
    """Of a refusal."""


def says(*parts: Text | Call, stop: str | None = None) -> Reply:
    return Reply(parts=parts, stop=stop)


def refuse(status: int, *headers: str, body: str | None = None) -> Reply:
    said = json.dumps({"type": "error", "error": {"type": "some_error", "message": "not now"}})
    return Reply(status=status, headers=headers, body=body or said)


def breaks(reply: Reply, *, after: int, then: Literal["end", "cut", "hang"]) -> Reply:
    """The reply, broken off after some of its events."""
    return replace(reply, events_max=after, then=then)


@dataclass
class ModelServer:
    requests: list[Request] = field(default_factory=list)
    silent: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a reply has come to the point where it hangs."""
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client left a reply that hangs."""
    port: int = 0
    _replies: list[Reply] = field(default_factory=list)

    def script(self, *replies: Reply) -> None:
        """Say these, one after the other, and then nothing more."""
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
        fault = _illegal(request)
        nothing = refuse(400, body="the script has ended")
        reply = self._replies.pop(0) if self._replies else nothing
        if fault is not None:
            reply = refuse(400, body=fault)
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
            await reader.read()  # until the client goes
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


def _illegal(request: Request) -> str | None:
    """What a provider would refuse: a call that is not answered in the next message."""
    messages = request.body["messages"]
    for message, following in zip(messages, [*messages[1:], {}], strict=True):
        asked, answered = _asked(message), _answered(following, messages, message)
        if asked - answered:
            return f"the tool calls {sorted(asked - answered)} are not answered"
    return None


def _asked(message: dict[str, Any]) -> set[str]:
    blocks = message["content"] if isinstance(message["content"], list) else []
    calls = [each["id"] for each in blocks if each["type"] == "tool_use"]
    return {*calls, *(each["id"] for each in message.get("tool_calls") or ())}


def _answered(
    following: dict[str, Any], messages: list[dict[str, Any]], asking: dict[str, Any]
) -> set[str]:
    """Anthropic wants all results in the next message, OpenAI a message for each."""
    if following.get("role") == "tool":
        rest = messages[messages.index(asking) + 1 :]
        return {each["tool_call_id"] for each in rest if each["role"] == "tool"}
    blocks = following.get("content")
    results = blocks if isinstance(blocks, list) else []
    return {each["tool_use_id"] for each in results if each["type"] == "tool_result"}
