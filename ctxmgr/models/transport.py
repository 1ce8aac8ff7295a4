"""One model's server: requests, tries, limits, and the events of an answer. Touches the network.

    before an answer begins   what may pass is tried again: no connection, a broken one, busy
    afterwards                nothing is: the answer is lost, and whoever asked decides

httpx's errors are translated here and nowhere else. A key goes into a header and nowhere else.
"""

import asyncio
import json
import logging
import random
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

import httpx
from httpx_sse import EventSource, SSEError

from ctxmgr.core.documents import Document
from ctxmgr.errors import AnswerLost, Incorrect, ModelUnavailable
from ctxmgr.models.faults import Busy, fault

CONNECT_S: Final = 10.0
"""To reach a server: one that is there answers in tenths."""

SILENCE_S: Final = 300.0
"""Between two pieces of an answer, and before the first: a large prompt on a small machine."""

TRIES_MAX: Final = 5
"""Of one request, the first one counted: with the pauses between them, some 15 seconds."""

PAUSE_S: Final = 1.0
"""Before the second try; each further one waits twice as long."""

RETRY_AFTER_MAX_S: Final = 120.0
"""What a server may ask us to wait; a person who is told of more decides better."""

ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of one answer: hundreds of times the longest that any model gives."""

ERROR_BYTES_MAX: Final = 64 * 1024
"""Read of a reply that is an error."""

_LOG: Final = logging.getLogger(__name__)
_OK: Final = 200
_KEY: Final = re.compile("[!-~]+")
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class Transport:
    """A server behind one ``httpx.AsyncClient``."""

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        key: str | None,
        silence_s: float = SILENCE_S,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.url = checked_url(url)
        self._key = _checked_key(key)
        self._silence_s = silence_s
        self._wait = wait
        self._client = httpx.AsyncClient(
            headers={**headers, "Content-Type": "application/json", "Accept": "text/event-stream"},
            trust_env=host_of(url) not in _LOOPBACK,  # no proxy stands between us and ourselves
            timeout=httpx.Timeout(silence_s, connect=min(CONNECT_S, silence_s)),
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def events(self, body: Document) -> AsyncGenerator[str, None]:
        """Send a request, and give the data of each event of the answer as it comes."""
        response = await self._begun(json.dumps(body).encode())
        try:
            with self._answering():
                async with aclosing(EventSource(response).aiter_sse()) as events:
                    async for event in events:
                        if event.data:
                            yield event.data
        finally:
            await response.aclose()

    async def _begun(self, body: bytes) -> httpx.Response:
        for tried in range(TRIES_MAX - 1):
            try:
                return await self._sent(body)
            except Busy as busy:
                if busy.after_s is not None and busy.after_s > RETRY_AFTER_MAX_S:
                    raise ModelUnavailable(
                        f"{busy}; it asks to wait {busy.after_s:.0f} s"
                    ) from busy
                pause = _pause(tried) if busy.after_s is None else busy.after_s
                _LOG.warning("%s; trying again in %.0f s", busy, pause)
                await self._wait(pause)
        return await self._sent(body)

    async def _sent(self, body: bytes) -> httpx.Response:
        request = self._client.build_request("POST", self.url, content=body)
        with self._beginning():
            response = await self._client.send(request, stream=True)
        if response.status_code == _OK:
            response.stream = _Bounded(response.stream)
            return response
        try:
            with self._beginning():
                said = await _start_of(response)
        finally:
            await response.aclose()
        raise fault(
            response.status_code,
            response.headers,
            said,
            url=self.url,
            key=self._key,
            now=datetime.now(UTC),
        )

    @contextmanager
    def _beginning(self) -> Iterator[None]:
        try:
            yield
        except (httpx.ReadTimeout, httpx.WriteTimeout) as error:
            raise ModelUnavailable(f"{self.url} said nothing for {self._silence_s:g} s") from error
        except httpx.TransportError as error:
            raise Busy(f"{self.url} cannot be reached: {_said(error)}") from error

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except SSEError as error:
            raise ModelUnavailable(
                f"{self.url} answered with no stream of events: check the base URL"
            ) from error
        except httpx.TimeoutException as error:
            raise AnswerLost(
                f"{self.url} said nothing more for {self._silence_s:g} s in the middle of an answer"
            ) from error
        except httpx.HTTPError as error:
            raise AnswerLost(f"the answer of {self.url} broke off: {_said(error)}") from error


class _Bounded(httpx.AsyncByteStream):
    """A reply that ends in an error when it grows beyond all measure."""

    def __init__(self, stream: httpx.SyncByteStream | httpx.AsyncByteStream) -> None:
        assert isinstance(stream, httpx.AsyncByteStream)
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > ANSWER_BYTES_MAX:
                raise AnswerLost(f"an answer of more than {ANSWER_BYTES_MAX} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def checked_url(url: str) -> str:
    """Return the URL; ``Incorrect`` unless a request can be sent to it."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise Incorrect(f"{url!r:.200} is no base URL; one begins with https:// or http://")
    return url


def _checked_key(key: str | None) -> str | None:
    """Return the key; ``Incorrect`` if no header holds it, in words that do not repeat it."""
    if key is not None and not _KEY.fullmatch(key):
        raise Incorrect(
            "the API key holds white space or characters that are in no key: copy it again"
        )
    return key


def host_of(url: str) -> str | None:
    return urlsplit(url).hostname


async def _start_of(response: httpx.Response) -> bytes:
    said = b""
    async for chunk in response.aiter_bytes():
        said += chunk
        if len(said) >= ERROR_BYTES_MAX:
            break
    return said[:ERROR_BYTES_MAX]


def _pause(tried: int) -> float:
    """Twice as long each time, and never the same for all who were turned away at once."""
    return PAUSE_S * float(2**tried) * random.uniform(0.5, 1.0)  # noqa: S311 (spreads, hides nothing)


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
