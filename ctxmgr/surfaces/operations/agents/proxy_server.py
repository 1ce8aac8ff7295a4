"""Run a proxy on loopback while a command needs it. Owns a socket and the file that names it."""

import asyncio
import logging
import os
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import uvicorn

from ctxmgr import connect
from ctxmgr.core.store.urls import redact_url
from ctxmgr.errors import Incorrect
from ctxmgr.proxy.engine import Engine, PassThrough
from ctxmgr.proxy.recording.record_queue import RecordQueue
from ctxmgr.proxy.recording.recorder import ExchangeRecorder
from ctxmgr.proxy.server.application import ProxyApplication
from ctxmgr.proxy.server.providers import Provider
from ctxmgr.proxy.server.request_guard import ProxyGuard
from ctxmgr.proxy.server.running import RunningProxy, announce, withdraw
from ctxmgr.proxy.server.traffic import Traffic
from ctxmgr.proxy.server.upstream import Upstream
from ctxmgr.proxy.shaping_engine import ShapingEngine
from ctxmgr.settings import state_dir
from ctxmgr.surfaces.http.connections import DeadlineProtocol
from ctxmgr.surfaces.http.server import ListenAddress, listening
from ctxmgr.surfaces.operations.agents.proxy_opening import opening_of
from ctxmgr.surfaces.uvicorn_server import serve_application

if TYPE_CHECKING:
    from ctxmgr.app import App

CONNECTIONS_MAX: Final = 2_000
"""Connections at once; more are answered 503."""

KEEP_ALIVE_SECONDS: Final = 120
"""How long an idle connection is kept: an agent may run a tool for as long."""

ENDING_SECONDS: Final = 10
"""Time on shutdown for answers that are still arriving."""

TOKEN_BYTES: Final = 24


@asynccontextmanager
async def open_proxy(
    app: "App",
    *,
    port: int,
    upstreams: Mapping[Provider, str],
    record_only: bool,
    token: bool,
    fidelity: float,
    announced: bool = True,
    memory: Path | None = None,
    knowledge: Path | None = None,
) -> AsyncIterator[RunningProxy]:
    """Serve a proxy until the block ends; others find it if it is ``announced``."""
    # Their messages contain URLs, and those of some providers contain the key.
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
    secret = secrets.token_urlsafe(TOKEN_BYTES) if token else None
    async with AsyncExitStack() as closing:
        listener = closing.enter_context(listening(ListenAddress("127.0.0.1", port)))
        store = await app.store()
        # Exchanges name files of wherever the agent runs; none of them is read here.
        client = await closing.enter_async_context(
            connect(store=store, tracking=False, audit=app.audit_folder())
        )
        recorder = ExchangeRecorder(client, store)
        closing.push_async_callback(recorder.close)
        queue = RecordQueue(recorder.record)
        upstream = Upstream()
        closing.push_async_callback(upstream.close)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}" + (f"/{secret}" if secret else "")
        proxy = RunningProxy(
            url=url,
            pid=os.getpid(),
            store=(await store.status()).url,
            upstreams={str(name): redact_url(address) for name, address in upstreams.items()},
        )
        settings = proxy_settings(
            record_only=record_only, fidelity=fidelity, memory=memory, knowledge=knowledge
        )
        engine: Engine = PassThrough()
        if not record_only:
            opening = await opening_of(app, memory=memory, knowledge=knowledge)
            shaping = ShapingEngine(store, fidelity=fidelity, opening=opening)
            closing.push_async_callback(shaping.close)
            engine = shaping
        application = ProxyApplication(
            engine=engine,
            upstream=upstream,
            urls=upstreams,
            guard=ProxyGuard(secret),
            sink=queue,
            traffic=Traffic(describe=lambda: _description(proxy, queue, settings)),
            prove=proxy.proof,
        )
        tasks = (
            asyncio.create_task(queue.run()),
            asyncio.create_task(serve_application(_config(application), listener)),
        )
        if announced:
            announce(state_dir(), proxy)
        try:
            yield proxy
        finally:
            withdraw(state_dir(), proxy)
            tasks[1].cancel()
            with suppress(asyncio.CancelledError):
                await tasks[1]
            await queue.drained()
            tasks[0].cancel()


def proxy_settings(
    *, record_only: bool, fidelity: float, memory: Path | None, knowledge: Path | None
) -> dict[str, Any]:
    """Return what a proxy reports of its settings: agents join one that has the same."""
    return {
        "record_only": record_only,
        "fidelity": fidelity,
        "memory": None if memory is None else _folder("memory", memory),
        "knowledge": None if knowledge is None else _folder("knowledge", knowledge),
    }


def _folder(option: str, path: Path) -> str:
    """Return a folder's full path: a mistyped one would begin conversations with nothing."""
    if not path.is_dir():
        raise Incorrect(f"--{option} {path}: there is no such folder")
    return str(path.resolve())


def _description(
    proxy: RunningProxy, queue: RecordQueue, settings: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "pid": proxy.pid,
        "store": proxy.store,
        "upstreams": proxy.upstreams,
        **settings,
        "records": {
            "recorded": queue.recorded,
            "waiting": queue.waiting,
            "dropped": queue.dropped,
            "failed": queue.failed,
        },
    }


def _config(application: ProxyApplication) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        ws="none",
        http=DeadlineProtocol,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=ENDING_SECONDS,
    )
