"""Attempts to bypass the access control of the HTTP server."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import uvicorn
from click.testing import Result
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from ctxmgr.surfaces.catalogue.operations import OPERATIONS
from ctxmgr.surfaces.http.api import offered_operations
from ctxmgr.surfaces.http.connections import (
    HEADER_SECONDS_MAX,
    UNFINISHED_MAX,
    DeadlineProtocol,
)
from ctxmgr.surfaces.http.openapi import EVENTS_PATH, path_of
from ctxmgr.surfaces.http.server import CONNECTIONS_MAX
from tests.surfaces.http.servers import Server, serving
from tests.surfaces.worked_sessions import Worked, json_of, work_three_turns

Run = Callable[..., Result]
DATA_PATHS = [*(path_of(operation) for operation in offered_operations(OPERATIONS)), EVENTS_PATH]
SUFFIXES = ("%0a", "%0d", "%0d%0a", "%00", "%20", "/", "//", "/.", "%2f", ";a", "%3f", "%09")


@pytest.fixture
async def local(home: Path) -> Worked:
    return await work_three_turns(f"sqlite:///{home}/sessions.db", home / "project")


@pytest.fixture
def guarded(local: Worked, ctxmgr: Run) -> Iterator[Server]:
    """A server that requires tokens on loopback too."""
    json_of(ctxmgr("token", "--json"))
    with serving(local.url, "--require-token") as running:
        yield running


@pytest.fixture
def unguarded(local: Worked) -> Iterator[Server]:
    with serving(local.url) as running:
        yield running


def test_no_spelling_of_a_path_bypasses_the_token(guarded: Server) -> None:
    """The router accepts several spellings of a path; all of them need a grant."""
    spellings = [
        *(path + suffix for path in DATA_PATHS for suffix in ("", *SUFFIXES)),
        *("/" + path for path in DATA_PATHS),
        *(path.upper() for path in DATA_PATHS),
        *(path.replace("s", "%73", 1) for path in DATA_PATHS),
    ]

    with httpx.Client() as client:
        statuses = {
            (method, path): client.request(method, guarded.url + path).status_code
            for path in spellings
            for method in ("GET", "POST")
        }

    assert {asked: status for asked, status in statuses.items() if status != 401} == {}


PREFIXES = ("/./", "/../", "/x/../", "/%2e%2e/", "/..%2f", "/%5c", "/app.js/../", "/app.js%2f..%2f")
ABSOLUTE = ("http://127.0.0.1/", "http://elsewhere.example/", "//elsewhere.example/")
METHODS = ("GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "get")


def test_no_request_target_gets_around_the_token(guarded: Server) -> None:
    """Dot segments, absolute targets, other methods and upgrades, as a client library refuses."""
    targets = [
        *(prefix + path[1:] for prefix in (*PREFIXES, *ABSOLUTE) for path in DATA_PATHS),
        *(f"{path}?session=x" for path in DATA_PATHS),
        *(f"/app.js{suffix}" for suffix in ("%0a", "/", "%00", "/../sessions", "%2f..%2fsessions")),
    ]
    requests = [("GET", target) for target in targets]
    requests += [(method, path) for method in METHODS for path in DATA_PATHS]

    statuses = {
        (method, target): status_of(guarded, f"{method} {target} HTTP/1.1", "Host: 127.0.0.1")
        for method, target in requests
    }

    assert {asked: status for asked, status in statuses.items() if status not in (400, 401)} == {}


@pytest.mark.parametrize(
    "header",
    [
        "Upgrade: websocket\r\nSec-WebSocket-Key: eA==\r\nSec-WebSocket-Version: 13",
        "X-Original-URL: /app.js",
        "X-Forwarded-For: 127.0.0.1",
        "X-HTTP-Method-Override: GET",
        "Authorization: Basic YTpi",
        "Authorization: Bearer",
        "Authorization: Bearer \t ",
        "Authorization: Bearer ctxmgr_a.b",
        "Authorization: Bearer x\r\nAuthorization: Bearer y",
        "Transfer-Encoding: chunked",
    ],
)
def test_no_header_gets_around_the_token(guarded: Server, header: str) -> None:
    """What a proxy or another protocol would understand is not a token."""
    assert status_of(guarded, "GET /sessions HTTP/1.1", f"Host: 127.0.0.1\r\n{header}") == 401


def status_of(server: Server, request: str, headers: str) -> int:
    """Send a request as it is written, and return the status."""
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=10) as connection:
        connection.sendall(f"{request}\r\n{headers}\r\nConnection: close\r\n\r\n".encode())
        return int(connection.makefile("rb").readline().split()[1])


def test_unread_responses_keep_nobody_out() -> None:
    """A client that asks and never reads would hold its connection for ever."""

    async def ask_and_wait() -> bool:
        closed = asyncio.Event()

        class Watched(DeadlineProtocol):
            def connection_lost(self, exc: Exception | None) -> None:
                super().connection_lost(exc)
                closed.set()

        protocol = Watched(
            config=uvicorn.Config(_endless, lifespan="off", log_config=None),
            server_state=ServerState(),
            app_state={},
        )
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: protocol, "127.0.0.1", 0)
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(30):
            await closed.wait()
        writer.close()
        server.close()
        return True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ctxmgr.surfaces.http.connections.UNREAD_SECONDS_MAX", 0.2)
        assert asyncio.run(ask_and_wait())


async def _endless(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while True:
        await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
        await asyncio.sleep(0)


def test_only_listed_paths_are_public(guarded: Server) -> None:
    """The page and the description of the API hold no data."""
    statuses = [guarded.get(path).status_code for path in ("/", "/app.js", "/openapi.json")]

    assert statuses == [200, 200, 200]
    assert guarded.get("/no-such-file").status_code == 401


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_requests_embedded_by_another_site_are_refused(unguarded: Server, site: str) -> None:
    """An embedded image sends no Origin, but could still distinguish 200 from 404."""
    embedded = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors"}
    followed = {"sec-fetch-site": site, "sec-fetch-mode": "navigate"}

    assert httpx.get(f"{unguarded.url}/sessions", headers=embedded).status_code == 421
    assert httpx.get(f"{unguarded.url}/app.js", headers=embedded).status_code == 421
    assert httpx.get(f"{unguarded.url}/sessions", headers=followed).status_code == 421
    assert httpx.get(f"{unguarded.url}/", headers=followed).status_code == 200


def test_no_response_is_readable_by_another_site(unguarded: Server) -> None:
    """Headers forbid browsers to guess types or to share the response."""
    for path in ("/sessions", "/", "/no-such-file", "/context?session=absent"):
        headers = httpx.get(unguarded.url + path).headers

        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"


def test_unfinished_headers_do_not_block_other_clients(unguarded: Server) -> None:
    """There are more connections than the server accepts, none with a complete header."""
    address = urlsplit(unguarded.url)
    with ExitStack() as stack:
        for _ in range(CONNECTIONS_MAX + 100):
            connection = socket.create_connection((address.hostname, address.port), timeout=60)
            stack.enter_context(connection)
            connection.sendall(b"GET / HTTP/1.1\r\nHost: 127")

        assert unguarded.get("/sessions").status_code == 200


def test_a_header_has_a_deadline(unguarded: Server) -> None:
    """The server closes a connection that sends no request."""
    address = urlsplit(unguarded.url)
    wait = HEADER_SECONDS_MAX + 5
    with socket.create_connection((address.hostname, address.port), timeout=wait) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: 127")

        assert connection.recv(1) == b""
    assert UNFINISHED_MAX < CONNECTIONS_MAX
