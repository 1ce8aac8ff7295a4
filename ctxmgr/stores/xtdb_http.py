"""One database over HTTP: its nodes, their connections, tries. Touches the network.

httpx's errors are translated here and nowhere else. A read is tried again on a fresh connection,
or on the next node; a submission only where no connection came about, since only its key makes it
safe to send one twice. A node that fails is left for the next in the list until that one fails.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx

from ctxmgr.core.store import Instant
from ctxmgr.errors import CtxmgrError, Incorrect, Unavailable
from ctxmgr.stores.edn import Keyword
from ctxmgr.stores.edn_reader import ListReader
from ctxmgr.stores.xtdb_address import Address
from ctxmgr.stores.xtdb_replies import (
    ERROR_BYTES_MAX,
    OK,
    Behind,
    Lost,
    NotSent,
    landing_of,
    readable,
    value_of,
)

CONNECTIONS: Final = 8
"""With more, an httpx client is slower; and a server has 50 threads for all its clients."""

KEEPALIVE_S: Final = 15.0
"""A connection idle for longer is closed by us, before a server that closes after 30 s does."""

CONNECT_S: Final = 5.0
"""To learn that a node is gone; another may be there."""

READ_TRIES: Final = 3
"""The first may meet a connection that someone's failed query poisoned, the second a second one."""

RETRY_PAUSE_S: Final = 0.05
"""By then a server that drops a connection after its reply has done so, and httpx sees it."""

REPLY_BYTES_MAX: Final = 1024 * 1024 * 1024
"""Of one reply: sixty-four of the largest documents."""

