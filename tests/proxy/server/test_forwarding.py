"""What passes through the proxy, against a provider on loopback."""

import asyncio
import gzip
import json
import time
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import brotli
import httpx
import pytest
import uvicorn
import zstandard

from ctxmgr.core.model import Usage
from ctxmgr.proxy.engine import Engine, Incoming, Outgoing, PassThrough
from ctxmgr.proxy.server import application as application_module
from ctxmgr.proxy.server.accounting import RequestAccount
from ctxmgr.proxy.server.application import ProxyApplication
from ctxmgr.proxy.server.exchange import ProxiedExchange
from ctxmgr.proxy.server.providers import PROVIDER_URLS
from ctxmgr.proxy.server.request_guard import ProxyGuard, RequestRefused
from ctxmgr.proxy.server.traffic import Traffic
from ctxmgr.proxy.server.upstream import Upstream, UpstreamFailure
from ctxmgr.proxy.server.usage_reader import UsageReader
from ctxmgr.surfaces.http.connections import DeadlineProtocol
from tests.proxy.server.events import anthropic_stream, sse
from tests.proxy.server.scripted_upstream import ScriptedUpstream, answer, cut, stream

WAIT = 30.0
PACK = {"gzip": gzip.compress, "zstd": zstandard.compress, "br": brotli.compress}
KEY = "sk-ant-oat01-secret"
MESSAGES = "/anthropic/v1/messages?beta=true"
BODY = {"model": "claude-sonnet-5-5", "messages": [{"role": "user", "content": "Hi"}], "tools": []}


@dataclass
class Shortening:
    """Shapes every request to a fixed body."""

    seconds: float = 0.0
    is_stored: bool = True
    heard: list[tuple[str, int, Usage | None]] = field(default_factory=list)
    incoming: list[Incoming] = field(default_factory=list)

    async def prepare(self, request: Incoming) -> Outgoing:
        self.incoming.append(request)
        await asyncio.sleep(self.seconds)
        return Outgoing(
            body=b'{"short":true}',
            shaped=True,
            conversation="c1",
            added_headers={"anthropic-beta": "thinking-binding-controls-2026-08-01"},
            baseline_tokens=1_000,
            sent_tokens=500,
        )

    async def answered(self, conversation: str, *, status: int, usage: Usage | None) -> None:
        self.heard.append((conversation, status, usage))

    async def stored(self, conversation: str) -> bool:
        del conversation
        return self.is_stored


@dataclass
class Kept:
    exchanges: list[ProxiedExchange] = field(default_factory=list)
    accounts: list[RequestAccount | None] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, exchange: ProxiedExchange, account: RequestAccount | None) -> None:
        self.exchanges.append(exchange)
        self.accounts.append(account)
        self.ended.set()


@dataclass
class Proxy:
    client: httpx.AsyncClient
    upstream: ScriptedUpstream
    kept: Kept
    traffic: Traffic
    port: int

    async def post(self, path: str = MESSAGES, **more: Any) -> httpx.Response:
        headers = {"x-api-key": KEY, **more.pop("headers", {})}
        if "content" not in more:
            more.setdefault("json", BODY)
        return await self.client.post(path, headers=headers, **more)

    async def exchange(self) -> ProxiedExchange:
        async with asyncio.timeout(WAIT):
            await self.kept.ended.wait()
        return self.kept.exchanges[-1]


