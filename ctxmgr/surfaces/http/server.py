"""Serve the HTTP API and the inspector of one store. Owns a socket; may start a browser.

On shutdown, event streams get a last event and requests in progress are answered; the caller closes
the store. The inspector is opened only with a terminal and a display: without a display Python
would start a text browser in the terminal that the server writes to.
"""

import asyncio
import errno
import logging
import os
import socket
import sys
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Thread
from typing import Final

import uvicorn

from ctxmgr.app import App
from ctxmgr.errors import Denied, Incorrect, NotFound, Unavailable
from ctxmgr.settings import data_dir
from ctxmgr.surfaces.access_tokens import Keys, RevokedTokens, load_secret
from ctxmgr.surfaces.http.api import build
from ctxmgr.surfaces.http.connections import DeadlineProtocol
from ctxmgr.surfaces.http.event_hub import EventHub
from ctxmgr.surfaces.http.guard import names_loopback
from ctxmgr.surfaces.operation import Operation
from ctxmgr.surfaces.spooled_events import store_events_forever
from ctxmgr.surfaces.uvicorn_server import serve_application

_DISPLAYS: Final = ("DISPLAY", "WAYLAND_DISPLAY")

logger = logging.getLogger(__name__)


CONNECTIONS_MAX: Final = 2_000
"""Connections and requests at once; more are answered 503."""

BACKLOG_MAX: Final = 512
"""Connections that wait to be accepted."""

KEEP_ALIVE_SECONDS: Final = 30
"""How long an idle connection is kept."""

ENDING_SECONDS: Final = 20
"""Time on shutdown for requests in progress."""

_PORT_MAX: Final = 65_535


@dataclass(frozen=True, slots=True)
class ListenAddress:
    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        return names_loopback(f"[{self.host}]" if ":" in self.host else self.host)


async def serve_until_cancelled(
    app: App,
    address: ListenAddress,
    *,
    operations: tuple[Operation, ...],
    read_only: bool,
    require_token: bool,
    rate_per_second: int,
    open_inspector: bool,
) -> None:
    """Serve the app's store; print the URL, and open the inspector if asked to."""
    needed = require_token or not address.is_loopback
    keys = _keys(needed=needed)
    store = await app.store()
    hub = EventHub(store)
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
    with listening(address) as listener:
        host, port = listener.getsockname()[:2]
        url_host = f"[{host}]" if ":" in host else host
        url = f"http://{url_host}:{port}"
        app.write(f"ctxmgr serves {(await store.status()).url} at {url}\n")
        if open_inspector and can_open_browser():
            open_page(url)
        config = uvicorn.Config(
            api,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            http=DeadlineProtocol,
            limit_concurrency=CONNECTIONS_MAX,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=ENDING_SECONDS,
        )
        upkeep = (
            ()
            if read_only
            else (app.run_lifecycle(), app.run_consolidation(), store_events_forever(app))
        )
        tasks = [asyncio.create_task(each) for each in upkeep]
        try:
            await serve_application(config, listener, on_exit=hub.close)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    raise Unavailable("the server ended by itself; see the log")


def can_open_browser(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether there is a terminal and a display."""
    has_display = sys.platform == "darwin" or any(environment.get(name) for name in _DISPLAYS)
    return has_display and sys.stdout.isatty()


def open_page(url: str) -> None:
    """Open a page in a thread: some browsers return only when they are closed."""
    Thread(target=_open, args=(url,), daemon=True).start()


def _open(url: str) -> None:
    if not webbrowser.open(url):
        logger.warning("no browser could be started: open %s", url)


def _keys(*, needed: bool) -> Callable[[], Keys | None]:
    """Return what finds the keys: the first token may be created while the server runs."""
    folder = data_dir()
    found: Keys | None = None

    def keys() -> Keys | None:
        nonlocal found
        if found is None:
            with suppress(NotFound):
                found = Keys(load_secret(folder), RevokedTokens(folder))
        return found

    if keys() is None and needed:
        raise Incorrect(
            "this server requires a token, and none has been created yet: run `ctxmgr token`"
        )
    return keys


@contextmanager
def listening(address: ListenAddress) -> Iterator[socket.socket]:
    """Listen on an address; the socket is closed at the end."""
    if not 0 <= address.port <= _PORT_MAX:
        raise Incorrect(f"--port must be 0 to {_PORT_MAX}, not {address.port}")
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on sockets created with IPPROTO_TCP; without it a response
    # waits 40 ms for the acknowledgement of its headers.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address.host, address.port))
        except PermissionError as error:
            raise Denied(f"this user may not listen on port {address.port}") from error
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise Unavailable(
                    f"port {address.port} is in use; use --port 0 for a free one"
                ) from error
            where = f"{address.host}:{address.port}"
            raise Unavailable(f"cannot listen on {where}: {error.strerror or error}") from error
        listener.listen(BACKLOG_MAX)
        yield listener
