"""Operations on the XTDB server of one's own. They start and stop processes, not the store."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

from ctxmgr.surfaces.catalogue import Param

if TYPE_CHECKING:
    from ctxmgr.app import App
    from ctxmgr.stores.xtdb_process import ServerStatus, XtdbProcess


async def xtdb_up(
    app: "App",
    *,
    config: Annotated[
        str | None, Param("rocksdb (the default), memory, postgres or a file.", metavar="CONFIG")
    ] = None,
    port: Annotated[int | None, Param("Where it listens; 0 takes a free port.")] = None,
) -> "ServerStatus":
    """Start an XTDB server in the background and print its URL.

    Fetches what it needs the first time (Java and Maven must be installed), then waits until the
    server is ready. Started again, it only prints the URL. With a token in the settings, clients
    must show it.
    """
    return await _process(app).up(config=config, port=port)


async def xtdb_down(app: "App") -> "ServerStatus":
    """Stop the XTDB server that `ctxmgr xtdb up` started."""
    return await _process(app).down()


async def xtdb_status(app: "App") -> "ServerStatus":
    """Tell whether that XTDB server runs, and where."""
    return _process(app).status()


@asynccontextmanager
async def own_server(*, say: Callable[[str], None]) -> AsyncIterator[str]:
    """Run a server in memory for the while, beside any that runs; give its URL."""
    from ctxmgr.settings import cache_dir
    from ctxmgr.stores.xtdb_process import XtdbProcess

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
    from ctxmgr.stores.xtdb_process import XtdbProcess

    token = app.loaded.settings.token
    return XtdbProcess(
        state_dir=state_dir() / "xtdb",
        data_dir=data_dir() / "xtdb",
        lib_dir=cache_dir() / "xtdb",
        token=token.get_secret_value() if token else None,
        say=app.say,
    )
