"""``ctxmgr demo``: a scripted agent at work. Imports the harness when it runs."""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from ctxmgr.core.private_files import make_private_folder
from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.operation import Param

if TYPE_CHECKING:
    from ctxmgr.app import App
    from ctxmgr.harness.demo.report import Demo

KEPT: Final = "demo.db"
"""The store of demos, in the data directory; each demo is a new session."""


async def demo(
    app: "App",
    *,
    xtdb: Annotated[bool, Param("Use a temporary XTDB server.")] = False,
) -> "Demo":
    """Watch a scripted agent at work in a sandbox.

    Every turn shows the size of its prompt, and that of an append-only one. The session is kept in
    a store of its own, or in that of --store, to be looked at with `ctxmgr serve`.
    """
    from ctxmgr.harness.demo.demo import run_demo
    from ctxmgr.settings import data_dir
    from ctxmgr.surfaces.operations.xtdb import temporary_server

    has_store, program = app.loaded.origins["store"] == "flag", _program()
    if xtdb and has_store:
        raise Incorrect("--xtdb cannot be combined with --store")
    if xtdb:
        async with temporary_server(say=lambda text: app.write(f"{text}\n")) as url:
            return await run_demo(url, on_part=app.show, kept=False, program=program)
    if has_store:
        url = app.loaded.settings.store
    else:
        make_private_folder(data_dir())
        url = f"sqlite:///{data_dir() / KEPT}"
    return await run_demo(url, on_part=app.show, program=program)


def _program() -> str:
    """Return how the reader starts this program: by its name, or by its path if that differs."""
    started = Path(sys.argv[0]).absolute()
    found = shutil.which(started.name)
    if found is not None and Path(found).absolute() == started:
        return started.name
    here = Path.cwd()
    return str(started.relative_to(here) if started.is_relative_to(here) else started)
