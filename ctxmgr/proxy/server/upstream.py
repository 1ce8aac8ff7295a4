"""HTTP to the providers: one connection pool, no retries, no redirects, no cookies. Network.

Requests and responses pass as they are. Errors of httpx are translated only here.
"""

from collections.abc import AsyncIterable, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Final

import httpx

from ctxmgr.core.store.urls import redact_url

if TYPE_CHECKING:
    from ctxmgr.proxy.server.headers import RawHeaders

CONNECT_SECONDS_MAX: Final = 10.0
"""To connect; a server that runs accepts a connection within tenths of a second."""

SILENCE_SECONDS_MAX: Final = 600.0
"""Between two pieces of an answer, and before the first: clients wait ten minutes by default."""

UPSTREAM_CONNECTIONS_MAX: Final = 1_000
"""To all providers together."""

IDLE_CONNECTIONS_MAX: Final = 50
"""Kept open for the next requests."""

SHOWN_LENGTH_MAX: Final = 500
"""Characters of an address in a message."""

_STATUSES: Final = range(200, 600)
"""Of answers that can be passed on (RFC 9110, 15)."""

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class UpstreamFailure(Exception):  # noqa: N818 (named for what happened)
    """No answer came from the provider."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        """502, or 504 if the provider was silent."""


class AnswerCut(Exception):  # noqa: N818 (named for what happened)
    """The provider's answer broke off."""


class UpstreamAnswer:
    """A provider's response, whose body is read as it arrives."""

    def __init__(self, response: httpx.Response, *, shown: str) -> None:
        self._response = response
        self._shown = shown
        self.status = response.status_code
        self.headers: RawHeaders = response.headers.raw
        self.coding = response.headers.get("content-encoding", "").strip().lower()
        self.content_type = response.headers.get("content-type", "").partition(";")[0].strip()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives, still compressed; ``AnswerCut`` if it breaks off."""
        try:
            async for chunk in self._response.aiter_raw():
                yield chunk
        except httpx.TimeoutException as error:
            message = f"{self._shown} sent nothing for {SILENCE_SECONDS_MAX:g} s"
            raise AnswerCut(message) from error
        except httpx.HTTPError as error:
            raise AnswerCut(f"{self._shown} broke off: {_reason(error)}") from error


class Upstream:
    """Sends requests to the providers."""

    def __init__(self) -> None:
        self._clients: dict[bool, httpx.AsyncClient] = {}

    async def close(self) -> None:
        for client in self._clients.values():
            await client.aclose()

    @asynccontextmanager
    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: list[tuple[bytes, bytes]],
        body: bytes | AsyncIterable[bytes],
    ) -> AsyncIterator[UpstreamAnswer]:
        """Send a request; ``UpstreamFailure`` if no answer comes."""
        shown = redact_url(url)[:SHOWN_LENGTH_MAX]
        with _errors_before_answer(shown):
            request = httpx.Request(method, httpx.URL(url), headers=headers, content=body)
            response = await self._client(request.url.host).send(request, stream=True)
        try:
            if response.status_code not in _STATUSES:
                message = f"{shown} answered with the invalid status {response.status_code}"
                raise UpstreamFailure(502, message)
            yield UpstreamAnswer(response, shown=shown)
        finally:
            await response.aclose()

    def _client(self, host: str) -> httpx.AsyncClient:
        local = host in _LOOPBACK
        if local not in self._clients:
            self._clients[local] = httpx.AsyncClient(
                # Cookies of one client must not be sent with the requests of another.
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
                trust_env=not local,  # a proxy cannot reach this machine
                follow_redirects=False,
                timeout=httpx.Timeout(SILENCE_SECONDS_MAX, connect=CONNECT_SECONDS_MAX),
                limits=httpx.Limits(
                    max_connections=UPSTREAM_CONNECTIONS_MAX,
                    max_keepalive_connections=IDLE_CONNECTIONS_MAX,
                ),
            )
        return self._clients[local]


@contextmanager
def _errors_before_answer(shown: str) -> Iterator[None]:
    try:
        yield
    except (httpx.ReadTimeout, httpx.WriteTimeout) as error:
        message = f"{shown} sent nothing for {SILENCE_SECONDS_MAX:g} s"
        raise UpstreamFailure(504, message) from error
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise UpstreamFailure(502, f"{shown} cannot be reached: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
