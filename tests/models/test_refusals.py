"""Servers that do not answer: what is retried, what is not, and what the error says."""

import asyncio
import socket
from datetime import UTC, datetime

import pytest

from ctxmgr.errors import Denied, Incorrect, ModelUnavailable
from ctxmgr.models.faults import MESSAGE_LENGTH_MAX, parse_retry_after
from ctxmgr.models.open_model import HttpModel, open_model
from ctxmgr.models.transport import RETRY_AFTER_MAX_S, TRIES_MAX
from tests.models.model_server import APIS, KEY, ModelServer, refuse, says
from tests.models.requests import make_model, read_parts, stream_parts
from tests.models.wire import Text

HELLO = says(Text("Hello"))


async def test_a_rate_limit_is_retried_when_the_server_asks(
    server: ModelServer, model: HttpModel, waits: list[float]
) -> None:
    """An earlier request would count against the limit."""
    server.script(refuse(429, "Retry-After: 7"), HELLO)

    text, _, _ = read_parts(await stream_parts(model))

    assert text == "Hello"
    assert waits == [7.0]


@pytest.mark.parametrize("status", [408, 500, 502, 503, 529])
async def test_temporary_errors_are_retried(
    server: ModelServer, model: HttpModel, waits: list[float], status: int
) -> None:
    """The user should not see them; the pauses grow."""
    server.script(refuse(status), refuse(status), HELLO)

    text, _, _ = read_parts(await stream_parts(model))

    assert text == "Hello"
    assert len(server.requests) == 3
    assert 0 < waits[0] <= 1 < 2 * waits[1] <= 4


async def test_retries_are_limited(server: ModelServer, model: HttpModel) -> None:
    """The error contains the last message of the server."""
    server.script(*[refuse(529)] * (TRIES_MAX + 1))

    with pytest.raises(ModelUnavailable, match="answered 529: not now"):
        await stream_parts(model)

    assert len(server.requests) == TRIES_MAX


async def test_a_wait_that_is_too_long_is_an_error(
    server: ModelServer, model: HttpModel, waits: list[float]
) -> None:
    """An hour's silence in a terminal looks like a fault of ours."""
    server.script(refuse(429, f"Retry-After: {RETRY_AFTER_MAX_S + 1}"), HELLO)

    with pytest.raises(ModelUnavailable, match="asks to wait 121 s"):
        await stream_parts(model)

    assert waits == []


async def test_a_refused_key_is_denied_and_never_shown(
    server: ModelServer, model: HttpModel
) -> None:
    """Some servers repeat the key in their message."""
    server.script(refuse(401, body=f'{{"error": {{"message": "bad key {KEY}"}}}}'))

    with pytest.raises(Denied, match="answered 401: bad key …; check the API key") as denied:
        await stream_parts(model)

    assert KEY not in repr(denied.value)
    assert len(server.requests) == 1


async def test_an_empty_account_is_not_a_rate_limit(server: ModelServer, model: HttpModel) -> None:
    """It has the same status, but waiting does not help."""
    server.script(refuse(429, body='{"error": {"code": "insufficient_quota", "message": "pay"}}'))

    with pytest.raises(Denied, match="pay"):
        await stream_parts(model)


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (400, '{"error": {"message": "prompt is too long"}}', "400: prompt is too long"),
        (404, '{"detail": "no such model"}', "404: no such model; check the model's name"),
        (422, '{"detail": [{"loc": "tools"}]}', "422: .*tools"),
        (413, "<html>too large</html>", "413: <html>too large</html>"),
        (400, '{"error": "' + "long " * 1_000 + '"}', "long …|long…"),
    ],
)
async def test_a_rejected_request_shows_the_servers_message(
    server: ModelServer, model: HttpModel, status: int, body: str, message: str
) -> None:
    """It is not retried; the message is shortened to a line."""
    server.script(refuse(status, body=body))

    with pytest.raises(Incorrect, match=message) as incorrect:
        await stream_parts(model)

    assert len(str(incorrect.value)) < 700
    assert len(server.requests) == 1


