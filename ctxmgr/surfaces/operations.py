"""Every operation ctxmgr offers, once. Surfaces are derived from this list; see ``catalogue``.

What an operation needs is imported when it runs, so that listing them all stays cheap.
"""

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.catalogue import Operation, Param
from ctxmgr.surfaces.completion_operation import completion
from ctxmgr.surfaces.extras import brought_by
from ctxmgr.surfaces.hook_operation import hook
from ctxmgr.surfaces.object_operations import as_of, diff, show
from ctxmgr.surfaces.recall_operation import recall
from ctxmgr.surfaces.recorded_operations import cache, import_recorded
from ctxmgr.surfaces.run_operation import run
from ctxmgr.surfaces.server_operations import xtdb_down, xtdb_status, xtdb_up
from ctxmgr.surfaces.session_operations import (
    activate,
    context,
    deactivate,
    export_bundle,
    fork,
    import_bundle,
    log,
    objects,
    pin,
    sessions,
    timeline,
    turn,
    unpin,
)
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
from ctxmgr.surfaces.token_operation import token

if TYPE_CHECKING:
    from ctxmgr.app import App
    from ctxmgr.bench.report import Report
    from ctxmgr.harness.chapters import Demo
    from ctxmgr.surfaces.doctor import Finding


async def demo(
    app: "App",
    *,
    xtdb: Annotated[bool, Param("On an XTDB server that is started for it and ended.")] = False,
) -> "Demo":
    """Watch a scripted agent at work in a sandbox, in under a minute.

    Its store is gone afterwards. With --store it runs there instead, and leaves its objects behind
    under ids of their own.
    """
    from ctxmgr.harness.demo import run_demo
    from ctxmgr.surfaces.server_operations import own_server

    given = app.loaded.origins["store"] == "flag"
    if not xtdb:
        return await run_demo(app.loaded.settings.store if given else None, say=app.say)
    if given:
        raise Incorrect("--xtdb starts a server of its own: leave out --store")
    async with own_server(say=app.say) as url:
        return await run_demo(url, say=app.say, kept=False)


async def bench(
    app: "App",
    name: Annotated[Literal["stores", "core", "economy", "surfaces"], Param("Which benchmark.")],
    folder: Annotated[Path | None, Param("Of economy: a folder of recorded sessions.")] = None,
    *,
    quick: Annotated[bool, Param("A short run; the figures are rough.")] = False,
    report_only: Annotated[bool, Param("End with 0 whatever the figures are.")] = False,
    histories: Annotated[
        int | None, Param("Of stores: random histories to compare both on.")
    ] = None,
    picture: Annotated[Path | None, Param("Of economy: where to draw the longest session.")] = None,
) -> "Report":
    """Measure ctxmgr beside the plainest way to do the same, in one run."""
    module = import_module(f"ctxmgr.bench.{name}")
    own = {"folder": folder, "picture_file": picture}
    given = {option: value for option, value in own.items() if value is not None}
    if given and name != "economy":
        raise Incorrect(f"the benchmark of {name} takes no folder and draws no picture")
    report: Report = await module.run(quick=quick, histories=histories, say=app.say, **given)
    return replace(report, report_only=report_only)


