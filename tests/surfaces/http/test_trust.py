"""Attempts to bypass the access control of the HTTP server."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from click.testing import Result

from ctxmgr.surfaces.catalogue import OPERATIONS
from ctxmgr.surfaces.http.api import offered_operations
from ctxmgr.surfaces.http.connections import HEADER_SECONDS_MAX, UNFINISHED_MAX
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
            connection = socket.create_connection((address.hostname, address.port), timeout=5)
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
