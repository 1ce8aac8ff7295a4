"""The operations of the context manager itself, and of the programs around it.

An operation imports what it needs when it runs, so that listing all of them stays cheap.
"""

from typing import Final

from ctxmgr.surfaces.operation import Operation
from ctxmgr.surfaces.operations.access_tokens import token
from ctxmgr.surfaces.operations.agents.harness import (
    end_turn,
    record_call,
    render_prompt,
    start_session,
)
from ctxmgr.surfaces.operations.agents.hook import hook
from ctxmgr.surfaces.operations.agents.proxy import (
    proxy,
    proxy_request,
    proxy_requests,
    proxy_status,
)
from ctxmgr.surfaces.operations.agents.setup import setup
from ctxmgr.surfaces.operations.agents.wrap import wrap
from ctxmgr.surfaces.operations.bench import bench
from ctxmgr.surfaces.operations.completion import completion
from ctxmgr.surfaces.operations.demo import demo
from ctxmgr.surfaces.operations.doctor import doctor
from ctxmgr.surfaces.operations.objects import as_of, diff, show
from ctxmgr.surfaces.operations.recall import recall, search
from ctxmgr.surfaces.operations.recordings import cache, import_recorded
from ctxmgr.surfaces.operations.run import run
from ctxmgr.surfaces.operations.sessions import (
    activate,
    calls,
    comment,
    compact,
    compare,
    context,
    deactivate,
    delete,
    export_bundle,
    fork,
    import_bundle,
    log,
    objects,
    pause,
    pin,
    rename,
    restore,
    sessions,
    timeline,
    turn,
    unfold,
    unpin,
    usage,
)
from ctxmgr.surfaces.operations.store import (
    backup,
    feed,
    find,
    get,
    history,
    purge,
    purges,
    size,
    status,
    vacuum,
    verify,
)
from ctxmgr.surfaces.operations.trust import trust
from ctxmgr.surfaces.operations.xtdb import xtdb_down, xtdb_status, xtdb_up