@asynccontextmanager
async def proxying(engine: Engine, *, token: str | None = None) -> AsyncIterator[Proxy]:
    kept, upstream, traffic = Kept(), Upstream(), Traffic(describe=lambda: {"pid": 1})
    async with ScriptedUpstream() as provider:
        app = ProxyApplication(
            engine=engine,
            upstream=upstream,
            urls=dict.fromkeys(PROVIDER_URLS, provider.url),
            guard=ProxyGuard(token),
            sink=kept,
            traffic=traffic,
            prove=lambda challenge: f"proof of {challenge}",
        )
        config = uvicorn.Config(
            app, port=0, lifespan="off", log_config=None, ws="none", http=DeadlineProtocol,
            date_header=False, server_header=False, timeout_graceful_shutdown=1,
        )  # fmt: skip
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server._serve())
        async with asyncio.timeout(WAIT):
            while not server.started:  # noqa: ASYNC110 (uvicorn has no event for it)
                await asyncio.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            async with httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{port}", timeout=WAIT, trust_env=False
            ) as client:
                yield Proxy(client, provider, kept, traffic, port)
        finally:
            server.should_exit = True
            await serving
            await upstream.close()


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    async with proxying(PassThrough()) as running:
        yield running


async def test_an_unchanged_request_goes_out_with_the_clients_own_bytes(proxy: Proxy) -> None:
    """Proxy rules 2, 30 and 31: a re-serialised request would break signatures and caches."""
    body = b'{ "model":"m",  "messages":[{"role":"user","content":"\\u00e9"}],"x":1.0 }'
    headers = {"anthropic-beta": "a-1,b-2", "x-claude-code-session-id": "s", "x-new": "1"}

    reply = await proxy.post(content=body, headers=headers)

    (sent,) = proxy.upstream.requests
    assert reply.status_code == 200
    assert sent.body == body
    assert sent.target == "/v1/messages?beta=true"
    assert sent.named["x-api-key"] == KEY
    assert sent.named["anthropic-beta"] == "a-1,b-2"
    assert sent.named["x-new"] == "1"
    assert sent.named["host"] == f"127.0.0.1:{proxy.upstream.port}"


async def test_what_is_kept_of_an_exchange_has_no_credentials(proxy: Proxy) -> None:
    """Proxy rule 30: credentials pass, and are never stored or logged."""
    secret = {"authorization": f"Bearer {KEY}", "cookie": f"a={KEY}", "x-goog-api-key": KEY}

    await proxy.post(headers=secret)

    exchange = await proxy.exchange()
    assert proxy.upstream.requests[0].named["authorization"] == f"Bearer {KEY}"
    assert KEY not in repr(exchange.headers)
    assert KEY not in json.dumps(proxy.traffic.status())


async def test_hop_by_hop_headers_end_at_the_proxy(proxy: Proxy) -> None:
    """RFC 9110, 7.6.1: they concern one connection, in both directions."""
    proxy.upstream.replies = [answer(headers=("connection: x-hop", "x-hop: 1", "x-kept: 1"))]

    reply = await proxy.post(headers={"connection": "x-mine", "x-mine": "1", "te": "trailers"})

    sent = proxy.upstream.requests[0].named
    assert "x-mine" not in sent
    assert "te" not in sent
    assert "x-hop" not in reply.headers
    assert reply.headers["x-kept"] == "1"


async def test_events_are_passed_on_before_the_answer_ends(proxy: Proxy) -> None:
    """Proxy rule 28: a stream that is buffered looks like a hang to the person at the agent."""
    gate, events = asyncio.Event(), anthropic_stream(cache_read_input_tokens=30)
    proxy.upstream.replies = [stream(*events, gate=gate)]
    received = b""

    async with proxy.client.stream("POST", MESSAGES, json=BODY) as reply:
        async for chunk in reply.aiter_raw():
            received += chunk
            if not gate.is_set():
                assert received == events[0]
                gate.set()

    assert received == b"".join(events)
    assert b"event: ping" in received