async def serve(
    app: "App",
    *,
    host: Annotated[str, Param("The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Param("The port; 0 takes a free one.")] = 8321,
    read_only: Annotated[bool, Param("Refuse whatever writes.")] = False,
    require_token: Annotated[
        bool, Param("Ask for a token on loopback too; elsewhere one is always needed.")
    ] = False,
    rate: Annotated[
        int, Param("Requests a second of one client, on average.", metavar="NUMBER")
    ] = 500,
    no_open: Annotated[bool, Param("Do not open the inspector in a browser.")] = False,
) -> None:
    """Serve the store over HTTP, and its inspector, until it is interrupted.

    Prints where it listens, and opens the inspector there in the browser of whoever sits at the
    terminal. Beyond loopback a token is needed, which `ctxmgr token` makes; put a
    proxy with TLS before it there. SIGTERM and Ctrl-C end the event streams, finish what was
    begun and close the store.
    """
    with brought_by("serve", "starlette", "uvicorn"):
        from ctxmgr.surfaces.serving import Address, serve_until_cancelled

    if rate < 1:
        raise Incorrect(f"--rate is a number of requests, from 1, not {rate}")
    await serve_until_cancelled(
        app,
        Address(host, port),
        operations=OPERATIONS,
        read_only=read_only,
        require_token=require_token,
        rate_per_second=rate,
        open_inspector=not no_open,
    )


async def doctor(app: "App") -> "list[Finding]":
    """Tell what is installed and works here, and where the settings came from."""
    from ctxmgr.surfaces.doctor import examine

    return await examine(app.loaded)


async def mcp(
    app: "App",
    *,
    session: Annotated[
        str | None, Param("Bind the server to this session; no tool names one then.")
    ] = None,
    tools: Annotated[
        str | None, Param("Which tools, with commas between; at most eight.", metavar="NAMES")
    ] = None,
    http: Annotated[bool, Param("Serve streamable HTTP on this machine, not stdio.")] = False,
    port: Annotated[int, Param("Where HTTP listens; 0 takes a free port.")] = 0,
) -> None:
    """Serve the store to agents over the Model Context Protocol.

    By default over standard input and output, until the input ends. The tools are activate,
    deactivate, pin, unpin, recall, show, as_of and status; objects are resources. Needs the extra
    ctxmgr[mcp].
    """
    from ctxmgr.surfaces.mcp_serving import serve_mcp

    await serve_mcp(app, OPERATIONS, session=session, tools=tools, port=port if http else None)


OPERATIONS: Final = (
    Operation(run=sessions, name="sessions", writes=False, example="ctxmgr sessions --limit 5"),
    Operation(run=show, name="show", writes=False, example="ctxmgr show s1"),
    Operation(
        run=objects, name="objects", writes=False, example="ctxmgr objects s1 --level active"
    ),
    Operation(run=log, name="log", writes=False, example="ctxmgr log s1 --limit 5"),
    Operation(run=timeline, name="timeline", writes=False, example="ctxmgr timeline s1 --limit 20"),
    Operation(run=turn, name="turn", writes=False, example="ctxmgr turn s1 7"),
    Operation(run=diff, name="diff", writes=False, example="ctxmgr diff s1 --from-turn 3"),
    Operation(
        run=as_of,
        name="as-of",
        writes=False,
        example="ctxmgr as-of s1 2026-11-16T10:00:00Z",
    ),
    Operation(
        run=context,
        name="context",
        writes=False,
        example="ctxmgr context s1 --turn 3 --form anthropic",
    ),
    Operation(
        run=activate, name="activate", writes=True, example="ctxmgr activate s1 /workspace/notes.md"
    ),
    Operation(
        run=deactivate, name="deactivate", writes=True, example="ctxmgr deactivate s1 call-7"
    ),
    Operation(run=pin, name="pin", writes=True, example="ctxmgr pin s1 /workspace/notes.md"),
    Operation(run=unpin, name="unpin", writes=True, example="ctxmgr unpin s1 /workspace/notes.md"),
    Operation(run=recall, name="recall", writes=False, example="ctxmgr recall s1 'port 8080'"),
    Operation(run=fork, name="fork", writes=True, example="ctxmgr fork s1 --turn 3 s2"),
    Operation(run=export_bundle, name="export", writes=False, example="ctxmgr export s1 s1.bundle"),
    Operation(run=import_bundle, name="import", writes=True, example="ctxmgr import s1.bundle"),
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
    Operation(
        run=import_recorded,
        name="import-recorded",
        writes=True,
        example="ctxmgr import-recorded session.jsonl --session review",
    ),
    Operation(run=cache, name="cache", writes=False, example="ctxmgr cache s1 --last 20"),
    Operation(
        run=run,
        name="run",
        writes=True,
        example="ctxmgr run 'make the tests pass' --workspace . --model claude-sonnet-4-5",
        streams=True,
        succeeded=lambda report: report.done,
        interrupted=lambda report: report.interrupted,
    ),
    Operation(
        run=hook,
        name="hook",
        writes=True,
        example="ctxmgr hook < event.json",
        streams=True,
        failure=1,
    ),
    Operation(
        run=mcp, name="mcp", writes=True, example="ctxmgr mcp --session review", streams=True
    ),
    Operation(
        run=demo,
        name="demo",
        writes=True,
        example="ctxmgr demo",
        succeeded=lambda told: told.mended and told.proven,
    ),
    Operation(
        run=bench,
        name="bench",
        writes=True,
        example="ctxmgr bench stores --quick",
        uses_store=False,
        succeeded=lambda report: report.report_only or not report.misses,
    ),
    Operation(
        run=serve, name="serve", writes=False, example="ctxmgr serve --port 8321", streams=True
    ),
    Operation(
        run=token,
        name="token",
        writes=True,
        example="ctxmgr token --session s1 --days 7",
        uses_store=False,
    ),
    Operation(run=doctor, name="doctor", writes=False, example="ctxmgr doctor"),
    Operation(
        run=completion,
        name="completion",
        writes=False,
        example="ctxmgr completion bash >> ~/.bash_completion",
        uses_store=False,
        streams=True,
    ),
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
