"""Run an ASGI application with uvicorn until the caller is cancelled. Serves one socket."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import uvicorn


async def serve_application(
    config: uvicorn.Config,
    listener: socket.socket,
    *,
    on_exit: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Serve until cancelled, then finish the requests in progress.

    ``on_exit`` runs before uvicorn shuts down. Returns if the server ends by itself.
    """
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await asyncio.shield(serving)
    finally:
        if on_exit is not None:
            await on_exit()
        server.should_exit = True
        await serving


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the command, which cancels the operation."""
        yield