@pytest.mark.parametrize("coding", ["identity", "gzip", "zstd", "br"])
async def test_usage_is_read_on_the_way(proxy: Proxy, coding: str) -> None:
    """Proxy rule 28: message_start has the prompt's counts, message_delta the answer's."""
    body = b"".join(anthropic_stream(cache_read_input_tokens=30, cache_creation_input_tokens=2))
    packed = PACK.get(coding, bytes)(body)
    halves = (packed[: len(packed) // 2], packed[len(packed) // 2 :])
    proxy.upstream.replies = [stream(*halves, headers=(f"content-encoding: {coding}",))]

    async with proxy.client.stream("POST", MESSAGES, json=BODY) as reply:
        raw = b"".join([chunk async for chunk in reply.aiter_raw()])

    exchange = await proxy.exchange()
    assert raw == packed
    assert exchange.usage == Usage(
        input_tokens=5, cache_read_tokens=30, cache_written_tokens=2, output_tokens=7
    )
    assert exchange.model == "claude-sonnet-5-5"
    assert exchange.answer == body


async def test_openais_two_forms_of_usage_are_read(proxy: Proxy) -> None:
    """Proxy rules 28 and 29."""
    details = {"prompt_tokens_details": {"cached_tokens": 8}}
    chat = {
        "model": "gpt",
        "choices": [],
        "usage": {"prompt_tokens": 10, "completion_tokens": 3, **details},
    }
    counts = {"input_tokens": 10, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 8}}
    responses = {"type": "response.completed", "response": {"model": "gpt", "usage": counts}}
    proxy.upstream.replies = [
        stream(*sse(chat, named=False), b"data: [DONE]\n\n"),
        stream(*sse(responses)),
        answer(json.dumps({"object": "response", "model": "gpt", "usage": counts}).encode()),
    ]

    for path in ("/openai/v1/chat/completions", "/openai/v1/responses", "/v1/responses"):
        proxy.kept.ended.clear()
        await proxy.post(path)
        exchange = await proxy.exchange()
        assert exchange.usage == Usage(input_tokens=2, cache_read_tokens=8, output_tokens=3)


async def test_only_codings_that_can_be_read_are_accepted(proxy: Proxy) -> None:
    """Usage in an answer that cannot be read would be lost."""
    await proxy.post(headers={"accept-encoding": "gzip, deflate, br;q=0.5, zstd, compress"})

    assert "compress" not in proxy.upstream.requests[0].named["accept-encoding"]
    assert "gzip" in proxy.upstream.requests[0].named["accept-encoding"]


async def test_other_paths_pass_as_they_came(proxy: Proxy) -> None:
    """Proxy rule 25: what is not understood is not touched."""
    proxy.upstream.otherwise = answer(b"pong", status=418, kind="text/plain")

    async def chunks() -> AsyncIterator[bytes]:
        yield b"part one, "
        yield b"part two"

    paths = ["/anthropic/v1/files%2f?x=%20", "/openai/v1/files", "/api/hello", "/v1beta/models"]
    replies = [await proxy.client.post(path, content=chunks()) for path in paths]
    head = await proxy.client.head("/api/hello")

    sent = proxy.upstream.requests
    assert [reply.status_code for reply in replies] == [418] * 4
    assert replies[0].content == b"pong"
    assert [request.target for request in sent[:2]] == ["/v1/files%2f?x=%20", "/v1/files"]
    assert sent[0].body == b"part one, part two"
    assert (head.status_code, sent[-1].method, sent[-1].target) == (418, "HEAD", "/api/hello")
    assert proxy.kept.exchanges == []


async def test_a_path_of_no_provider_is_refused(proxy: Proxy) -> None:
    """No provider may receive the credentials of another one."""
    reply = await proxy.client.get("/v1/models", headers={"authorization": "Bearer sk"})

    assert reply.status_code == 404
    assert "/anthropic" in reply.json()["error"]["message"]
    assert proxy.upstream.requests == []


async def test_a_websocket_is_refused_cleanly(proxy: Proxy) -> None:
    """Proxy rule 29: Codex then falls back to HTTP."""
    upgrade = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}

    reply = await proxy.client.get("/openai/v1/responses", headers=upgrade)

    assert reply.status_code == 426
    assert reply.json()["error"]["message"].startswith("ctxmgr proxy: ")
    assert proxy.upstream.requests == []


