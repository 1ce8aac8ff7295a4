"""Benchmarks of the HTTP API: a get against the store call it wraps, and many event listeners.

The server is a separate process. Listeners and writer share this process, so on a small machine
they are the bottleneck.
"""

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final
from urllib.parse import quote, urlsplit

from ctxmgr.bench.report import Figure, Say, within
from ctxmgr.core.objects.codec import KINDS, to_document
from ctxmgr.core.objects.toolcall import ToolCall
from ctxmgr.core.store.contract import Put
from ctxmgr.errors import Unavailable
from ctxmgr.stores.sqlite.store import SqliteStore

GET_BOUND_MS: Final = 1.5
LAG_BOUND_SECONDS: Final = 2.0
LISTENERS: Final = 200
EVENTS_PER_SECOND: Final = 100
EVENTS_PER_WRITE: Final = 10

_ROUNDS: Final = 9
_WAIT_SECONDS: Final = 60
_SERVER: Final = "from ctxmgr.surfaces.terminal.cli import main; main()"


async def http_figures(*, quick: bool, say: Say) -> list[Figure]:
    """Measure in a folder of the working directory, because /tmp may be in memory."""
    with TemporaryDirectory(prefix="ctxmgr-bench-", dir=Path.cwd()) as folder:
        path = Path(folder) / "served.db"
        async with (
            await SqliteStore.open(path, kinds=KINDS) as store,
            own_server(path) as url,
        ):
            say("HTTP: gets")
            figures = [await _gets(store, url, gets=50 if quick else 200)]
            say(f"HTTP: {LISTENERS} listeners")
            figures.append(await _listeners(store, url, seconds=2 if quick else 10))
    return figures


async def _gets(store: SqliteStore, url: str, *, gets: int) -> Figure:
    """Both sides alternate; the medians of single calls are compared."""
    await store.commit([Put(_call("read"))])
    host = urlsplit(url).netloc
    path = f"/get?object_id={quote('read')}"
    ours: list[float] = []
    bare: list[float] = []
    connection = HTTPConnection(host)

    def over_http() -> None:
        for _ in range(gets):
            started = perf_counter()
            connection.request("GET", path)
            response = connection.getresponse()
            response.read()
            ours.append(perf_counter() - started)

    for _ in range(_ROUNDS):
        await asyncio.to_thread(over_http)
        for _ in range(gets):
            started = perf_counter()
            await store.get("read")
            bare.append(perf_counter() - started)
    connection.close()
    over, under = median(ours) * 1000, median(bare) * 1000
    return within(
        "HTTP get of an object, p50",
        over - under,
        bound=GET_BOUND_MS,
        unit="ms more",
        against="the store call it wraps (http.client, keep-alive)",
        note=f"{over:.2f} ms, store {under:.3f} ms",
    )


async def _listeners(store: SqliteStore, url: str, *, seconds: int) -> Figure:
    names = [f"event-{number}" for number in range(seconds * EVENTS_PER_SECOND)]
    ready = asyncio.Semaphore(0)
    listening = [
        asyncio.create_task(_listen(url, count=len(names), ready=ready)) for _ in range(LISTENERS)
    ]
    for _ in listening:
        await asyncio.wait_for(ready.acquire(), _WAIT_SECONDS)
    for start in range(0, len(names), EVENTS_PER_WRITE):
        due = asyncio.create_task(asyncio.sleep(EVENTS_PER_WRITE / EVENTS_PER_SECOND))
        puts = [Put(_call(name)) for name in names[start : start + EVENTS_PER_WRITE]]
        await store.commit(puts)
        await due
    ended = perf_counter()
    received = await asyncio.wait_for(asyncio.gather(*listening), _WAIT_SECONDS)
    lag = max(0.0, max(last for _, last in received) - ended)
    in_order = all(object_ids == names for object_ids, _ in received)
    figure = within(
        f"{LISTENERS} listeners, {EVENTS_PER_SECOND} events a second for {seconds} s",
        lag,
        bound=LAG_BOUND_SECONDS,
        unit="s after the last",
        against="the last event's commit, all received in order",
        note=f"{EVENTS_PER_WRITE} events share a commit",
    )
    if in_order:
        return figure
    note = "a listener missed an event, or received events in a different order"
    return replace(figure, value=None, meets=False, note=note)


async def _listen(url: str, *, count: int, ready: asyncio.Semaphore) -> tuple[list[str], float]:
    """Receive ``count`` events; return their object ids, and the time of the last."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(f"GET /events HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode())
    object_ids: list[str] = []
    try:
        while len(object_ids) < count:
            line = await reader.readline()
            if line.startswith(b": listening"):
                ready.release()
            elif not line:
                return object_ids, perf_counter()
            elif line.startswith(b"data: "):
                match = _OBJECT.search(line)
                object_ids.append(match[1].decode() if match else "")
        return object_ids, perf_counter()
    finally:
        writer.close()


_OBJECT: Final = re.compile(rb'"object_id":"([^"]*)"')


def _call(name: str) -> dict[str, object]:
    call = ToolCall(
        toolcall_id=name,
        tool="bash",
        args={"command": "make test"},
        status="ok",
        chat_ref="chat:bench",
        content="............ 12 passed in 0.31 s",
    )
    return dict(to_document(call))


@asynccontextmanager
async def own_server(path: Path) -> AsyncIterator[str]:
    """Run a server on a free port; it ends with the context."""
    words = (
        "serve",
        "--no-open",
        "--port",
        "0",
        "--rate",
        "1000000",
        "--store",
        f"sqlite:///{path}",
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _SERVER, *words, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), _WAIT_SECONDS)
        url = re.search(rb"http://\S+", line)
        if url is None:
            raise Unavailable("the server did not start; run `ctxmgr serve` to see the reason")
        yield url[0].decode()
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
