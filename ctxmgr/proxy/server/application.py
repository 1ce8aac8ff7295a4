"""The proxy: forwards each request and passes the answer on as it arrives. An ASGI application.

    guard ─► body ─► Engine.prepare ─► provider ─► answer, byte by byte ─► Engine.answered, sink
                     within a deadline     │
                                           └─ 400 to a shaped request: the client's own, once

Requests of the three APIs are read whole, within bounds. All others are passed on while they
arrive, in both directions. A client that disconnects ends the request to the provider. Nothing is
retried, except that a shaped request that is refused is sent again as the client wrote it.
"""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import parse_qs

from starlette.types import Message, Receive, Scope, Send

from ctxmgr.errors import Incorrect
from ctxmgr.proxy.engine import Engine, Incoming, Outgoing
from ctxmgr.proxy.server.content_codings import IDENTITY, ContentDecoder, readable_codings
from ctxmgr.proxy.server.exchange import ExchangeSink, ProxiedExchange
from ctxmgr.proxy.server.headers import (
    PROXY_HEADER,
    RawHeaders,
    forwarded_headers,
    header_text,
    returned_headers,
    without_credentials,
)
from ctxmgr.proxy.server.providers import ForwardTarget, Provider, target_of
from ctxmgr.proxy.server.request_guard import ProxyGuard, RequestRefused
from ctxmgr.proxy.server.traffic import Traffic
from ctxmgr.proxy.server.upstream import AnswerCut, Upstream, UpstreamAnswer, UpstreamFailure
from ctxmgr.proxy.server.usage_reader import UsageReader