async def test_a_redirect_is_reported_and_not_followed(
    server: ModelServer, model: HttpModel
) -> None:
    """Following it would send the key to another server."""
    server.script(refuse(301, "Location: https://elsewhere.example"))

    with pytest.raises(Incorrect, match=r"redirects to 'https://elsewhere\.example'"):
        await stream_parts(model)


@pytest.mark.parametrize("api", APIS)
async def test_a_server_that_does_not_run_is_unavailable(api: str, waits: list[float]) -> None:
    """It is retried, and the message contains the address."""

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    server = ModelServer(port=_free_port())
    async with make_model(api, server, wait=wait) as model:
        with pytest.raises(ModelUnavailable, match=f"127.0.0.1:{server.port}.*cannot be reached"):
            await stream_parts(model)

    assert len(waits) == TRIES_MAX - 1


async def test_a_web_page_is_not_an_answer() -> None:
    """It usually means a wrong base URL."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi")
        await writer.drain()
        writer.close()

    page = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with page:
        server = ModelServer(port=page.sockets[0].getsockname()[1])
        async with make_model("openai", server) as model:
            refusal = "did not answer with server-sent events; check the base URL"
            with pytest.raises(ModelUnavailable, match=refusal):
                await stream_parts(model)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("3", 3.0),
        ("0.5", 0.5),
        ("-3", None),
        ("Tue, 17 Nov 2026 10:00:30 GMT", 30.0),
        ("Tue, 17 Nov 2026 09:00:00 GMT", 0.0),
        ("soon", None),
        ("nan", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str | None, seconds: float | None) -> None:
    """Other values are ignored."""
    now = datetime(2026, 11, 17, 10, tzinfo=UTC)

    assert parse_retry_after(value, now=now) == seconds


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"api": "anthropic"}, "needs an API key: set ANTHROPIC_API_KEY"),
        ({"api": "openai"}, "needs an API key: set OPENAI_API_KEY"),
        ({"api": "telepathy"}, r"unknown model API 'telepathy' \(one of: anthropic, openai\)"),
        (
            {"api": "openai", "base_url": "localhost:8000"},
            "invalid base URL .* it must begin with https",
        ),
        ({"api": "openai", "base_url": "http://host:port"}, "invalid base URL"),
        ({"api": "openai", "name": "", "key": "k"}, "the name of the model is empty"),
    ],
)
def test_invalid_options_are_rejected_at_once(options: dict[str, str], message: str) -> None:
    """The error comes before a session is started."""
    arguments = {"name": "m", "key": None, **options}

    with pytest.raises(Incorrect, match=message):
        open_model(arguments.pop("name") or "", **arguments)


async def test_the_key_is_sent_in_the_header_of_its_api(
    server: ModelServer, model: HttpModel
) -> None:
    """It is not in the body of the request."""
    server.script(HELLO)

    await stream_parts(model)

    (request,) = server.requests
    sent = request.headers.get("x-api-key") or request.headers.get("authorization")
    assert sent in {KEY, f"Bearer {KEY}"}
    assert KEY not in request.text


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.parametrize("key", ["secret-key\n", "secret key", "sécret-key", "secret-key\x00", ""])
@pytest.mark.parametrize("api", APIS)
def test_a_key_that_is_not_a_valid_header_is_rejected_and_not_repeated(api: str, key: str) -> None:
    """The HTTP library would repeat it in its error message."""
    with pytest.raises(Incorrect, match="API key") as incorrect:
        open_model("m", api=api, key=key, base_url=None if not key else "http://127.0.0.1:9")

    assert "cret" not in str(incorrect.value)


async def test_no_part_of_a_key_is_shown(server: ModelServer, model: HttpModel) -> None:
    """A server's message is shortened, possibly in the middle of the key."""
    message = "x" * (MESSAGE_LENGTH_MAX - 5) + KEY
    server.script(refuse(401, body=message))

    with pytest.raises(Denied) as denied:
        await stream_parts(model)

    assert KEY[:4] not in str(denied.value)