@pytest.mark.parametrize(
    ("headers", "path", "status"),
    [
        ({"host": "evil.example"}, MESSAGES, 421),
        ({"host": "127.0.0.1.evil.example"}, MESSAGES, 421),
        ({"origin": "http://127.0.0.1:8322"}, MESSAGES, 421),
        ({"sec-fetch-site": "cross-site"}, MESSAGES, 421),
        ({}, "/anthropic/../x", 400),
    ],
)
async def test_requests_of_web_pages_are_refused(
    proxy: Proxy, headers: dict[str, str], path: str, status: int
) -> None:
    """DNS rebinding and cross-site requests: findings C1 and M6 of the servers, here too."""
    head = {"host": "127.0.0.1", "content-length": "2", **headers}
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items())]

    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write("\r\n".join([*lines, "", "{}"]).encode())
    first = await reader.readline()
    writer.close()

    assert first.split()[1] == str(status).encode()
    assert proxy.upstream.requests == []


@pytest.mark.parametrize(
    "path",
    [
        "/anthropic/v1/messages",
        "/wrong/anthropic/v1/messages",
        "/",
        "/ctxmgr/status",
        "/ctxmgr/status%0a",
    ],
)
async def test_with_a_token_every_other_path_is_refused(path: str) -> None:
    """Proxy rule 39; a path that nothing matches needs the token as well (finding C1)."""
    async with proxying(PassThrough(), token="t0ken") as proxy:
        refused = await proxy.client.post(path, json=BODY)
        passed = await proxy.post("/t0ken/anthropic/v1/messages")

    assert refused.status_code == 401
    assert passed.status_code == 200
    assert [request.target for request in proxy.upstream.requests] == ["/v1/messages"]


async def test_the_token_may_be_in_a_header_which_no_provider_gets() -> None:
    """Proxy rule 39: the base URL of Codex is in its arguments, which others can see."""
    async with proxying(PassThrough(), token="t0ken") as proxy:
        path = "/anthropic/v1/messages"
        passed = await proxy.client.post(path, json=BODY, headers={"x-ctxmgr-token": "t0ken"})
        wrong = await proxy.client.post(
            f"/t0ken{path}", json=BODY, headers={"x-ctxmgr-token": "another"}
        )
        exchange = await proxy.exchange()

    assert (passed.status_code, wrong.status_code) == (200, 401)
    [request] = proxy.upstream.requests
    assert request.target == "/v1/messages"
    assert "x-ctxmgr-token" not in request.named
    assert "x-ctxmgr-token" not in exchange.headers


async def test_a_client_that_disconnects_ends_the_request_to_the_provider(proxy: Proxy) -> None:
    """A person who presses Escape must not pay for the rest of the answer."""
    proxy.upstream.replies = [proxy.upstream.hang()]

    async with proxy.client.stream("POST", MESSAGES, json=BODY) as reply:
        await anext(reply.aiter_raw())

    async with asyncio.timeout(WAIT):
        await proxy.upstream.gone.wait()
    assert not (await proxy.exchange()).whole


async def test_an_answer_that_breaks_off_does_not_look_complete(proxy: Proxy) -> None:
    """The client must see that the end is missing, and retries."""
    proxy.upstream.replies = [cut(b"data: {}\n\n")]

    with pytest.raises(httpx.RemoteProtocolError):
        await proxy.post()

    assert not (await proxy.exchange()).whole
    assert proxy.traffic.status()["requests"]["cut"] == 1


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 529])
async def test_errors_of_the_provider_pass_as_they_are(proxy: Proxy, status: int) -> None:
    """Clients know what to do about their provider's errors."""
    body = b'{"type":"error","error":{"type":"overloaded_error","message":"not now"}}'
    proxy.upstream.replies = [answer(body, status=status, headers=("retry-after: 7",))]

    reply = await proxy.post()

    assert (reply.status_code, reply.content) == (status, body)
    assert reply.headers["retry-after"] == "7"
    assert len(proxy.upstream.requests) == 1


