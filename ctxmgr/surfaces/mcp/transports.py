"""The transports of the MCP server: standard streams, or streamable HTTP on loopback. Serves.

Both end when cancelled: the request in progress is dropped, and a transaction is written whole or
not at all. Over standard streams a server ends with its input.
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
from ctxmgr.surfaces.uvicorn_server import serve_application

if TYPE_CHECKING:
    import anyio


logger = logging.getLogger(__name__)

HOST: Final = "127.0.0.1"
PATH: Final = "/mcp"
MESSAGE_BYTES_MAX: Final = 4 * 2**20
"""Size of one message, over either transport."""
HTTP_CONNECTIONS_MAX: Final = 256
"""HTTP requests at once; more are answered 503."""
SESSIONS_MAX: Final = 256
"""Clients of the older protocol, which keep a session open."""
SHUTDOWN_SECONDS: Final = 5
"""Time on shutdown for HTTP requests in progress."""


async def serve_stdio(server: Server[Any]) -> None:
    """Serve one client over standard input and output, until the input ends."""
    async with stdio_server(stdin=await _stdin()) as (received, sent):
        await server.run(received, sent, server.create_initialization_options())


async def serve_http(server: Server[Any], *, port: int, say: Callable[[str], None]) -> None:
    """Serve many clients over HTTP on the loopback address; print the URL when it listens."""
    if not 0 <= port < 2**16:
        raise Incorrect(f"--port must be 0 to 65535, not {port}")
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        host=HOST,
        max_request_body_size=MESSAGE_BYTES_MAX,
        max_sessions=SESSIONS_MAX,
    )
    config = uvicorn.Config(
        app,
        log_config=None,
        limit_concurrency=HTTP_CONNECTIONS_MAX,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    with _listening(port) as listener:
        say(f"http://{HOST}:{listener.getsockname()[1]}{PATH}\n")
        await serve_application(config, listener)


@contextmanager
def _listening(port: int) -> Iterator[socket.socket]:
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
            listener.listen()
        except OSError as error:
            raise Unavailable(f"cannot listen on {HOST}:{port}: {error.strerror}") from error
        yield listener
    finally:
        listener.close()


async def _stdin() -> "anyio.AsyncFile[str] | None":
    """Read input on the event loop if it is a pipe; None: let the mcp package read it.

    The package reads in a thread that cannot be cancelled: a signal would wait for the next line.
    """
    mode = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or sys.stdin.isatty()):
        return None
    reader = asyncio.StreamReader(limit=MESSAGE_BYTES_MAX)
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin.buffer)
    return cast("anyio.AsyncFile[str]", _lines(reader))  # it is only iterated over


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[str]:
    try:
        while line := await reader.readline():
            yield line.decode(errors="replace")
    except ValueError:  # the start of the next message cannot be found
        logger.warning("a message is longer than %d bytes: the server stops", MESSAGE_BYTES_MAX)
