"""HTTP to one model's server: requests, retries, limits, server-sent events. Touches the network.

    before an answer begins   temporary errors are retried: no connection, a broken one, busy
    afterwards                nothing is retried: the caller gets AnswerLost and decides

The errors of httpx are translated only here. The API key is used only in a header.
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

from ctxmgr.core.store.documents import Document
from ctxmgr.core.store.urls import redact_url
from ctxmgr.errors import AnswerLost, Incorrect, ModelUnavailable
from ctxmgr.models.faults import Busy, status_error

CONNECT_S: Final = 10.0
"""To connect; a server that runs accepts a connection within tenths of a second."""

SILENCE_S: Final = 300.0
"""Between two chunks, and before the first: a small machine may need it for a large prompt."""

TRIES_MAX: Final = 5
"""Attempts for one request, including the first; with the pauses, about 15 seconds."""

PAUSE_S: Final = 1.0
"""Before the second attempt; the pause doubles for each further one."""

RETRY_AFTER_MAX_S: Final = 120.0
"""The longest wait that a server may ask for; a longer one is an error for the user to act on."""

ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of one answer: hundreds of times the longest answer of any model."""

ERROR_BYTES_MAX: Final = 64 * 1024
"""How much is read of an error reply."""

_LOG: Final = logging.getLogger(__name__)
_OK: Final = 200
_KEY: Final = re.compile("[!-~]+")
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class ModelTransport:
    """Sends requests to one URL and yields the events of the answers."""

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        key: str | None,
        silence_s: float = SILENCE_S,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        _check_url(url)
        if key is not None and not _KEY.fullmatch(key):  # the message must not repeat the key
            raise Incorrect(
                "the API key contains white space or other invalid characters; copy it again"
            )
        self.url = url
        self._shown = redact_url(url)
        self._key = key
        self._silence_s = silence_s
        self._wait = wait
        self._client = httpx.AsyncClient(
            headers={**headers, "Content-Type": "application/json", "Accept": "text/event-stream"},
            trust_env=host_of(url) not in _LOOPBACK,  # a proxy cannot reach this machine
            timeout=httpx.Timeout(silence_s, connect=min(CONNECT_S, silence_s)),
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def events(self, body: Document) -> AsyncGenerator[str, None]:
        """Send a request and yield the data of each event of the answer as it arrives."""
        response = await self._send_with_retries(json.dumps(body).encode())
        try:
            with self._errors_during_answer():
                async with aclosing(EventSource(response).aiter_sse()) as events:
                    async for event in events:
                        if event.data:
                            yield event.data
        finally:
            await response.aclose()

    async def _send_with_retries(self, body: bytes) -> httpx.Response:
        for attempt in range(TRIES_MAX - 1):
            try:
                return await self._send(body)
            except Busy as busy:
                pause = busy.retry_after_s
                if pause is not None and pause > RETRY_AFTER_MAX_S:
                    raise ModelUnavailable(f"{busy}; it asks to wait {pause:.0f} s") from busy
                if pause is None:
                    # Random, so that clients rejected at the same time do not return together.
                    pause = PAUSE_S * float(2**attempt) * random.uniform(0.5, 1.0)  # noqa: S311 (not a secret)
                _LOG.warning("%s; trying again in %.0f s", busy, pause)
                await self._wait(pause)
        return await self._send(body)

    async def _send(self, body: bytes) -> httpx.Response:
        request = self._client.build_request("POST", self.url, content=body)
        with self._errors_before_answer():
            response = await self._client.send(request, stream=True)
        if response.status_code == _OK:
            response.stream = _BoundedStream(response.stream)
            return response
        try:
            with self._errors_before_answer():
                error_body = b""
                async for chunk in response.aiter_bytes():
                    error_body += chunk
                    if len(error_body) >= ERROR_BYTES_MAX:
                        break
        finally:
            await response.aclose()
        raise status_error(
            response.status_code,
            response.headers,
            error_body[:ERROR_BYTES_MAX],
            url=self._shown,
            key=self._key,
            now=datetime.now(UTC),
        )

    @contextmanager
    def _errors_before_answer(self) -> Iterator[None]:
        try:
            yield
        except (httpx.ReadTimeout, httpx.WriteTimeout) as error:
            raise ModelUnavailable(
                f"{self._shown} sent nothing for {self._silence_s:g} s"
            ) from error
        except httpx.TransportError as error:
            raise Busy(f"{self._shown} cannot be reached: {_reason(error)}") from error

    @contextmanager
    def _errors_during_answer(self) -> Iterator[None]:
        try:
            yield
        except SSEError as error:
            raise ModelUnavailable(
                f"{self._shown} did not answer with server-sent events; check the base URL"
            ) from error
        except httpx.TimeoutException as error:
            raise AnswerLost(
                f"{self._shown} sent nothing for {self._silence_s:g} s in the middle of an answer"
            ) from error
        except httpx.HTTPError as error:
            raise AnswerLost(f"the answer of {self._shown} broke off: {_reason(error)}") from error


class _BoundedStream(httpx.AsyncByteStream):
    """A stream that raises ``AnswerLost`` after ``ANSWER_BYTES_MAX`` bytes."""

    def __init__(self, stream: httpx.SyncByteStream | httpx.AsyncByteStream) -> None:
        assert isinstance(stream, httpx.AsyncByteStream)
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > ANSWER_BYTES_MAX:
                raise AnswerLost(f"the answer has more than {ANSWER_BYTES_MAX} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def host_of(url: str) -> str | None:
    """Return the host of a URL; None if it has none, or is malformed."""
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise Incorrect(
            f"invalid base URL {redact_url(url)!r:.200}: it must begin with https:// or http://"
        )


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