async def test_a_provider_that_cannot_be_reached_is_a_502() -> None:
    """The message names the address, in a form that both kinds of clients show."""
    async with proxying(PassThrough()) as proxy:
        await proxy.upstream.__aexit__()
        reply = await proxy.post()
        await proxy.upstream.__aenter__()

    assert reply.status_code == 502
    assert "cannot be reached" in reply.json()["error"]["message"]
    assert "reason=" in reply.headers["x-ctxmgr-proxy"]


async def test_an_address_that_is_too_long_is_a_502() -> None:
    """httpx refuses it before it connects; the message does not repeat all of it."""
    upstream = Upstream()
    with pytest.raises(UpstreamFailure) as failure:
        async with upstream.send("GET", "http://127.0.0.1/" + "a" * 70_000, headers=[], body=b""):
            pass
    await upstream.close()

    assert failure.value.status == 502
    assert len(str(failure.value)) < 1_000


def test_reasons_that_quote_a_request_are_bounded() -> None:
    """The status keeps few reasons, none of them long."""
    traffic = Traffic(describe=dict)
    for number in range(200):
        traffic.unshaped(reason=f"the name {number} {'a' * 100_000} occurs twice")

    unshaped = traffic.status()["requests"]["unshaped"]
    assert sum(unshaped.values()) == 200
    assert len(json.dumps(unshaped)) < 20_000


async def test_a_shaped_request_goes_out_and_says_so() -> None:
    """Proxy rules 31 and 34: one beta is added to those that the client sent."""
    engine = Shortening()
    async with proxying(engine) as proxy:
        proxy.upstream.replies = [stream(*anthropic_stream())]
        reply = await proxy.post(headers={"anthropic-beta": "a-1", "authorization": "Bearer x"})
        exchange = await proxy.exchange()

    sent = proxy.upstream.requests[0]
    assert sent.json == {"short": True}
    assert sent.named["content-length"] == str(len(sent.body))
    assert sent.named["anthropic-beta"] == "a-1,thinking-binding-controls-2026-08-01"
    assert reply.headers["x-ctxmgr-proxy"].startswith("shaped; ")
    assert json.loads(exchange.received) == BODY
    assert "authorization" not in engine.incoming[0].headers
    assert engine.heard == [("c1", 200, exchange.usage)]


async def test_after_a_400_the_original_goes_out_once() -> None:
    """Proxy rule 17: a mistake of the proxy must not stop the agent's work."""
    engine = Shortening()
    async with proxying(engine) as proxy:
        proxy.upstream.replies = [answer(b'{"error":"no"}', status=400), answer(b'{"ok":1}')]
        reply = await proxy.post()
        exchange = await proxy.exchange()

    assert reply.json() == {"ok": 1}
    assert "refused the shaped request" in reply.headers["x-ctxmgr-proxy"]
    assert [request.json for request in proxy.upstream.requests] == [{"short": True}, BODY]
    assert engine.heard == [("c1", 400, None), ("c1", 200, None)]
    assert exchange.refused == '{"error":"no"}'
    requests = proxy.traffic.status()["requests"]
    assert requests["unshaped"] == {"the provider refused the shaped request": 1}
    assert requests["shaped"] == 0


async def test_a_400_that_the_original_gets_as_well_is_not_blamed_on_shaping() -> None:
    """Rules 1 and 17: an empty account must not end shaping, which thinking is bound to."""
    engine = Shortening()
    async with proxying(engine) as proxy:
        proxy.upstream.replies = [answer(status=400), answer(b'{"bad":1}', status=400)]
        reply = await proxy.post()
        await proxy.exchange()

    assert (reply.status_code, reply.json()) == (400, {"bad": 1})
    assert [request.json for request in proxy.upstream.requests] == [{"short": True}, BODY]
    assert engine.heard == []