PAGE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of a page of history or feed: one that reaches it ends early, after one entry at least."""

Params = Mapping[str, str]
T = TypeVar("T")


class Transport:
    """The nodes of one database behind one ``httpx.AsyncClient``."""

    def __init__(self, address: Address, *, timeout_s: float, tls: ssl.SSLContext | bool) -> None:
        headers = {"Accept": "application/edn", "Content-Type": "application/edn"}
        if address.authorization is not None:
            headers["Authorization"] = address.authorization
        self._nodes = address.nodes
        self._current = 0
        self.timeout_s = timeout_s
        self._free = asyncio.Semaphore(CONNECTIONS)
        self._client = httpx.AsyncClient(
            headers=headers,
            # Reading the certificates to trust takes longer than opening the rest of the store.
            verify=tls if _is_encrypted(address) else False,
            trust_env=False,  # a proxy of the environment is for the web, not for a database
            timeout=httpx.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s)),
            limits=httpx.Limits(
                max_connections=CONNECTIONS,
                max_keepalive_connections=CONNECTIONS,
                keepalive_expiry=KEEPALIVE_S,
            ),
        )

    @property
    def node(self) -> str:
        """The node that is asked next."""
        return self._nodes[self._current]

    async def get(self, path: str, params: Params) -> Any:
        """Read a value; None for what is not there."""
        return await self._tried(lambda node: self._exchange("GET", node + path, params, None))

    async def query(self, content: bytes, params: Params) -> Any:
        """Read the rows of a query."""
        return await self._tried(
            lambda node: self._exchange("POST", node + "query", params, content)
        )

    async def listed(
        self, path: str, params: Params, *, take: Callable[[Any], T | None], limit: int
    ) -> tuple[list[T], bool]:
        """Read a list as it arrives until a page is full, and no further; tell whether it was."""
        return await self._tried(lambda node: self._stream(node + path, params, take, limit))

    async def submit(self, content: bytes) -> tuple[int, Instant]:
        """Send a transaction to the first node that can be reached, and say where it landed.

        Raises ``Lost`` when it may have been taken; after anything else it certainly was not.
        """
        for node in self._turns(len(self._nodes) - 1):
            try:
                return await self._sent(node, content)
            except NotSent:
                self._leave(node)
        return await self._sent(self.node, content)

    async def close(self) -> None:
        await self._client.aclose()

    async def _tried(self, attempt: Callable[[str], Awaitable[T]]) -> T:
        failure: Unavailable | None = None
        for node in self._turns(max(READ_TRIES, len(self._nodes))):
            try:
                return await attempt(node)
            except (NotSent, Lost) as error:
                failure = error
                self._leave(node)
                await asyncio.sleep(RETRY_PAUSE_S if isinstance(error, Lost) else 0)
            except Behind as error:
                await self._refuse_stopped(node, error)
                raise
        raise Unavailable(str(failure)) from failure

    def _turns(self, count: int) -> Iterator[str]:
        for _ in range(count):
            yield self.node

    def _leave(self, node: str) -> None:
        if self.node == node:
            self._current = (self._current + 1) % len(self._nodes)

    async def _refuse_stopped(self, node: str, behind: Behind) -> None:
        """A node that stopped indexing still answers and never gets there: its status tells."""
        try:
            status = await self._exchange("GET", node + "status", {}, None)
        except CtxmgrError:
            return  # the caller raises what it met, which says more than that this was not answered
        failure = ingester_failure(status, _origin(node))
        if failure is not None:
            raise Unavailable(failure) from behind

    async def _sent(self, node: str, content: bytes) -> tuple[int, Instant]:
        async with self._opened("POST", node + "submit-tx", {}, content) as response:
            body = await _body(response, bound=ERROR_BYTES_MAX)
        kind = response.headers.get("content-type", "")
        return landing_of(response.status_code, kind, body, node=_origin(node))

    async def _exchange(self, method: str, url: str, params: Params, content: bytes | None) -> Any:
        async with self._opened(method, url, params, content) as response:
            body = await _body(response, bound=_bound(response))
        kind = response.headers.get("content-type", "")
        return value_of(response.status_code, kind, body, node=_origin(url))

    async def _stream(
        self, url: str, params: Params, take: Callable[[Any], T | None], limit: int
    ) -> tuple[list[T], bool]:
        node, reader, taken, size = _origin(url), ListReader(), list[T](), 0
        async with self._opened("GET", url, params, None) as response:
            kind = response.headers.get("content-type", "")
            if response.status_code not in OK or not kind.startswith("application/edn"):
                value_of(
                    response.status_code,
                    kind,
                    await _body(response, bound=ERROR_BYTES_MAX),
                    node=node,
                )
                return taken, False
            async for chunk in response.aiter_bytes():
                with readable(node):
                    found = [each for each in map(take, reader.feed(chunk)) if each is not None]
                taken.extend(found)
                size += len(chunk)
                if len(taken) >= limit or (taken and size > PAGE_BYTES_MAX):
                    return taken[:limit], True
                _check_reply(size)
            with readable(node):
                reader.finish()
        return taken, False

    @asynccontextmanager
    async def _opened(
        self, method: str, url: str, params: Params, content: bytes | None
    ) -> AsyncIterator[httpx.Response]:
        node = _origin(url)
        await self._wait_for_connection(node)
        try:
            request = self._client.build_request(method, url, params=params, content=content)
            response = await self._client.send(request, stream=True)
            try:
                yield response
            finally:
                await response.aclose()
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise NotSent(f"{node} cannot be reached: {_said(error)}") from error
        except httpx.TimeoutException as error:
            raise Lost(f"{node} did not answer within {self.timeout_s:g} s") from error
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL) as error:
            raise Lost(f"the connection to {node} broke: {_said(error)}") from error
        finally:
            self._free.release()

    async def _wait_for_connection(self, node: str) -> None:
        try:
            async with asyncio.timeout(self.timeout_s):
                await self._free.acquire()
        except TimeoutError as error:
            raise NotSent(f"{node}: all {CONNECTIONS} connections are busy") from error


def tls_context(*, verify: bool, ca_file: Path | str | None) -> ssl.SSLContext | bool:
    """Say whom to trust; the files are read now, so that a wrong name is found at once."""
    if not verify:
        if ca_file is not None:
            raise Incorrect("a CA file is of no use where certificates are not verified")
        return False
    if ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except OSError as error:
        raise Incorrect(f"the CA file {ca_file} cannot be used: {error}") from error


def ingester_failure(status: Any, node: str) -> str | None:
    """Say what to do about a node that takes transactions and never indexes them."""
    failed = isinstance(status, dict) and status.get(Keyword("ingester-failed?"))
    if not failed:
        return None
    return f"{node} has stopped indexing transactions: restart it; its log says why"


def _is_encrypted(address: Address) -> bool:
    """Tell whether any node is reached by TLS; no redirect is followed to one that is."""
    return any(node.startswith("https:") for node in address.nodes)


def _bound(response: httpx.Response) -> int:
    return REPLY_BYTES_MAX if response.status_code in OK else ERROR_BYTES_MAX


async def _body(response: httpx.Response, *, bound: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.aiter_bytes():
        chunks.append(chunk)
        size += len(chunk)
        if size > bound:
            break
    _check_reply(size)
    return b"".join(chunks)


def _check_reply(size: int) -> None:
    if size > REPLY_BYTES_MAX:
        raise Incorrect(f"a reply of more than {REPLY_BYTES_MAX} bytes: ask for less at once")


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__


def _origin(url: str) -> str:
    """The node without its path, for messages."""
    return url.partition("/_xtdb/")[0]