BODY_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of one request, also when it is decompressed: providers accept 32 MB, images included."""

BODIES_BYTES_MAX: Final = 512 * 1024 * 1024
"""Of all requests that are held at once, and what they decompress to; more are answered 503."""

BODY_SECONDS_MAX: Final = 60.0
"""Time in which a request must arrive."""

STREAMS_MAX: Final = 1_000
"""Requests at once; more are answered 503. An agent with subagents has about ten."""

PREPARE_SECONDS_MAX: Final = 5.0
"""Time for an engine, which keeps a deadline of its own of 50 ms and then sends texts whole. This
one is for an engine that hangs: the client's own bytes are forwarded, which costs the cached prefix
of a shaped conversation and is worse than a short wait."""

REFUSAL_BYTES_MAX: Final = 64 * 1024
"""Read of the answer that refuses a shaped request."""

DECODED_BYTES_MAX: Final = 128 * 1024 * 1024
"""Read of one answer for its usage; the longest have about 32 MB. The reader keeps little of it."""

STATUS_PATH: Final = "/ctxmgr/status"
QUERY_BYTES_MAX: Final = 200
"""What is read of the query of a question about the status."""

_JSON: Final = b"application/json"
_STREAM: Final = "text/event-stream"
_REFUSED: Final = 400

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """The beginning of a request."""

    method: str
    query: str
    headers: RawHeaders = field(repr=False)
    named: Mapping[str, str] = field(repr=False)
    target: ForwardTarget


@dataclass(slots=True)
class _Passing:
    """A request of an understood API on its way."""

    head: _Head
    raw: bytes
    body: bytes
    outgoing: Outgoing
    began: float
    began_ms: int
    prepare_seconds: float
    refused: str | None = None
    status: int | None = None
    reader: UsageReader | None = None
    ended: bool = False
    first_byte: float | None = None


class ProxyApplication:
    """Forwards requests to the providers."""

    def __init__(
        self,
        *,
        engine: Engine,
        upstream: Upstream,
        urls: Mapping[Provider, str],
        guard: ProxyGuard,
        sink: ExchangeSink,
        traffic: Traffic,
        prove: Callable[[str], str],
    ) -> None:
        """``prove`` answers the challenge of whoever wants to know whose proxy this is."""
        self._prove = prove
        self._engine = engine
        self._upstream = upstream
        self._urls = urls
        self._guard = guard
        self._sink = sink
        self._traffic = traffic
        self._active = 0
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        responder = _Responder(send)
        try:
            await self._answer(scope, receive, responder)
        except RequestRefused as refusal:
            self._traffic.refused += 1
            await responder.error(refusal.status, str(refusal), headers=refusal.headers)
        except UpstreamFailure as failure:
            self._traffic.failed += 1
            await responder.error(failure.status, str(failure))
        except AnswerCut as cut:
            # Without its end, the client sees that the answer is incomplete.
            self._traffic.cut += 1
            _log.warning("%s", cut)
        except _ClientGone:
            self._traffic.abandoned += 1

    async def _answer(self, scope: Scope, receive: Receive, responder: "_Responder") -> None:
        named = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        raw_path: bytes = scope["raw_path"]
        path = self._guard.admitted_path(raw_path.decode("latin-1"), named)
        method: str = scope["method"]
        if path == STATUS_PATH:
            asked = parse_qs(scope["query_string"][:QUERY_BYTES_MAX].decode("latin-1"))
            proof = {"proof": self._prove(asked["challenge"][0])} if "challenge" in asked else {}
            return await responder.json(200, self._traffic.status() | proof)
        if "upgrade" in named and "websocket" in named["upgrade"].lower():
            message = "this proxy speaks HTTP with server-sent events, not WebSocket"
            raise RequestRefused(426, message, headers={"upgrade": "HTTP/1.1"})
        target = target_of(method, path, headers=named)
        if target is None:
            names = ", ".join(f"/{provider}" for provider in Provider)
            raise RequestRefused(
                404, f"unknown path {path!r:.80}: put one of {names} before the provider's path"
            )
        if self._active >= STREAMS_MAX:
            raise RequestRefused(
                503, f"more than {STREAMS_MAX} requests at once", headers={"retry-after": "1"}
            )
        query = scope["query_string"].decode("latin-1")
        head = _Head(
            method=method, query=query, headers=scope["headers"], named=named, target=target
        )
        self._active += 1
        try:
            if target.api is None:
                await self._pass_on(head, receive, responder)
            else:
                await self._exchange(head, receive, responder)
        finally:
            self._active -= 1

    async def _pass_on(self, head: _Head, receive: Receive, responder: "_Responder") -> None:
        """Forward a request of another path while it arrives."""
        body = _RequestBody(receive)
        headers = forwarded_headers(
            head.headers, codings=readable_codings(), added={}, decoded=False
        )
        length = head.named.get("content-length")
        content: bytes | AsyncIterator[bytes] = b""
        if "transfer-encoding" in head.named:  # it decides, if a request has both
            content = body.chunks()
        elif length is not None and length != "0":
            headers.append((b"content-length", length.encode("latin-1")))
            content = body.chunks()
        else:
            await body.drain()

        async def forward() -> None:
            async with self._upstream.send(
                head.method, self._url(head), headers=headers, body=content
            ) as answer:
                await responder.start(answer, note=None)
                async for chunk in answer.chunks():
                    await responder.chunk(chunk)
                await responder.end()

        await _until_gone(forward(), body)
        self._traffic.passed += 1

    async def _exchange(self, head: _Head, receive: Receive, responder: "_Responder") -> None:
        """Forward a request that is understood."""
        body = _RequestBody(receive)
        raw = await self._read(body)
        held = len(raw)
        try:
            decoded, unread = self._decoded(head, raw)
            held += len(decoded) if decoded is not raw else 0
            passing = await self._prepared(head, raw, decoded, unread)
            try:
                await _until_gone(self._forward(passing, responder), body)
            finally:
                await self._finish(passing)
        finally:
            self._held -= held

    async def _read(self, body: "_RequestBody") -> bytes:
        data = bytearray()
        try:
            async with asyncio.timeout(BODY_SECONDS_MAX):
                async for chunk in body.chunks():
                    self._held += len(chunk)
                    data += chunk
                    _check_size(len(data), held=self._held)
        except TimeoutError as error:
            self._held -= len(data)
            message = f"the body did not arrive in {BODY_SECONDS_MAX:g} s"
            raise RequestRefused(408, message) from error
        except BaseException:
            self._held -= len(data)
            raise
        return bytes(data)

    def _decoded(self, head: _Head, raw: bytes) -> tuple[bytes, str | None]:
        """Return the decompressed body, which is held from now on, or why it cannot be read."""
        coding = head.named.get("content-encoding", "").strip().lower()
        if coding in {"", IDENTITY}:
            return raw, None
        data = bytearray()
        try:
            for piece in ContentDecoder(coding, bytes_max=BODY_BYTES_MAX).pieces(raw):
                self._held += len(piece)
                data += piece
                _check_size(len(data), held=self._held)
        except BaseException as error:
            self._held -= len(data)
            if isinstance(error, Incorrect):
                return b"", str(error)
            raise
        return bytes(data), None

    async def _prepared(self, head: _Head, raw: bytes, body: bytes, unread: str | None) -> _Passing:
        began, began_ms = time.perf_counter(), time.time_ns() // 1_000_000
        assert head.target.api is not None
        if unread is not None:
            outgoing = Outgoing(body=raw, reason=unread)
        else:
            incoming = Incoming(
                api=head.target.api,
                path=head.target.path,
                headers=without_credentials(head.headers),
                body=body,
            )
            try:
                async with asyncio.timeout(PREPARE_SECONDS_MAX):
                    # It is not cancelled: what it knows of the conversation must stay consistent.
                    outgoing = await asyncio.shield(self._engine.prepare(incoming))
            except TimeoutError:
                reason = f"shaping took longer than {PREPARE_SECONDS_MAX * 1_000:g} ms"
                outgoing = Outgoing(body=body, reason=reason)
        seconds = time.perf_counter() - began
        self._traffic.prepared(outgoing, seconds=seconds)
        return _Passing(
            head=head,
            raw=raw,
            body=body,
            outgoing=outgoing,
            began=began,
            began_ms=began_ms,
            prepare_seconds=seconds,
        )

    async def _forward(self, passing: _Passing, responder: "_Responder") -> None:
        if passing.outgoing.shaped and not await self._forward_shaped(passing, responder):
            reason = f"the provider refused the shaped request: {passing.refused}"
            passing.outgoing = replace(
                passing.outgoing, body=passing.body, shaped=False, reason=reason, folds=()
            )
            self._traffic.withdrawn(reason="the provider refused the shaped request")
        if not passing.outgoing.shaped:
            headers = forwarded_headers(
                passing.head.headers, codings=readable_codings(), added={}, decoded=False
            )
            async with self._upstream.send(
                passing.head.method, self._url(passing.head), headers=headers, body=passing.raw
            ) as answer:
                await self._blame(passing, answer.status)
                await self._relay(answer, passing, responder)

    async def _forward_shaped(self, passing: _Passing, responder: "_Responder") -> bool:
        """Return whether the provider accepted the request; if it did, the answer was relayed."""
        outgoing = passing.outgoing
        headers = forwarded_headers(
            passing.head.headers,
            codings=readable_codings(),
            added=outgoing.added_headers,
            decoded=True,
        )
        async with self._upstream.send(
            passing.head.method, self._url(passing.head), headers=headers, body=outgoing.body
        ) as answer:
            if answer.status != _REFUSED:
                await self._relay(answer, passing, responder)
                return True
            passing.refused = await _refusal(answer)
        return False

    async def _blame(self, passing: _Passing, status: int) -> None:
        """Tell the engine that shaping was refused, if the client's own request was accepted.

        If that is refused as well, such as for an empty account, shaping was not the reason. To
        stop it would then change the prefix of everything that was sent.
        """
        conversation = passing.outgoing.conversation
        if passing.refused is not None and conversation is not None and status < _REFUSED:
            await self._engine.answered(conversation, status=_REFUSED, usage=None)

    async def _relay(
        self, answer: UpstreamAnswer, passing: _Passing, responder: "_Responder"
    ) -> None:
        """Pass an answer on, piece by piece, and read its usage.

        No answer is passed on whole before what was sent is stored: after a crash the client asks
        again. The first piece of a stream need not wait.
        """
        passing.status = answer.status
        reader = UsageReader(streamed=answer.content_type == _STREAM)
        passing.reader = reader
        decoder: ContentDecoder | None = None
        if answer.coding in {"", "identity", *readable_codings()}:
            decoder = ContentDecoder(answer.coding, bytes_max=DECODED_BYTES_MAX)
        await responder.start(answer, note=_note(passing.outgoing))
        awaited = False
        async for chunk in answer.chunks():
            if not awaited and (passing.first_byte is not None or not reader.streamed):
                awaited = await self._stored(passing)
            if passing.first_byte is None:
                passing.first_byte = time.perf_counter()
            await responder.chunk(chunk)
            decoder = await _feed(reader, decoder, chunk)
        passing.ended = True
        if not awaited:
            await self._stored(passing)
        await responder.end()

    async def _stored(self, passing: _Passing) -> bool:
        """Wait until what was sent is stored, or for as long as the engine does; return True."""
        conversation = passing.outgoing.conversation
        if conversation is not None and not await self._engine.stored(conversation):
            self._traffic.unstored += 1
        return True

    async def _finish(self, passing: _Passing) -> None:
        """Report an exchange that ended, in whatever way."""
        assert passing.head.target.api is not None
        usage = passing.reader.usage() if passing.reader is not None else None
        outgoing = passing.outgoing
        status = passing.status
        if outgoing.conversation is not None and status is not None and status != _REFUSED:
            await self._engine.answered(outgoing.conversation, status=status, usage=usage)
        exchange = ProxiedExchange(
            provider=passing.head.target.provider,
            api=passing.head.target.api,
            path=passing.head.target.path,
            headers=without_credentials(passing.head.headers),
            received=passing.body,
            outgoing=outgoing,
            refused=passing.refused,
            status=passing.status,
            answer=passing.reader.answer if passing.reader is not None else b"",
            streamed=passing.reader is not None and passing.reader.streamed,
            whole=passing.ended and passing.reader is not None and passing.reader.complete_copy,
            model=passing.reader.model if passing.reader is not None else None,
            usage=usage,
            began_ms=passing.began_ms,
            ended_ms=time.time_ns() // 1_000_000,
            prepare_seconds=passing.prepare_seconds,
            first_byte_seconds=(
                None if passing.first_byte is None else passing.first_byte - passing.began
            ),
        )
        self._sink.put(exchange, self._traffic.ended(exchange))

    def _url(self, head: _Head) -> str:
        query = f"?{head.query}" if head.query else ""
        return f"{self._urls[head.target.provider]}{head.target.path}{query}"


class _ClientGone(Exception):  # noqa: N818 (named for what happened)
    pass


class _RequestBody:
    """The body of a request, and whether its client is still there."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._arrived = asyncio.Event()

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise _ClientGone
            if message.get("body"):
                yield message["body"]
            if not message.get("more_body", False):
                self._arrived.set()
                return

    async def drain(self) -> None:
        """Read a body that is known to be empty."""
        async for _ in self.chunks():
            raise RequestRefused(400, "a body without a length")

    async def gone(self) -> None:
        """Return when the client has disconnected."""
        await self._arrived.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass


