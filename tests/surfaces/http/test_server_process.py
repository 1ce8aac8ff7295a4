"""The server as a process: shutdown, missing packages, and arbitrary requests."""

import signal
import socket
import subprocess
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

EXAMPLES = 3
"""Examples for each path and method, of which there are more than thirty."""


@pytest.fixture
async def local(home: Path) -> Worked:
    return await work_three_turns(f"sqlite:///{home}/sessions.db", home / "project")


@pytest.fixture
def server(local: Worked) -> Iterator[Server]:
    with serving(local.url) as running:
        yield running


def test_a_write_in_progress_is_completed_on_shutdown(
    server: Server, local: Worked, ctxmgr: Callable[..., Result]
) -> None:
    """The server has sent 100 Continue, is asked to stop, and still completes the request."""
    body = f'{{"session": "{local.sid}", "object_id": "{local.notes}"}}'.encode()
    address = urlsplit(server.url)
    assert address.hostname
    assert address.port
    with socket.create_connection((address.hostname, address.port), WAIT_SECONDS) as connection:
        connection.sendall(_HEAD % (address.netloc.encode(), len(body)))
        assert connection.recv(1000).startswith(b"HTTP/1.1 100")
        server.process.send_signal(signal.SIGTERM)
        _wait_until_not_listening(address.hostname, address.port)
        connection.sendall(body)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))

    assert answer.startswith(b"HTTP/1.1 200")
    assert server.process.wait(WAIT_SECONDS) == 143
    words = ("show", local.notes, "--session", local.sid, "--json", "--store", local.url)
    after = json_of(ctxmgr(*words))
    assert after["pinned"] is True


_HEAD = (
    b"POST /pin HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
)


def _wait_until_not_listening(host: str, port: int) -> None:
    while True:
        try:
            socket.create_connection((host, port), WAIT_SECONDS).close()
        except ConnectionError:
            return


def test_an_interrupt_shuts_it_down_cleanly(server: Server) -> None:
    """Users stop it with Ctrl-C."""
    server.process.send_signal(signal.SIGINT)

    assert server.process.wait(WAIT_SECONDS) == 130


def test_a_port_in_use_is_one_clear_line(server: Server, local: Worked) -> None:
    """It is easy to start it twice."""
    port = server.url.rpartition(":")[2]
    words = ("serve", "--port", port, "--store", local.url)

    done = subprocess.run([*CTXMGR, *words], capture_output=True, check=False, timeout=WAIT_SECONDS)

    assert done.returncode == 6
    assert f"port {port} is in use; use --port 0".encode() in done.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [(("--port", "99999"), "--port must be 0 to"), (("--rate", "0"), "--rate must be at least 1")],
)
def test_wrong_flags_are_the_callers_fault(
    ctxmgr: Callable[..., Result], local: Worked, flags: tuple[str, str], message: str
) -> None:
    """They are reported before anything listens."""
    result = ctxmgr("serve", *flags, "--store", local.url)

    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize("days", ["0", "99999"])
def test_a_token_has_a_limited_lifetime(ctxmgr: Callable[..., Result], days: str) -> None:
    """Tokens that never expire are forgotten."""
    assert ctxmgr("token", "--days", days).exit_code == 2


def test_no_request_causes_a_server_error(server: Server, local: Worked) -> None:
    """Valid and invalid requests from the whole description: no 5xx, and documented responses."""
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
    """Send generated requests, some of them about existing objects."""
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
            existing = {"session": names[0], "name": name, "object_id": name}
            given_values.update({key: existing[key] for key in existing if key in given_values})
        if case.path == "/events":
            case.query = {**(case.query or {}), "follow": "false"}
        response = case.call(timeout=WAIT_SECONDS)
        assert response.status_code < 500, response.text
        case.validate_response(response, checks=[_is_described])

    send()


def _is_described(ctx: Any, response: Any, case: Any) -> None:
    """Check the status against the description."""
    described = case.operation.definition.raw["responses"]
    assert str(response.status_code) in described, (response.status_code, response.text)
