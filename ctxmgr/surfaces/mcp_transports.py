"""How an MCP server is reached: standard streams, or streamable HTTP on this machine. Serves.

Both end when they are cancelled: what is being answered is dropped, and every change is a whole
transaction or none. Over standard streams a server ends when its input does.
"""

import asyncio
import logging
import os
import socket
import stat
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from ctxmgr.errors import Incorrect, Unavailable

if TYPE_CHECKING:
    import anyio

logger = logging.getLogger(__name__)

HOST: Final = "127.0.0.1"
PATH: Final = "/mcp"
BODY_BYTES_MAX: Final = 4 * 2**20
"""Of one message, over either transport."""
CONNECTIONS_MAX: Final = 256
"""HTTP requests at once; more are answered 503."""
SESSIONS_MAX: Final = 256
"""Clients of the older protocol, which keep a session open."""
SHUTDOWN_SECONDS: Final = 5
"""For HTTP requests that are being answered when the server is ended."""


async def serve_stdio(server: Server[Any]) -> None:
    """Serve one client over standard input and output, until the input ends."""
    async with stdio_server(stdin=await _stdin()) as (received, sent):
        await server.run(received, sent, server.create_initialization_options())


async def serve_http(server: Server[Any], *, port: int, say: Callable[[str], None]) -> None:
    """Serve many clients over HTTP on the loopback address; tell the URL when it listens."""
    if not 0 <= port < 2**16:
        raise Incorrect(f"{port} is no port: it is between 0 and 65535")
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        host=HOST,
        max_request_body_size=BODY_BYTES_MAX,
        max_sessions=SESSIONS_MAX,
    )
    config = uvicorn.Config(
        app,
        log_config=None,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    with _listening(port) as listener:
        say(f"http://{HOST}:{listener.getsockname()[1]}{PATH}\n")
        await _until_cancelled(_Uvicorn(config), listener)


class _Uvicorn(uvicorn.Server):
    """Leaves signals to whoever runs the operation, which cancels it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _until_cancelled(server: uvicorn.Server, listener: socket.socket) -> None:
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        server.should_exit = True
        await serving
        raise


@contextmanager
def _listening(port: int) -> Iterator[socket.socket]:
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
            listener.listen()
        except OSError as error:
            raise Unavailable(f"port {port} of {HOST} cannot be used: {error.strerror}") from error
        yield listener
    finally:
        listener.close()


async def _stdin() -> "anyio.AsyncFile[str] | None":
    """Read input on the event loop where it is a pipe; None: let the package read it.

    The package reads in a thread, which cannot be cancelled: a signal would wait for the next line.
    """
    mode = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or sys.stdin.isatty()):
        return None
    reader = asyncio.StreamReader(limit=BODY_BYTES_MAX)
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin.buffer)
    return cast("anyio.AsyncFile[str]", _lines(reader))  # it is only iterated over


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[str]:
    try:
        while line := await reader.readline():
            yield line.decode(errors="replace")
    except ValueError:  # where the next message begins is not known any more
        logger.warning("a message is longer than %d bytes: the server ends", BODY_BYTES_MAX)