class _Responder:
    """Sends the response to the client."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._started = False

    async def start(self, answer: UpstreamAnswer, *, note: str | None) -> None:
        headers = returned_headers(answer.headers)
        if note is not None:
            headers.append((PROXY_HEADER.encode(), note.encode("ascii")))
        await self._start(answer.status, headers)

    async def chunk(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def json(self, status: int, value: object) -> None:
        body = json.dumps(value, ensure_ascii=False).encode()
        headers = [(b"content-type", _JSON), (b"content-length", str(len(body)).encode())]
        await self._start(status, [*headers, (b"cache-control", b"no-store")])
        message: Message = {"type": "http.response.body", "body": body, "more_body": False}
        await self._send(message)

    async def error(
        self, status: int, message: str, *, headers: Mapping[str, str] | None = None
    ) -> None:
        """Answer with an error in a form that clients of every API read."""
        if self._started:
            return
        kind = "api_error" if status >= 500 else "invalid_request_error"  # noqa: PLR2004
        text = f"ctxmgr proxy: {message}"
        body = json.dumps(
            {"type": "error", "error": {"type": kind, "message": text, "code": "ctxmgr_proxy"}},
            ensure_ascii=False,
        ).encode()
        extra = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        await self._start(
            status,
            [
                (b"content-type", _JSON),
                (b"content-length", str(len(body)).encode()),
                (b"connection", b"close"),
                (PROXY_HEADER.encode(), f'error; reason="{header_text(message)}"'.encode()),
                *extra,
            ],
        )
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self._started = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})


async def _until_gone(work: object, body: _RequestBody) -> None:
    """Run work to its end, or until the client disconnects, which raises ``_ClientGone``."""
    working = asyncio.ensure_future(work)  # type: ignore[call-overload]
    gone = asyncio.ensure_future(body.gone())
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise _ClientGone
        working.result()
    finally:
        gone.cancel()
        working.cancel()
        await asyncio.gather(gone, working, return_exceptions=True)


def _check_size(size: int, *, held: int) -> None:
    if size > BODY_BYTES_MAX:
        raise RequestRefused(413, f"the body has more than {BODY_BYTES_MAX:,} bytes")
    if held > BODIES_BYTES_MAX:
        message = "too many large requests at once"
        raise RequestRefused(503, message, headers={"retry-after": "1"})


def _note(outgoing: Outgoing) -> str:
    """Return the value of the response's header: what was done to the request."""
    if outgoing.shaped:
        tokens = f"tokens={outgoing.sent_tokens}; before={outgoing.baseline_tokens}"
        return f"shaped; folds={len(outgoing.folds)}; {tokens}"
    return f'unshaped; reason="{header_text(outgoing.reason or "nothing to shape")}"'


async def _feed(
    reader: UsageReader, decoder: ContentDecoder | None, chunk: bytes
) -> ContentDecoder | None:
    """Let the reader see a piece of the answer; None if no more of it can be read."""
    if decoder is None:
        return None
    try:
        for number, piece in enumerate(decoder.pieces(chunk)):
            if number:  # of a chunk that decompresses to much: other streams go on meanwhile
                await asyncio.sleep(0)
            reader.feed(piece)
    except Incorrect as error:
        reader.complete_copy = False
        _log.warning("the usage of an answer cannot be read: %s", error)
        return None
    return decoder


async def _refusal(answer: UpstreamAnswer) -> str:
    """Return the beginning of an error's text."""
    body = bytearray()
    try:
        async for chunk in answer.chunks():
            body += chunk
            if len(body) > REFUSAL_BYTES_MAX:
                break
    except AnswerCut as cut:
        _log.warning("a refusal is not known whole: %s", cut)
    try:
        text = ContentDecoder(answer.coding, bytes_max=4 * REFUSAL_BYTES_MAX).feed(bytes(body))
    except Incorrect:
        text = bytes(body)
    return " ".join(text.decode("utf-8", "replace").split())[:500]