CORE_OPERATIONS: Final = (
    Operation(run=sessions, name="sessions", writes=False, example="ctxmgr sessions --limit 5"),
    Operation(
        run=delete,
        name="delete",
        group="sessions",
        writes=True,
        example="ctxmgr sessions delete s1",
    ),
    Operation(
        run=restore,
        name="restore",
        group="sessions",
        writes=True,
        example="ctxmgr sessions restore s1",
    ),
    Operation(
        run=rename,
        name="rename",
        group="sessions",
        writes=True,
        example="ctxmgr sessions rename s1 'review of the parser'",
    ),
    Operation(
        run=pause,
        name="pause",
        group="sessions",
        writes=True,
        example="ctxmgr sessions pause s1",
    ),
    Operation(run=purge, name="purge", writes=True, example="ctxmgr purge s1 --dry-run"),
    Operation(run=show, name="show", writes=False, example="ctxmgr show s1"),
    Operation(
        run=objects, name="objects", writes=False, example="ctxmgr objects s1 --level active"
    ),
    Operation(
        run=log,
        name="log",
        writes=False,
        example="ctxmgr log s1 --limit 5",
        streams=True,
        json_lines=True,
    ),
    Operation(run=timeline, name="timeline", writes=False, example="ctxmgr timeline s1 --limit 20"),
    Operation(run=turn, name="turn", writes=False, example="ctxmgr turn s1 7"),
    Operation(run=unfold, name="unfold", writes=False, example="ctxmgr unfold s1 12 --turn 7"),
    Operation(run=calls, name="calls", writes=False, example="ctxmgr calls s1 --failed"),
    Operation(run=usage, name="usage", writes=False, example="ctxmgr usage s1"),
    Operation(run=compare, name="compare", writes=False, example="ctxmgr compare s1 s2"),
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
    Operation(
        run=recall,
        name="recall",
        writes=False,
        example="ctxmgr recall s1 'port 8080'",
        text=lambda view: view.text,
    ),
    Operation(
        run=search,
        name="search",
        writes=False,
        example="ctxmgr search 'port 8080' --project",
        text=lambda view: view.text,
    ),
    Operation(
        run=comment,
        name="comment",
        writes=True,
        example="ctxmgr comment s1 3 'It read the wrong file here.'",
    ),
    Operation(run=compact, name="compact", writes=True, example="ctxmgr compact s1"),
    Operation(run=fork, name="fork", writes=True, example="ctxmgr fork s1 --turn 3 s2"),
    Operation(run=export_bundle, name="export", writes=False, example="ctxmgr export s1 s1.bundle"),
    Operation(run=import_bundle, name="import", writes=True, example="ctxmgr import s1.bundle"),
    Operation(
        run=status, name="status", group="store", writes=False, example="ctxmgr store status"
    ),
    Operation(
        run=get,
        name="get",
        group="store",
        writes=False,
        example="ctxmgr store get chat:s1 --valid-time 2026-11-16T10:00:00Z",
    ),
    Operation(
        run=history,
        name="history",
        group="store",
        writes=False,
        example="ctxmgr store history chat:s1 --newest-first",
    ),
    Operation(
        run=find,
        name="find",
        group="store",
        writes=False,
        example="ctxmgr store find toolcall status=fail --limit 5",
    ),
    Operation(
        run=feed, name="feed", group="store", writes=False, example="ctxmgr store feed --limit 5"
    ),
    Operation(
        run=verify,
        name="verify",
        group="store",
        writes=False,
        example="ctxmgr store verify",
        succeeded=lambda result: not result.faults,
    ),
    Operation(
        run=backup,
        name="backup",
        group="store",
        writes=False,
        example="ctxmgr store backup copy.db",
    ),
    Operation(run=size, name="size", group="store", writes=False, example="ctxmgr store size"),
    Operation(
        run=purges, name="purges", group="store", writes=False, example="ctxmgr store purges"
    ),
    Operation(run=vacuum, name="vacuum", group="store", writes=True, example="ctxmgr store vacuum"),
    Operation(
        run=import_recorded,
        name="import-recorded",
        writes=True,
        example="ctxmgr import-recorded session.jsonl --session review",
    ),
    Operation(
        run=start_session,
        name="harness start",
        writes=True,
        path="/start",
        example="ctxmgr harness start s1 --system-prompt 'You are careful.'",
    ),
    Operation(
        run=render_prompt,
        name="harness render",
        writes=True,
        path="/render",
        example="ctxmgr harness render s1 --user 'What is in a.txt?' --form openai",
    ),
    Operation(
        run=record_call,
        name="harness record",
        writes=True,
        path="/record",
        example='ctxmgr harness record s1 call_1 read --args \'{"path": "a.txt"}\' --output x',
    ),
    Operation(
        run=end_turn,
        name="harness end-turn",
        writes=True,
        path="/end-turn",
        example="ctxmgr harness end-turn s1 --turn 1 --user hello --answer hi",
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
        run=setup,
        name="setup",
        writes=True,
        example="ctxmgr setup claude-code --print",
        text=lambda report: report.text,
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
        run=demo,
        name="demo",
        streams=True,
        writes=True,
        example="ctxmgr demo",
        succeeded=lambda report: report.fixed and report.proven,
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
        run=proxy, name="proxy", writes=True, example="ctxmgr proxy --port 8322", streams=True
    ),
    Operation(
        run=proxy_status,
        name="proxy status",
        writes=False,
        example="ctxmgr proxy status",
        uses_store=False,
    ),
    Operation(
        run=proxy_requests,
        name="proxy requests",
        writes=False,
        example="ctxmgr proxy requests proxy-0f3a",
    ),
    Operation(
        run=proxy_request,
        name="proxy request",
        writes=False,
        example="ctxmgr proxy request proxy-0f3a 12",
    ),
    Operation(
        run=wrap,
        name="wrap",
        writes=True,
        example="ctxmgr wrap claude -- --model sonnet",
        streams=True,
        exit_code=lambda report: report.exit_code,
    ),
    Operation(
        run=token,
        name="token",
        writes=True,
        example="ctxmgr token --session s1 --days 7",
        uses_store=False,
    ),
    Operation(run=trust, name="trust", writes=True, example="ctxmgr trust", uses_store=False),
    Operation(run=doctor, name="doctor", writes=False, example="ctxmgr doctor"),
    Operation(
        run=completion,
        name="completion",
        writes=False,
        example="ctxmgr completion bash >> ~/.bash_completion",
        uses_store=False,
        text=lambda script: script.script,
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
