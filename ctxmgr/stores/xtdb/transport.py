"""HTTP transport to the nodes of one database: connections and retries. Uses the network.

All httpx errors are translated here. A read is retried on a new connection or on the next node; a
submission only if no connection was made, since only its key makes it safe to send twice. After a
failure, the next node in the list is used until it fails, too. All requests of a call share its
deadline; within it, a server that refuses connections is waited for, because it may be restarting.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx

from ctxmgr.core.store.contract import Instant
from ctxmgr.errors import CtxmgrError, Incorrect, Unavailable
from ctxmgr.stores.edn.reader import ListReader
from ctxmgr.stores.edn.values import Keyword
from ctxmgr.stores.xtdb.address import XtdbAddress
from ctxmgr.stores.xtdb.deadline import Deadline, current_deadline
from ctxmgr.stores.xtdb.replies import (
    ERROR_BYTES_MAX,
    OK,
    NodeBehind,
    NotSent,
    ReplyLost,
    landing_of,
    readable,
    value_of,
)

CONNECTIONS: Final = 8
"""With more, an httpx client is slower, and a server has 50 threads for all its clients."""

KEEPALIVE_S: Final = 15.0
"""Idle time after which we close a connection; servers close theirs after 30 s."""

CONNECT_S: Final = 5.0
"""Timeout for connecting; another node may be reachable."""

READ_TRIES: Final = 3
"""The first two attempts may each get a connection that a failed query has broken."""

RETRY_PAUSE_S: Final = 0.05
"""Long enough for a server to drop a connection after its reply, and for httpx to notice."""

RESTART_PAUSE_S: Final = 0.2
"""Between two attempts to connect to a server that is down; a restart takes some seconds."""

GRACE_S: Final = 0.1
"""Added to limits of our own, so that httpx reports a timeout first: it knows whether it had
connected."""

REPLY_BYTES_MAX: Final = 1024 * 1024 * 1024
"""Bytes of one reply: 64 of the largest documents."""

PAGE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes after which a page of history or feed ends, with at least one entry."""

Params = Mapping[str, str]
T = TypeVar("T")


