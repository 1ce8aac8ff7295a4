"""An XTDB server of a benchmark's own, with a tap on the line to it. Starts processes."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urlsplit

import httpx

from ctxmgr.bench.report import Say
from ctxmgr.bench.wiretap import Wiretap, tapped
from ctxmgr.core.objects import KINDS
from ctxmgr.settings import cache_dir
from ctxmgr.stores.xtdb import XtdbStore
from ctxmgr.stores.xtdb_process import XtdbProcess

EDN: Final = {"Content-Type": "application/edn", "Accept": "application/edn"}


@dataclass(frozen=True, slots=True)
class OwnXtdb:
    """What a benchmark measures with."""

    store: XtdbStore
    tap: Wiretap
    direct: httpx.AsyncClient
    """Straight to the server."""
    base: str
    data_dir: Path


@asynccontextmanager
async def own_xtdb(say: Say) -> AsyncIterator[OwnXtdb]:
    """Start a server on RocksDB, and stop it at the end."""
    with TemporaryDirectory(prefix="ctxmgr-bench-") as folder:
        data_dir = Path(folder) / "data"
        server = XtdbProcess(
            state_dir=Path(folder) / "state",
            data_dir=data_dir,
            lib_dir=cache_dir() / "xtdb",
            say=say,
        )
        status = await server.up(config="rocksdb", port=0)
        assert status.url is not None
        try:
            async with tapped_xtdb(status.url, data_dir=data_dir) as xtdb:
                yield xtdb
        finally:
            await server.down()


@asynccontextmanager
async def tapped_xtdb(url: str, *, data_dir: Path) -> AsyncIterator[OwnXtdb]:
    """Measure with a server that runs."""
    base = url.removeprefix("xtdb+")
    async with AsyncExitStack() as stack:
        tap = await stack.enter_async_context(tapped(urlsplit(base).port or 0))
        opened = await XtdbStore.open(f"xtdb+http://127.0.0.1:{tap.port}", kinds=KINDS)
        store = await stack.enter_async_context(opened)
        direct = await stack.enter_async_context(httpx.AsyncClient(base_url=base))
        yield OwnXtdb(store, tap, direct, base, data_dir)
