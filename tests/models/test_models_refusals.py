"""Servers that do not answer: what is tried again, what is not, and what a person is told."""

import asyncio
import socket
from datetime import UTC, datetime

import pytest

from ctxmgr.errors import Denied, Incorrect, ModelUnavailable
from ctxmgr.models.choice import HttpModel, open_model
from ctxmgr.models.faults import WORDS_MAX, retry_after
from ctxmgr.models.transport import RETRY_AFTER_MAX_S, TRIES_MAX
from tests.models.asking import made, pieces_of, told
from tests.models.model_server import APIS, KEY, ModelServer, refuse, says
from tests.models.wire import Text

HELLO = says(Text("Hello"))


async def test_a_rate_limit_is_waited_for_as_long_as_the_server_asks(
    server: ModelServer, model: HttpModel, waits: list[float]
) -> None:
    """Trying sooner would only be counted against us."""
    server.script(refuse(429, "Retry-After: 7"), HELLO)

    text, _, _ = told(await pieces_of(model))

    assert text == "Hello"
    assert waits == [7.0]


@pytest.mark.parametrize("status", [408, 500, 502, 503, 529])
async def test_what_may_pass_is_tried_again(
    server: ModelServer, model: HttpModel, waits: list[float], status: int
) -> None:
    """A person should not see a hiccup; the pauses grow."""
    server.script(refuse(status), refuse(status), HELLO)

    text, _, _ = told(await pieces_of(model))

    assert text == "Hello"
    assert len(server.requests) == 3
    assert 0 < waits[0] <= 1 < 2 * waits[1] <= 4


async def test_tries_have_an_end(server: ModelServer, model: HttpModel) -> None:
    """The error says what the server said last."""
    server.script(*[refuse(529)] * (TRIES_MAX + 1))

    with pytest.raises(ModelUnavailable, match="answered 529: not now"):
        await pieces_of(model)

    assert len(server.requests) == TRIES_MAX


async def test_a_wait_that_is_too_long_is_left_to_the_person(
    server: ModelServer, model: HttpModel, waits: list[float]
) -> None:
    """An hour's silence in a terminal looks like a fault of ours."""
    server.script(refuse(429, f"Retry-After: {RETRY_AFTER_MAX_S + 1}"), HELLO)

    with pytest.raises(ModelUnavailable, match="asks to wait 121 s"):
        await pieces_of(model)

    assert waits == []


async def test_a_refused_key_is_denied_and_never_shown(
    server: ModelServer, model: HttpModel
) -> None:
    """Some servers repeat the key in their answer."""
    server.script(refuse(401, body=f'{{"error": {{"message": "bad key {KEY}"}}}}'))

    with pytest.raises(Denied, match="answered 401: bad key …; check the API key") as denied:
        await pieces_of(model)

    assert KEY not in repr(denied.value)
    assert len(server.requests) == 1


async def test_an_empty_account_is_no_rate_limit(server: ModelServer, model: HttpModel) -> None:
    """It has the same status, and waiting fills no account."""
    server.script(refuse(429, body='{"error": {"code": "insufficient_quota", "message": "pay"}}'))

    with pytest.raises(Denied, match="pay"):
        await pieces_of(model)


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (400, '{"error": {"message": "prompt is too long"}}', "400: prompt is too long"),
        (404, '{"detail": "no such model"}', "404: no such model; check the model's name"),
        (422, '{"detail": [{"loc": "tools"}]}', "422: .*tools"),
        (413, "<html>too large</html>", "413: <html>too large</html>"),
        (400, '{"error": "' + "long " * 1_000 + '"}', "long …|long…"),
    ],
)
async def test_a_wrong_request_is_told_in_the_servers_words(
    server: ModelServer, model: HttpModel, status: int, body: str, said: str
) -> None:
    """Trying it again would not help; the words are cut to what fits a line."""
    server.script(refuse(status, body=body))

    with pytest.raises(Incorrect, match=said) as incorrect:
        await pieces_of(model)

    assert len(str(incorrect.value)) < 700
    assert len(server.requests) == 1


async def test_an_address_that_moved_says_where_to(server: ModelServer, model: HttpModel) -> None:
    """Following it would send the key to whoever is named there."""
    server.script(refuse(301, "Location: https://elsewhere.example"))

    with pytest.raises(Incorrect, match=r"leads to 'https://elsewhere\.example'"):
        await pieces_of(model)


@pytest.mark.parametrize("api", APIS)
async def test_a_server_that_is_not_there_is_unavailable(api: str, waits: list[float]) -> None:
    """The same after all tries as after one, and the message names the address."""

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    server = ModelServer(port=_free_port())
    async with made(api, server, wait=wait) as model:
        with pytest.raises(ModelUnavailable, match=f"127.0.0.1:{server.port}.*cannot be reached"):
            await pieces_of(model)

    assert len(waits) == TRIES_MAX - 1


async def test_a_web_page_is_no_answer() -> None:
    """The usual sign of a wrong base URL."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi")
        await writer.drain()
        writer.close()

    page = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with page:
        server = ModelServer(port=page.sockets[0].getsockname()[1])
        async with made("openai", server) as model:
            with pytest.raises(ModelUnavailable, match="no stream of events: check the base URL"):
                await pieces_of(model)


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
def test_how_long_to_wait_is_read_in_both_forms(value: str | None, seconds: float | None) -> None:
    """Seconds or a date; what is neither is as good as nothing."""
    now = datetime(2026, 11, 17, 10, tzinfo=UTC)

    assert retry_after(value, now=now) == seconds


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"api": "anthropic"}, "needs an API key: set ANTHROPIC_API_KEY"),
        ({"api": "openai"}, "needs an API key: set OPENAI_API_KEY"),
        ({"api": "telepathy"}, "'telepathy' is no model API; known: anthropic, openai"),
        ({"api": "openai", "base_url": "localhost:8000"}, "is no base URL; one begins with https"),
        ({"api": "openai", "base_url": "http://host:port"}, "is no base URL"),
        ({"api": "openai", "name": "", "key": "k"}, "a model needs a name"),
    ],
)
def test_what_cannot_be_a_model_is_refused_at_once(options: dict[str, str], said: str) -> None:
    """Before a session is started for it."""
    given = {"name": "m", "key": None, **options}

    with pytest.raises(Incorrect, match=said):
        open_model(given.pop("name") or "", **given)


async def test_the_key_goes_where_its_api_wants_it(server: ModelServer, model: HttpModel) -> None:
    """In a header, and nowhere in the request's body."""
    server.script(HELLO)

    await pieces_of(model)

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
def test_a_key_that_no_header_takes_is_refused_and_not_repeated(api: str, key: str) -> None:
    """It was copied with something around it; the HTTP library would repeat it in its error."""
    with pytest.raises(Incorrect, match="API key") as incorrect:
        open_model("m", api=api, key=key, base_url=None if not key else "http://127.0.0.1:9")

    assert "cret" not in str(incorrect.value)


async def test_no_half_of_a_key_is_shown(server: ModelServer, model: HttpModel) -> None:
    """A server's words are cut, and the cut may fall into the key."""
    said = "x" * (WORDS_MAX - 5) + KEY
    server.script(refuse(401, body=said))

    with pytest.raises(Denied) as denied:
        await pieces_of(model)

    assert KEY[:4] not in str(denied.value)
