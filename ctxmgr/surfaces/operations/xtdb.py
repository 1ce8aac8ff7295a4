"""Operations on a local XTDB server. They start and stop processes; they open no store."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

from ctxmgr.errors import requires_extra
from ctxmgr.surfaces.operation import Param

if TYPE_CHECKING:
    from ctxmgr.app import App
    from ctxmgr.stores.xtdb.server_process import ServerStatus, XtdbProcess


async def xtdb_up(
    app: "App",
    *,
    config: Annotated[
        str | None, Param("rocksdb (the default), memory, postgres or a file.", metavar="CONFIG")
    ] = None,
    port: Annotated[int | None, Param("The port to listen on; 0 takes a free one.")] = None,
) -> "ServerStatus":
    """Start an XTDB server in the background and print its URL.

    Downloads its jars the first time (Java and Maven must be installed), then waits until the
    server is ready. If it is running already, only prints the URL. With a token in the settings,
    clients must send it.
    """
    return await _process(app).up(config=config, port=port)


async def xtdb_down(app: "App") -> "ServerStatus":
    """Stop the XTDB server that `ctxmgr xtdb up` started."""
    return await _process(app).down()


async def xtdb_status(app: "App") -> "ServerStatus":
    """Show whether that XTDB server is running, and its URL."""
    return _process(app).status()


@asynccontextmanager
async def temporary_server(*, say: Callable[[str], None]) -> AsyncIterator[str]:
    """Run a temporary in-memory server and yield its URL; other servers may be running."""
    from ctxmgr.settings import cache_dir
    from ctxmgr.stores.xtdb.server_process import XtdbProcess

    with requires_extra("xtdb", "edn_format"):  # before a server is started for nothing
        import_module("ctxmgr.stores.xtdb.store")
    with TemporaryDirectory(prefix="ctxmgr-xtdb-") as folder:
        server = XtdbProcess(
            state_dir=Path(folder) / "state",
            data_dir=Path(folder) / "data",
            lib_dir=cache_dir() / "xtdb",
            say=say,
        )
        status = await server.up(config="memory", port=0)
        try:
            assert status.url is not None
            yield status.url
        finally:
            await server.down()


def _process(app: "App") -> "XtdbProcess":
    from ctxmgr.settings import cache_dir, data_dir, state_dir
    from ctxmgr.stores.xtdb.server_process import XtdbProcess

    app.loaded.require_trusted("token")
    token = app.loaded.settings.token
    return XtdbProcess(
        state_dir=state_dir() / "xtdb",
        data_dir=data_dir() / "xtdb",
        lib_dir=cache_dir() / "xtdb",
        token=token.get_secret_value() if token else None,
        say=app.say,
    )