class XtdbTransport:
    """Sends requests to the nodes of one database through one ``httpx.AsyncClient``."""

    def __init__(
        self, address: XtdbAddress, *, timeout_s: float, tls: ssl.SSLContext | bool
    ) -> None:
        headers = {"Accept": "application/edn", "Content-Type": "application/edn"}
        if address.authorization is not None:
            headers["Authorization"] = address.authorization
        self._nodes = address.nodes
        self._current = 0
        self.timeout_s = timeout_s
        self.waits_for_restart = False
        """Whether a server that refuses connections is waited for. Not before it was reached once:
        an address may be wrong."""
        self._free = asyncio.Semaphore(CONNECTIONS)
        self._client = httpx.AsyncClient(
            headers=headers,
            # Reading the certificates to trust takes longer than opening the rest of the store.
            verify=tls if _is_encrypted(address) else False,
            trust_env=False,  # proxies in the environment are meant for the web
            timeout=timeout_s,
            limits=httpx.Limits(
                max_connections=CONNECTIONS,
                max_keepalive_connections=CONNECTIONS,
                keepalive_expiry=KEEPALIVE_S,
            ),
        )

    @property
    def node(self) -> str:
        """The node that gets the next request."""
        return self._nodes[self._current]

    @property
    def deadline(self) -> Deadline:
        """The deadline of the current call."""
        return current_deadline(self.timeout_s)

    async def get(self, path: str, params: Params) -> Any:
        """Read a value, or None if nothing was found."""
        return await self._with_retries(
            lambda node: self._exchange("GET", node + path, params, None)
        )

    async def query(self, content: bytes, params: Params) -> Any:
        """Read the rows of a query."""
        return await self._with_retries(
            lambda node: self._exchange("POST", node + "query", params, content)
        )

    async def listed(
        self, path: str, params: Params, *, take: Callable[[Any], T | None], limit: int
    ) -> tuple[list[T], bool]:
        """Stream a list until a page is full; return the page, and whether it was full."""
        return await self._with_retries(lambda node: self._stream(node + path, params, take, limit))

    async def submit(self, content: bytes) -> tuple[int, Instant]:
        """Send a transaction to the first reachable node; return its sequence and time.

        Raises ``ReplyLost`` if it may have been logged; after any other error it was not.
        """
        refused = 0
        while True:
            node = self.node
            try:
                return await self._send(node, content)
            except NotSent:
                refused += 1
                if not await self._may_connect_again(node, refused):
                    raise

    async def close(self) -> None:
        await self._client.aclose()

    async def _with_retries(self, attempt: Callable[[str], Awaitable[T]]) -> T:
        lost = refused = 0
        while True:
            node = self.node
            try:
                return await attempt(node)
            except NotSent as error:
                refused += 1
                if not await self._may_connect_again(node, refused):
                    raise Unavailable(str(error)) from error
            except ReplyLost as error:
                lost += 1
                self._leave(node)
                if lost >= max(READ_TRIES, len(self._nodes)) or self.deadline.expired:
                    raise Unavailable(str(error)) from error
                await asyncio.sleep(RETRY_PAUSE_S)
            except NodeBehind as error:
                await self._refuse_stopped(node, error)
                raise

    async def _may_connect_again(self, node: str, refused: int) -> bool:
        """Go to the next node, with a pause after a round of all nodes; False: give up."""
        self._leave(node)
        if refused < len(self._nodes):
            return not self.deadline.expired
        if not self.waits_for_restart or self.deadline.left_s <= RESTART_PAUSE_S:
            return False
        if refused % len(self._nodes) == 0:
            self.deadline.failed.clear()
            await asyncio.sleep(RESTART_PAUSE_S)
        return True

    def _leave(self, node: str) -> None:
        self.deadline.failed.add(node)
        if self.node == node:
            self._current = (self._current + 1) % len(self._nodes)

    async def _refuse_stopped(self, node: str, behind: NodeBehind) -> None:
        """Raise ``Unavailable`` if the node has stopped indexing, which only its status shows."""
        try:
            status = await self._exchange("GET", node + "status", {}, None)
        except CtxmgrError:
            return  # the caller raises its own error, which is more specific
        failure = ingester_failure(status, _origin(node))
        if failure is not None:
            raise Unavailable(failure) from behind

    async def _send(self, node: str, content: bytes) -> tuple[int, Instant]:
        async with self._request("POST", node + "submit-tx", {}, content) as response:
            body = await self._body(response, bound=ERROR_BYTES_MAX)
        kind = response.headers.get("content-type", "")
        return landing_of(response.status_code, kind, body, node=_origin(node))

    async def _exchange(self, method: str, url: str, params: Params, content: bytes | None) -> Any:
        async with self._request(method, url, params, content) as response:
            body = await self._body(response, bound=_bound(response))
        kind = response.headers.get("content-type", "")
        return value_of(response.status_code, kind, body, node=_origin(url))

    async def _stream(
        self, url: str, params: Params, take: Callable[[Any], T | None], limit: int
    ) -> tuple[list[T], bool]:
        node, reader, taken, size = _origin(url), ListReader(), list[T](), 0
        async with self._request("GET", url, params, None) as response:
            kind = response.headers.get("content-type", "")
            if response.status_code not in OK or not kind.startswith("application/edn"):
                value_of(
                    response.status_code,
                    kind,
                    await self._body(response, bound=ERROR_BYTES_MAX),
                    node=node,
                )
                return taken, False
            async for chunk in self._chunks(response):
                with readable(node):
                    taken += [item for item in map(take, reader.feed(chunk)) if item is not None]
                size += len(chunk)
                if len(taken) >= limit or (taken and size > PAGE_BYTES_MAX):
                    return taken[:limit], True
                _check_reply(size)
            with readable(node):
                reader.finish()
        return taken, False

    @asynccontextmanager
    async def _request(
        self, method: str, url: str, params: Params, content: bytes | None
    ) -> AsyncIterator[httpx.Response]:
        node, deadline = _origin(url), self.deadline
        await self._wait_for_connection(node, deadline)
        share_s = deadline.share_s(len(self._nodes))
        try:
            request = self._client.build_request(
                method,
                url,
                params=params,
                content=content,
                timeout=httpx.Timeout(share_s, connect=min(CONNECT_S, share_s)),
            )
            deadline.extend(transferred_bytes=len(content or b""))
            async with asyncio.timeout(deadline.left_s + GRACE_S):
                response = await self._client.send(request, stream=True)
            try:
                yield response
            finally:
                await response.aclose()
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise NotSent(f"{node} cannot be reached: {_reason(error)}") from error
        except (httpx.TimeoutException, TimeoutError) as error:
            raise ReplyLost(f"{node} did not answer within {self.timeout_s:g} s") from error
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL) as error:
            raise ReplyLost(f"lost the connection to {node}: {_reason(error)}") from error
        finally:
            self._free.release()

    async def _wait_for_connection(self, node: str, deadline: Deadline) -> None:
        try:
            async with asyncio.timeout(deadline.left_s):
                await self._free.acquire()
        except TimeoutError as error:
            raise NotSent(
                f"{node}: all {CONNECTIONS} connections were busy for {self.timeout_s:g} s"
            ) from error

    async def _chunks(self, response: httpx.Response) -> AsyncIterator[bytes]:
        """Yield the body as it arrives, within the deadline, which large replies extend."""
        deadline, chunks = self.deadline, response.aiter_bytes()
        while True:
            # Checked here, too: a byte every few milliseconds stays within the grace for ever.
            if deadline.left_s <= 0:
                raise TimeoutError
            async with asyncio.timeout(deadline.left_s + GRACE_S):
                chunk = await anext(chunks, None)
            if chunk is None:
                return
            deadline.extend(transferred_bytes=len(chunk))
            yield chunk

    async def _body(self, response: httpx.Response, *, bound: int) -> bytes:
        chunks: list[bytes] = []
        size = 0
        async for chunk in self._chunks(response):
            chunks.append(chunk)
            size += len(chunk)
            if size > bound:
                break
        _check_reply(size)
        return b"".join(chunks)


