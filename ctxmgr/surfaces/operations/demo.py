"""``ctxmgr demo``: a scripted agent at work. Imports the harness when it runs."""

from typing import TYPE_CHECKING, Annotated

from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.operation import Param

if TYPE_CHECKING:
    from ctxmgr.app import App
    from ctxmgr.harness.demo.report import Demo


async def demo(
    app: "App",
    *,
    xtdb: Annotated[bool, Param("Use a temporary XTDB server.")] = False,
) -> "Demo":
    """Watch a scripted agent fix a small project in a sandbox.

    It uses a temporary store. With --store it uses that one instead, and leaves its objects there
    under new ids.
    """
    from ctxmgr.harness.demo.demo import run_demo
    from ctxmgr.surfaces.operations.xtdb import temporary_server

    has_store = app.loaded.origins["store"] == "flag"
    if not xtdb:
        return await run_demo(app.loaded.settings.store if has_store else None, say=app.say)
    if has_store:
        raise Incorrect("--xtdb cannot be combined with --store")
    async with temporary_server(say=app.say) as url:
        return await run_demo(url, say=app.say, kept=False)