async def test_after_the_deadline_the_original_goes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxy rule 35: an agent does not wait for the proxy."""
    monkeypatch.setattr(application_module, "PREPARE_SECONDS_MAX", 0.001)
    async with proxying(Shortening(seconds=WAIT)) as proxy:
        reply = await proxy.post()

    assert proxy.upstream.requests[0].json == BODY
    assert "took longer than" in reply.headers["x-ctxmgr-proxy"]


@pytest.mark.parametrize("coding", ["gzip", "zstd", "br", "compress"])
async def test_a_compressed_request_is_read_and_passed_as_it_came(coding: str) -> None:
    """X6: Codex compresses requests; one that cannot be read passes, and the reason is shown."""
    raw = json.dumps(BODY).encode()
    packed = PACK.get(coding, bytes)(raw)
    async with proxying(PassThrough()) as proxy:
        reply = await proxy.post(content=packed, headers={"content-encoding": coding})
        exchange = await proxy.exchange()

    assert proxy.upstream.requests[0].body == packed
    assert proxy.upstream.requests[0].named["content-encoding"] == coding
    assert exchange.received == (b"" if coding == "compress" else raw)
    assert ("cannot be read" in reply.headers["x-ctxmgr-proxy"]) == (coding == "compress")


async def test_bodies_have_bounds(monkeypatch: pytest.MonkeyPatch, proxy: Proxy) -> None:
    """A body is refused when it is too large, also if it becomes so by decompression."""
    monkeypatch.setattr(application_module, "BODY_BYTES_MAX", 1_000)

    large = await proxy.post(content=b"x" * 1_001)
    bomb = await proxy.post(
        content=gzip.compress(b"x" * 100_000), headers={"content-encoding": "gzip"}
    )
    monkeypatch.setattr(application_module, "BODIES_BYTES_MAX", 10)
    many = await proxy.post()

    assert large.status_code == 413
    assert "too large" in bomb.headers["x-ctxmgr-proxy"]
    assert (many.status_code, many.headers["retry-after"]) == (503, "1")


async def test_two_hundred_streams_at_once_are_all_complete(proxy: Proxy) -> None:
    """None is lost, and none sees the bytes of another."""
    gate = asyncio.Event()
    started = 0

    async def one(number: int) -> bool:
        nonlocal started
        expected = b"".join(anthropic_stream(f"answer {number}"))
        received = b""
        body = {**BODY, "messages": [{"role": "user", "content": str(number)}]}
        async with client.stream("POST", MESSAGES, json=body) as reply:
            async for chunk in reply.aiter_raw():
                if not received:
                    started += 1
                    if started == 200:
                        gate.set()
                received += chunk
        return received.replace(b"answer x", f"answer {number}".encode()) == expected

    proxy.upstream.otherwise = stream(*anthropic_stream("answer x"), gate=gate)
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=str(proxy.client.base_url), timeout=2 * WAIT, limits=limits, trust_env=False
    ) as client:
        complete = await asyncio.gather(*map(one, range(200)))

    assert all(complete)
    assert len(proxy.kept.exchanges) == 200


async def test_the_status_shows_reasons_and_times(proxy: Proxy) -> None:
    """Proxy rule 34: shaping that did not happen is visible, with its reason."""
    await proxy.post()

    status = (await proxy.client.get("/ctxmgr/status")).json()

    assert status["requests"]["unshaped"] == {"nothing is shaped (record only)": 1}
    assert status["prepare_ms"]["p50"] >= 0


@pytest.mark.parametrize("streamed", [False, True])
async def test_no_answer_is_whole_before_what_was_sent_is_stored(*, streamed: bool) -> None:
    """Proxy rules 9 and 34: a crash forgets nothing that a client has received an answer to."""
    stored = asyncio.Event()

    class Storing(Shortening):
        async def stored(self, conversation: str) -> bool:
            assert conversation == "c1"
            await stored.wait()
            return self.is_stored

    async with proxying(Storing(is_stored=False)) as proxy:
        if streamed:
            proxy.upstream.replies = [stream(b"data: 1\n\n", b"data: 2\n\n")]
        pending = asyncio.create_task(proxy.post())
        async with asyncio.timeout(WAIT):
            while not proxy.upstream.requests:  # noqa: ASYNC110 (a list has no event)
                await asyncio.sleep(0.005)
        assert not pending.done()
        stored.set()
        reply = await pending

    assert reply.status_code == 200
    assert proxy.traffic.status()["requests"]["unstored"] == 1


@pytest.mark.parametrize("coding", ["gzip", "zstd", "br"])
async def test_an_answer_that_decompresses_to_much_is_read_within_bounds(coding: str) -> None:
    """A provider's answer of 60 KB was split into 64 million lines: gigabytes, and minutes."""
    bomb = PACK[coding](b"\n" * 64 * 1024 * 1024)
    headers = (f"content-encoding: {coding}",)
    async with proxying(PassThrough()) as proxy:
        proxy.upstream.replies.append(answer(bomb, headers=headers, kind="text/event-stream"))
        began = time.process_time()
        tracemalloc.start()
        await proxy.client.send(
            proxy.client.build_request("POST", MESSAGES, json=BODY), stream=True
        )
        exchange = await proxy.exchange()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    assert not exchange.whole  # the copy is not, its first 16 MB are
    assert peak < 80 * 1024 * 1024
    assert time.process_time() - began < 5


