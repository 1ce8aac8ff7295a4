"""Every operation ctxmgr offers, once. Surfaces are derived from this list; see ``catalogue``.

What an operation needs is imported when it runs, so that listing them all stays cheap.
"""

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Final, Literal

from ctxmgr.surfaces.catalogue import Operation, Param
from ctxmgr.surfaces.server_operations import xtdb_down, xtdb_status, xtdb_up
from ctxmgr.surfaces.store_operations import (
    backup,
    feed,
    find,
    get,
    history,
    status,
    vacuum,
    verify,
)

if TYPE_CHECKING:
    from ctxmgr.app import App
    from ctxmgr.bench.report import Report
    from ctxmgr.harness.demo import Demo
    from ctxmgr.surfaces.doctor import Finding


async def demo(app: "App") -> "Demo":
    """Show the main job on a throw-away store, in under a minute.

    With --store it runs there instead, and leaves its objects behind under ids of their own.
    """
    from ctxmgr.harness.demo import run_demo

    given = app.loaded.origins["store"] == "flag"
    return await run_demo(app.loaded.settings.store if given else None, say=app.say)


async def bench(
    app: "App",
    name: Annotated[Literal["stores", "core"], Param("Which benchmark.")],
    *,
    quick: Annotated[bool, Param("A short run; the figures are rough.")] = False,
    report_only: Annotated[bool, Param("End with 0 whatever the figures are.")] = False,
    histories: Annotated[
        int | None, Param("Of stores: random histories to compare both on.")
    ] = None,
) -> "Report":
    """Measure ctxmgr beside the plainest way to do the same, in one run."""
    module = import_module(f"ctxmgr.bench.{name}")
    report: Report = await module.run(quick=quick, histories=histories, say=app.say)
    return replace(report, report_only=report_only)


async def doctor(app: "App") -> "list[Finding]":
    """Tell what is installed here and where the settings came from."""
    from ctxmgr.surfaces.doctor import examine

    return await examine(app.loaded)


OPERATIONS: Final = (
    Operation(run=status, name="status", writes=False, example="ctxmgr status"),
    Operation(
        run=get,
        name="get",
        writes=False,
        example="ctxmgr get chat:s1 --valid-time 2026-11-16T10:00:00Z",
    ),
    Operation(
        run=history, name="history", writes=False, example="ctxmgr history chat:s1 --newest-first"
    ),
    Operation(
        run=find, name="find", writes=False, example="ctxmgr find toolcall status=fail --limit 5"
    ),
    Operation(run=feed, name="feed", writes=False, example="ctxmgr feed --limit 5"),
    Operation(
        run=verify,
        name="verify",
        writes=False,
        example="ctxmgr verify",
        succeeded=lambda result: not result.faults,
    ),
    Operation(run=backup, name="backup", writes=False, example="ctxmgr backup copy.db"),
    Operation(run=vacuum, name="vacuum", writes=True, example="ctxmgr vacuum"),
    Operation(run=demo, name="demo", writes=True, example="ctxmgr demo"),
    Operation(
        run=bench,
        name="bench",
        writes=True,
        example="ctxmgr bench stores --quick",
        uses_store=False,
        succeeded=lambda report: report.report_only or not report.misses,
    ),
    Operation(run=doctor, name="doctor", writes=False, example="ctxmgr doctor"),
    Operation(
        run=xtdb_up,
        name="xtdb up",
        writes=True,
        example="ctxmgr xtdb up --config memory --port 0",
        uses_store=False,
    ),
    Operation(
        run=xtdb_down,
        name="xtdb down",
        writes=True,
        example="ctxmgr xtdb down",
        uses_store=False,
    ),
    Operation(
        run=xtdb_status,
        name="xtdb status",
        writes=False,
        example="ctxmgr xtdb status",
        uses_store=False,
    ),
)
