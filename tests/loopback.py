"""A server on loopback that ends all its connections when it is closed. Touches the network."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable

Converse = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bool]]
"""Reads a request and answers it; False closes the connection."""


class Loopback:
    """Serves each connection with ``converse``."""

    def __init__(self, converse: Converse, *, tls: ssl.SSLContext | None = None) -> None:
        self._converse = converse
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._serving: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = {}

    async def open(self) -> int:
        """Accept connections; return the port."""
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", 0, ssl=self._tls, limit=2**24
        )
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        """Refuse new connections, and close those that are open."""
        assert self._server is not None
        self._server.close()
        await asyncio.sleep(0)  # lets the task of a new connection start
        for writer in self._serving:
            writer.transport.abort()
        await asyncio.gather(*filter(None, self._serving.values()), return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving[writer] = asyncio.current_task()
        try:
            while await self._converse(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            return  # the client has disconnected
        finally:
            writer.close()
