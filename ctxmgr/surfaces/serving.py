"""A server for one store: listens, answers, and ends in order. Owns a socket.

When it is told to end, streams get their last event, requests that were begun are answered, and
then the store is closed by whoever opened it.
"""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import uvicorn
from starlette.applications import Starlette

from ctxmgr.app import App
from ctxmgr.errors import Denied, Incorrect, NotFound, Unavailable
from ctxmgr.settings import data_dir
from ctxmgr.surfaces.access_tokens import Keys, load_secret
from ctxmgr.surfaces.browsers import open_page, sees_a_browser
from ctxmgr.surfaces.catalogue import Operation
from ctxmgr.surfaces.event_hub import Hub
from ctxmgr.surfaces.http_api import build
from ctxmgr.surfaces.http_guard import names_loopback
from ctxmgr.surfaces.revoked_tokens import Revoked

CONNECTIONS_MAX: Final = 2_000
"""Connections and requests at once; more are told to come back later."""

BACKLOG_MAX: Final = 512
"""Connections that wait to be taken."""

KEEP_ALIVE_SECONDS: Final = 30
"""For which an idle connection is kept."""

ENDING_SECONDS: Final = 20
"""For requests that were begun when the server was told to end."""

_PORT_MAX: Final = 65_535


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        return names_loopback(f"[{self.host}]" if ":" in self.host else self.host)


async def serve_until_cancelled(
    app: App,
    address: Address,
    *,
    operations: tuple[Operation, ...],
    read_only: bool,
    require_token: bool,
    rate_per_second: int,
    open_inspector: bool,
) -> None:
    """Serve the app's store; say where, and show it to whoever sits there."""
    needed = require_token or not address.is_loopback
    keys = _keys(needed=needed)
    store = await app.store()
    hub = Hub(store)
    api = build(
        app,
        hub,
        operations=operations,
        loopback=address.is_loopback,
        keys=keys,
        token_required=needed,
        read_only=read_only,
        rate_per_second=rate_per_second,
    )
    with _listening(address) as listener:
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        url = f"http://{shown}:{port}"
        app.write(f"ctxmgr serves {(await store.status()).url} at {url}\n")
        if open_inspector and sees_a_browser():
            open_page(url)
        await _run(api, hub, listener)


async def _run(api: Starlette, hub: Hub, listener: socket.socket) -> None:
    server = _Server(
        uvicorn.Config(
            api,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            http="h11",  # bounds the headers, which httptools does not
            limit_concurrency=CONNECTIONS_MAX,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=ENDING_SECONDS,
        )
    )
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await asyncio.shield(serving)
    finally:
        await hub.close()
        server.should_exit = True
        await serving
    raise Unavailable("the server ended by itself; the log says why")


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the command, which cancels what it runs."""
        yield


def _keys(*, needed: bool) -> Keys | None:
    folder = data_dir()
    try:
        return Keys(load_secret(folder), Revoked(folder))
    except NotFound:
        if needed:
            raise Incorrect(
                "beyond loopback, or with --require-token, every request needs a token, and none "
                "was made yet: `ctxmgr token` makes one"
            ) from None
        return None


@contextmanager
def _listening(address: Address) -> Iterator[socket.socket]:
    if not 0 <= address.port <= _PORT_MAX:
        raise Incorrect(f"--port is 0 to {_PORT_MAX}, not {address.port}")
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # Only of a socket that says it is TCP does asyncio send small packets at once (TCP_NODELAY);
    # without that an answer waits 40 ms for an acknowledgement of its headers.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address.host, address.port))
        except PermissionError as error:
            raise Denied(f"port {address.port} is not for this user") from error
        except OSError as error:
            where = f"{address.host}:{address.port}"
            raise Unavailable(f"cannot listen on {where}: {error.strerror or error}") from error
        listener.listen(BACKLOG_MAX)
        yield listener
