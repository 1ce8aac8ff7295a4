"""The server as a process: how it ends, what it lacks, and whatever anybody may send it."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import schemathesis
from click.testing import Result
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

from tests.surfaces.http.servers import CTXMGR, WAIT_SECONDS, Server, serving
from tests.surfaces.worked_sessions import Worked, json_of, work_three_turns

EXAMPLES = 6
"""For each path and method, of which there are more than thirty."""


@pytest.fixture
async def local(home: Path) -> Worked:
    return await work_three_turns(f"sqlite:///{home}/sessions.db", home / "project")


@pytest.fixture
def server(local: Worked) -> Iterator[Server]:
    with serving(local.url) as running:
        yield running


def test_a_write_that_was_begun_is_finished(
    server: Server, local: Worked, ctxmgr: Callable[..., Result]
) -> None:
    """It says that it has begun (100 Continue), is told to end, and answers all the same."""
    body = f'{{"session": "{local.sid}", "object_id": "{local.notes}"}}'.encode()
    place = urlsplit(server.url)
    assert place.hostname
    assert place.port
    with socket.create_connection((place.hostname, place.port), WAIT_SECONDS) as connection:
        connection.sendall(_HEAD % (place.netloc.encode(), len(body)))
        assert connection.recv(1000).startswith(b"HTTP/1.1 100")
        server.process.send_signal(signal.SIGTERM)
        _wait_until_nobody_listens(place.hostname, place.port)
        connection.sendall(body)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))

    assert answer.startswith(b"HTTP/1.1 200")
    assert server.process.wait(WAIT_SECONDS) == 143
    words = ("show", local.notes, "--session", local.sid, "--json", "--store", local.url)
    shown = json_of(ctxmgr(*words))
    assert shown["pinned"] is True


_HEAD = (
    b"POST /pin HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
)


def _wait_until_nobody_listens(host: str, port: int) -> None:
    while True:
        try:
            socket.create_connection((host, port), WAIT_SECONDS).close()
        except ConnectionError:
            return


def test_interrupting_it_ends_it_in_order(server: Server) -> None:
    """Ctrl-C is how a person ends it."""
    server.process.send_signal(signal.SIGINT)

    assert server.process.wait(WAIT_SECONDS) == 130


def test_a_port_that_is_taken_is_one_clear_line(server: Server, local: Worked) -> None:
    """Somebody started it twice."""
    port = server.url.rpartition(":")[2]
    words = ("serve", "--port", port, "--store", local.url)

    done = subprocess.run([*CTXMGR, *words], capture_output=True, check=False, timeout=WAIT_SECONDS)

    assert done.returncode == 6
    assert f"cannot listen on 127.0.0.1:{port}".encode() in done.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [(("--port", "99999"), "--port must be 0 to"), (("--rate", "0"), "--rate must be at least 1")],
)
def test_wrong_flags_are_the_callers_fault(
    ctxmgr: Callable[..., Result], local: Worked, flags: tuple[str, str], message: str
) -> None:
    """Before anything listens."""
    result = ctxmgr("serve", *flags, "--store", local.url)

    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize("days", ["0", "99999"])
def test_a_token_holds_for_a_while_and_not_for_ever(
    ctxmgr: Callable[..., Result], days: str
) -> None:
    """What never ends is never looked after."""
    assert ctxmgr("token", "--days", days).exit_code == 2


def test_without_the_extra_it_says_what_to_install(home: Path) -> None:
    """Who does not serve need not install a server."""
    script = (
        "import sys; sys.modules['uvicorn'] = None\n"
        "from ctxmgr.surfaces.terminal.cli import COMMANDS; COMMANDS.main(['serve'])"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=False, env=dict(os.environ)
    )

    assert done.returncode == 2
    assert b"pip install 'ctxmgr[serve]'" in done.stderr


def test_nothing_that_anybody_sends_is_the_servers_fault(server: Server, local: Worked) -> None:
    """The whole description, with right and wrong values: no 5xx, and answers as described."""
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    names = [local.sid, local.notes, f"chat:{local.sid}", f"{local.sid}-1", "/workspace/notes.md"]
    asked = []

    for result in schema.get_all_operations():
        operation = result.ok()
        asked.append(operation.label)
        _send(operation, names)

    assert "GET /events" in asked
    assert "POST /activate" in asked
    assert len(asked) > 25


def _send(operation: Any, names: list[str]) -> None:
    """Send generated requests, some of them about what is there."""
    modes = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]
    cases = st.one_of([operation.as_strategy(generation_mode=mode) for mode in modes])

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases, name=st.sampled_from([None, *names]))
    def send(case: Any, name: str | None) -> None:
        given_values = case.body if case.method == "POST" else case.query
        if name is not None and isinstance(given_values, dict):
            known = {"session": names[0], "name": name, "object_id": name}
            given_values.update({key: known[key] for key in known if key in given_values})
        if case.path == "/events":
            case.query = {**(case.query or {}), "follow": "false"}
        response = case.call(timeout=WAIT_SECONDS)
        assert response.status_code < 500, response.text
        case.validate_response(response, checks=[_is_described])

    send()


def _is_described(ctx: Any, response: Any, case: Any) -> None:
    """Hold the status to the description."""
    described = case.operation.definition.raw["responses"]
    assert str(response.status_code) in described, (response.status_code, response.text)