def test_usage_is_found_wherever_the_pieces_of_a_stream_are_cut() -> None:
    """Lines that report nothing are skipped without being split."""
    events = b"".join(anthropic_stream()) + b"\n" * 9 + b'x "usage"\n"usage"\n'
    whole = UsageReader(streamed=True)
    whole.feed(events)
    for size in (1, 2, 7, 50):
        reader = UsageReader(streamed=True)
        for start in range(0, len(events), size):
            reader.feed(events[start : start + size])
        assert (reader.usage(), reader.model) == (whole.usage(), whole.model)
    assert whole.usage() is not None


async def test_what_a_request_decompresses_to_counts_as_held(
    monkeypatch: pytest.MonkeyPatch, proxy: Proxy
) -> None:
    """Forty requests of 60 KB took 2.6 GB; and what was refused is not held any more."""
    monkeypatch.setattr(application_module, "BODIES_BYTES_MAX", 100_000)
    padded = json.dumps({**BODY, "x": " " * 200_000}).encode()
    packed = gzip.compress(padded)
    assert len(packed) < 1_000

    refused = [
        await proxy.post(content=packed, headers={"content-encoding": "gzip"}) for _ in range(3)
    ]
    accepted = await proxy.post()

    assert [(each.status_code, each.headers["retry-after"]) for each in refused] == [(503, "1")] * 3
    assert accepted.status_code == 200


async def test_a_status_that_does_not_exist_is_a_502(proxy: Proxy) -> None:
    """The server that answers the client knows none above 599."""
    proxy.upstream.replies += [answer(status=999), answer(status=999)]

    understood, passed = await proxy.post(), await proxy.client.get("/anthropic/v1/models")

    assert [understood.status_code, passed.status_code] == [502, 502]
    assert "invalid status 999" in understood.text


async def test_a_request_with_both_lengths_is_forwarded_with_one(proxy: Proxy) -> None:
    """Two readers that choose differently let one request carry another (RFC 9112, 6.1)."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(
        b"POST /anthropic/v1/files HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 3\r\n"
        b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    )
    async with asyncio.timeout(WAIT):
        reply = await reader.read()
    writer.close()

    assert reply.startswith(b"HTTP/1.1 200")
    (received,) = proxy.upstream.requests
    assert received.body == b"hello"
    assert "content-length" not in received.named


@pytest.mark.parametrize("path", ["..%2fx", "%2e%2E%2Fx", "..\\x", "..;/x", "a/..%5cx"])
async def test_a_path_that_some_servers_resolve_is_refused(path: str) -> None:
    """It would leave the part of a provider that its address names."""
    with pytest.raises(RequestRefused, match="invalid path"):
        ProxyGuard().admitted_path(f"/chatgpt/{path}", {"host": "127.0.0.1"})
    assert ProxyGuard().admitted_path("/openai/v1/a..b/%2e%2e.c", {"host": "127.0.0.1"})