def tls_context(*, verify: bool, ca_file: Path | str | None) -> ssl.SSLContext | bool:
    """Return what httpx takes as ``verify``; the CA file is read now, so that errors show early."""
    if not verify:
        if ca_file is not None:
            raise Incorrect("a CA file requires that certificates are verified")
        return False
    if ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except OSError as error:
        raise Incorrect(f"the CA file {ca_file} cannot be used: {error}") from error


def ingester_failure(status: Any, node: str) -> str | None:
    """Return an error message if the node accepts transactions but has stopped indexing them."""
    failed = isinstance(status, dict) and status.get(Keyword("ingester-failed?"))
    if not failed:
        return None
    return f"{node} has stopped indexing transactions: restart it"


def _is_encrypted(address: XtdbAddress) -> bool:
    """Return whether any node uses TLS; redirects are not followed."""
    return any(node.startswith("https:") for node in address.nodes)


def _bound(response: httpx.Response) -> int:
    return REPLY_BYTES_MAX if response.status_code in OK else ERROR_BYTES_MAX


def _check_reply(size: int) -> None:
    if size > REPLY_BYTES_MAX:
        raise Incorrect(f"the reply has more than {REPLY_BYTES_MAX} bytes: request less at once")


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _origin(url: str) -> str:
    """Return the node without its path, for messages."""
    return url.partition("/_xtdb/")[0]
