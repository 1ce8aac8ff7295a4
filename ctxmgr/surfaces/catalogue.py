"""The list of all operations, from which the command line, HTTP API and MCP server are derived.

``GROUPS`` and ``SECTIONS`` arrange the commands: a group is a command with commands below it, a
section is a heading in ``ctxmgr --help``.

An operation imports what it needs when it runs, so that listing all of them stays cheap.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Final

from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.operation import Operation, Param
from ctxmgr.surfaces.operations.access_tokens import token
from ctxmgr.surfaces.operations.bench import bench
from ctxmgr.surfaces.operations.completion import completion
from ctxmgr.surfaces.operations.demo import demo
from ctxmgr.surfaces.operations.doctor import doctor
from ctxmgr.surfaces.operations.hook import hook
from ctxmgr.surfaces.operations.layers.audit import (
    audit_checkpoint,
    audit_export,
    audit_init,
    audit_query,
    audit_status,
    audit_verify,
)
from ctxmgr.surfaces.operations.layers.compile import compile_context, compiled_text
from ctxmgr.surfaces.operations.layers.experience import (
    experience_curves,
    experience_export,
    experience_recall,
    experience_sql,
    experience_status,
)
from ctxmgr.surfaces.operations.layers.experience_tags import (
    experience_bud,
    experience_buds,
    experience_build_pack,
    experience_check_pack,
    experience_comment,
    experience_concepts,
    experience_documents,
    experience_marks,
    experience_sync_documents,
    experience_tag,
    experience_tags,
)
from ctxmgr.surfaces.operations.layers.knowledge import (
    knowledge_blame,
    knowledge_branches,
    knowledge_check,
    knowledge_commit,
    knowledge_diff,
    knowledge_indexed,
    knowledge_init,
    knowledge_learnt,
    knowledge_log,
    knowledge_note,
    knowledge_push,
    knowledge_revert,
    knowledge_show,
    knowledge_status,
    knowledge_tag,
)
from ctxmgr.surfaces.operations.layers.lifecycle import (
    knowledge_review,
    lifecycle_archive,
    lifecycle_check,
    lifecycle_condense,
    lifecycle_extract,
    lifecycle_prune,
    lifecycle_reconstruct,
    lifecycle_replay,
    lifecycle_run,
    lifecycle_status,
)
from ctxmgr.surfaces.operations.layers.memory import (
    memory_add,
    memory_assemble,
    memory_contradictions,
    memory_edit,
    memory_expand,
    memory_feedback,
    memory_forget,
    memory_history,
    memory_list,
    memory_resolve,
    memory_restore,
    memory_search,
    memory_show,
)
from ctxmgr.surfaces.operations.layers.topics import (
    topics_check,
    topics_list,
    topics_log,
    topics_show,
    topics_try,
    topics_tune,
)
from ctxmgr.surfaces.operations.layers.windows import (
    experience_compress,
    experience_package,
    experience_release,
    experience_resolve,
    experience_retain,
    experience_storage,
    experience_submit,
    experience_verify_package,
    experience_windows,
)
from ctxmgr.surfaces.operations.objects import as_of, diff, show
from ctxmgr.surfaces.operations.recall import recall, search
from ctxmgr.surfaces.operations.recordings import cache, import_recorded
from ctxmgr.surfaces.operations.run import run
from ctxmgr.surfaces.operations.sessions import (
    activate,
    calls,
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

if TYPE_CHECKING:
    from ctxmgr.app import App


async def serve(
    app: "App",
    *,
    host: Annotated[str, Param("The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Param("The port; 0 takes a free one.")] = 8321,
    read_only: Annotated[bool, Param("Reject requests that write.")] = False,
    require_token: Annotated[
        bool, Param("Require a token on loopback too; elsewhere one is always required.")
    ] = False,
    rate: Annotated[
        int, Param("Requests per second allowed to one client, on average.", metavar="NUMBER")
    ] = 500,
    no_open: Annotated[bool, Param("Do not open the inspector in a browser.")] = False,
) -> None:
    """Serve the HTTP API and the inspector until interrupted.

    Prints the URL and opens the inspector in a browser, if there is a terminal and a display.
    On an address other than loopback every request needs a token, which `ctxmgr token` creates;
    put a proxy with TLS in front of it. SIGTERM and Ctrl-C end the event streams, finish requests
    in progress and close the store.
    """
    from ctxmgr.surfaces.http.server import ListenAddress, serve_until_cancelled

    if rate < 1:
        raise Incorrect(f"--rate must be at least 1, not {rate}")
    await serve_until_cancelled(
        app,
        ListenAddress(host, port),
        operations=OPERATIONS,
        read_only=read_only,
        require_token=require_token,
        rate_per_second=rate,
        open_inspector=not no_open,
    )


async def mcp(
    app: "App",
    *,
    session: Annotated[
        str | None, Param("Bind the server to this session; its tools then take no session.")
    ] = None,
    all_: Annotated[bool, Param("Let the agent read every session of the store.")] = False,
    tools: Annotated[
        str | None, Param("The tools to offer, separated by commas; at most 8.", metavar="NAMES")
    ] = None,
    http: Annotated[bool, Param("Serve streamable HTTP on loopback, not stdio.")] = False,
    port: Annotated[int, Param("The port for HTTP; 0 takes a free one.")] = 0,
) -> None:
    """Serve sessions to agents over MCP.

    With --session the tools are activate, deactivate, pin, unpin, recall, show and as_of. Without
    it, tools that read the sessions that `ctxmgr run` or `ctxmgr hook` ran in this directory, or
    with --all every session. Uses standard input and output, until the input ends. Requires the
    "mcp" extra.
    """
    from ctxmgr.surfaces.mcp.serve import serve_mcp

    await serve_mcp(
        app,
        OPERATIONS,
        session=session,
        everything=all_,
        tools=tools,
        port=port if http else None,
    )


OPERATIONS: Final = (
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
        run=serve, name="serve", writes=False, example="ctxmgr serve --port 8321", streams=True
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
        run=audit_init,
        name="audit init",
        writes=True,
        example="ctxmgr audit init",
        uses_store=False,
    ),
    Operation(
        run=audit_status,
        name="audit status",
        path="/v1/audit/status",
        writes=False,
        example="ctxmgr audit status",
        uses_store=False,
    ),
    Operation(
        run=audit_verify,
        name="audit verify",
        path="/v1/audit/verify",
        writes=False,
        example="ctxmgr audit verify --from-checkpoint 3",
        uses_store=False,
        succeeded=lambda result: result.verified,
    ),
    Operation(
        run=audit_query,
        name="audit query",
        path="/v1/audit/query",
        writes=True,
        example="ctxmgr audit query --session s1 --kind steering",
        uses_store=False,
    ),
    Operation(
        run=audit_export,
        name="audit export",
        writes=True,
        example="ctxmgr audit export audit-2026-11",
        uses_store=False,
    ),
    Operation(
        run=audit_checkpoint,
        name="audit checkpoint",
        writes=True,
        example="ctxmgr audit checkpoint --keep-days 365",
        uses_store=False,
    ),
    Operation(
        run=compile_context,
        name="compile",
        writes=False,
        example="ctxmgr compile 'how do we deploy?' --why",
        uses_store=False,
        text=compiled_text,
    ),
    Operation(
        run=memory_add,
        name="memory add",
        path="/v1/memory/add",
        writes=True,
        example='ctxmgr memory add "test runner" pytest --kind decision',
    ),
    Operation(
        run=memory_list,
        name="memory list",
        path="/v1/memory/list",
        writes=False,
        example="ctxmgr memory list --kind decision",
    ),
    Operation(
        run=memory_show,
        name="memory show",
        path="/v1/memory/show",
        writes=False,
        example="ctxmgr memory show 3f2a91c4",
    ),
    Operation(
        run=memory_history,
        name="memory history",
        path="/v1/memory/history",
        writes=False,
        example="ctxmgr memory history 3f2a91c4",
    ),
    Operation(
        run=memory_search,
        name="memory search",
        path="/v1/memory/search",
        writes=False,
        example='ctxmgr memory search "which test runner?"',
    ),
    Operation(
        run=memory_expand,
        name="memory expand",
        path="/v1/memory/expand",
        writes=True,
        example="ctxmgr memory expand 3f2a91c4",
    ),
    Operation(
        run=memory_feedback,
        name="memory feedback",
        path="/v1/memory/feedback",
        writes=True,
        example="ctxmgr memory feedback 3f2a91c4 cited",
    ),
    Operation(
        run=memory_edit,
        name="memory edit",
        path="/v1/memory/edit",
        writes=True,
        example="ctxmgr memory edit 3f2a91c4 unittest",
    ),
    Operation(
        run=memory_forget,
        name="memory forget",
        path="/v1/memory/forget",
        writes=True,
        example='ctxmgr memory forget 3f2a91c4 --because "we moved on"',
    ),
    Operation(
        run=memory_restore,
        name="memory restore",
        path="/v1/memory/restore",
        writes=True,
        example="ctxmgr memory restore 3f2a91c4",
    ),
    Operation(
        run=memory_contradictions,
        name="memory contradictions",
        path="/v1/memory/contradictions",
        writes=False,
        example="ctxmgr memory contradictions",
    ),
    Operation(
        run=memory_resolve,
        name="memory resolve",
        path="/v1/memory/resolve",
        writes=True,
        example='ctxmgr memory resolve 9be1f0 b_wins --note "asked the team"',
    ),
    Operation(
        run=memory_assemble,
        name="memory assemble",
        path="/v1/memory/assemble",
        writes=False,
        example="ctxmgr memory assemble --current-file src/shop.py --budget 2000",
    ),
    Operation(
        run=experience_sql,
        name="experience sql",
        writes=False,
        example='ctxmgr experience sql "SELECT role, count(*) FROM timesteps GROUP BY role"',
        uses_store=False,
    ),
    Operation(
        run=experience_recall,
        name="experience recall",
        writes=False,
        path="/v1/xdb/recall",
        example="ctxmgr experience recall --session s1 --kind tool_response",
        uses_store=False,
    ),
    Operation(
        run=experience_status,
        name="experience status",
        writes=False,
        example="ctxmgr experience status --check",
        uses_store=False,
    ),
    Operation(
        run=experience_export,
        name="experience export",
        writes=True,
        example="ctxmgr experience export --parquet experience-2026-11",
        uses_store=False,
    ),
    Operation(
        run=experience_tags,
        name="experience tags",
        writes=False,
        path="/v1/xdb/tags",
        example="ctxmgr experience tags --kind bud",
        uses_store=False,
    ),
    Operation(
        run=experience_tag,
        name="experience tag",
        writes=True,
        path="/v1/xdb/tag",
        example="ctxmgr experience tag surprising --session s1 --ticks 10-20",
        uses_store=False,
    ),
    Operation(
        run=experience_comment,
        name="experience comment",
        writes=True,
        path="/v1/xdb/comment",
        example='ctxmgr experience comment "It gave up here" --timestep-id ts-s1-20',
        uses_store=False,
    ),
    Operation(
        run=experience_curves,
        name="experience curves",
        writes=False,
        path="/v1/xdb/curves",
        example="ctxmgr experience curves s1 --points 100",
        uses_store=False,
    ),
    Operation(
        run=experience_marks,
        name="experience marks",
        writes=False,
        path="/v1/xdb/marks",
        example="ctxmgr experience marks s1 --ticks 10-20",
        uses_store=False,
    ),
    Operation(
        run=experience_buds,
        name="experience buds",
        writes=False,
        path="/v1/xdb/buds",
        example="ctxmgr experience buds --status collecting",
        uses_store=False,
    ),
    Operation(
        run=experience_bud,
        name="experience bud",
        writes=True,
        path="/v1/xdb/bud",
        example="ctxmgr experience bud irony ready",
        uses_store=False,
    ),
    Operation(
        run=experience_concepts,
        name="experience concepts",
        writes=False,
        path="/v1/xdb/concepts",
        example="ctxmgr experience concepts honesty",
        uses_store=False,
    ),
    Operation(
        run=experience_documents,
        name="experience documents",
        writes=False,
        path="/v1/xdb/documents",
        example="ctxmgr experience documents --doc-type specification",
    ),
    Operation(
        run=experience_sync_documents,
        name="experience sync-documents",
        writes=True,
        example="ctxmgr experience sync-documents documents",
    ),
    Operation(
        run=experience_build_pack,
        name="experience build-pack",
        writes=True,
        example="ctxmgr experience build-pack --out wordnet.pack",
        uses_store=False,
    ),
    Operation(
        run=experience_check_pack,
        name="experience check-pack",
        writes=False,
        example="ctxmgr experience check-pack wordnet.pack",
        uses_store=False,
    ),
    Operation(
        run=experience_windows,
        name="experience windows",
        writes=False,
        path="/v1/xdb/windows",
        example="ctxmgr experience windows s1",
        uses_store=False,
    ),
    Operation(
        run=experience_storage,
        name="experience storage",
        writes=False,
        path="/v1/xdb/storage",
        example="ctxmgr experience storage",
        uses_store=False,
    ),
    Operation(
        run=experience_retain,
        name="experience retain",
        writes=True,
        example="ctxmgr experience retain s1 10-20 --reason bud:kindness",
        uses_store=False,
    ),
    Operation(
        run=experience_release,
        name="experience release",
        writes=True,
        example="ctxmgr experience release window-0123456789ab",
        uses_store=False,
    ),
    Operation(
        run=experience_submit,
        name="experience submit",
        writes=True,
        example="ctxmgr experience submit tag-0123456789ab graft-1",
        uses_store=False,
    ),
    Operation(
        run=experience_resolve,
        name="experience resolve",
        writes=True,
        example="ctxmgr experience resolve graft-1 --accepted",
        uses_store=False,
    ),
    Operation(
        run=experience_package,
        name="experience package",
        writes=True,
        example="ctxmgr experience package graft-1",
        uses_store=False,
    ),
    Operation(
        run=experience_verify_package,
        name="experience verify-package",
        writes=False,
        example="ctxmgr experience verify-package exports/graft-1",
        uses_store=False,
    ),
    Operation(
        run=experience_compress,
        name="experience compress",
        writes=True,
        example="ctxmgr experience compress --limit 50000000",
        uses_store=False,
    ),
    Operation(
        run=lifecycle_status,
        name="lifecycle status",
        writes=False,
        path="/v1/lifecycle/status",
        example="ctxmgr lifecycle status --folder notes",
    ),
    Operation(
        run=lifecycle_run,
        name="lifecycle run",
        writes=True,
        path="/v1/lifecycle/run",
        example="ctxmgr lifecycle run --folder notes",
    ),
    Operation(
        run=lifecycle_extract,
        name="lifecycle extract",
        writes=True,
        example="ctxmgr lifecycle extract --dry-run --folder notes",
    ),
    Operation(
        run=lifecycle_replay,
        name="lifecycle replay",
        writes=True,
        example="ctxmgr lifecycle replay --extractor decisions --dry-run",
    ),
    Operation(
        run=lifecycle_condense,
        name="lifecycle condense",
        writes=True,
        example="ctxmgr lifecycle condense weekly --day 2026-11-15 --dry-run",
    ),
    Operation(
        run=lifecycle_prune,
        name="lifecycle prune",
        writes=True,
        example="ctxmgr lifecycle prune --dry-run --folder notes",
    ),
    Operation(
        run=lifecycle_archive,
        name="lifecycle archive",
        writes=True,
        example="ctxmgr lifecycle archive knowledge/reference/old.md",
    ),
    Operation(
        run=lifecycle_reconstruct,
        name="lifecycle reconstruct",
        writes=True,
        example="ctxmgr lifecycle reconstruct decisions-v2 --extractor decisions",
    ),
    Operation(
        run=lifecycle_check,
        name="lifecycle check",
        writes=True,
        example="ctxmgr lifecycle check --project . --folder notes",
        succeeded=lambda result: result.intact,
    ),
    Operation(
        run=knowledge_review,
        name="knowledge review",
        writes=True,
        path="/v1/knowledge/review",
        example="ctxmgr knowledge review --folder notes",
    ),
    Operation(
        run=topics_list,
        name="topics list",
        writes=False,
        path="/v1/topics/list",
        example="ctxmgr topics list --folder notes",
        uses_store=False,
    ),
    Operation(
        run=topics_show,
        name="topics show",
        writes=False,
        path="/v1/topics/show",
        example="ctxmgr topics show deployment --folder notes",
        uses_store=False,
    ),
    Operation(
        run=topics_check,
        name="topics check",
        writes=False,
        path="/v1/topics/check",
        example="ctxmgr topics check --folder notes",
        uses_store=False,
        succeeded=lambda result: not result.errors,
    ),
    Operation(
        run=topics_try,
        name="topics try",
        writes=False,
        path="/v1/topics/try",
        example="ctxmgr topics try 'deploy the shop to staging' --folder notes",
        uses_store=False,
    ),
    Operation(
        run=topics_log,
        name="topics log",
        writes=False,
        path="/v1/topics/log",
        example="ctxmgr topics log deployment --limit 20",
    ),
    Operation(
        run=topics_tune,
        name="topics tune",
        writes=False,
        path="/v1/topics/tune",
        example="ctxmgr topics tune --folder notes",
    ),
    Operation(
        run=knowledge_init,
        name="knowledge init",
        writes=True,
        example="ctxmgr knowledge init notes",
        uses_store=False,
    ),
    Operation(
        run=knowledge_status,
        name="knowledge status",
        writes=False,
        example="ctxmgr knowledge status --folder notes",
        uses_store=False,
        path="/v1/knowledge/status",
    ),
    Operation(
        run=knowledge_check,
        name="knowledge check",
        writes=False,
        example="ctxmgr knowledge check --folder notes",
        uses_store=False,
        path="/v1/knowledge/check",
        succeeded=lambda result: all(each.severity != "error" for each in result.problems),
    ),
    Operation(
        run=knowledge_commit,
        name="knowledge commit",
        writes=True,
        example="ctxmgr knowledge commit 'what was decided today'",
        uses_store=False,
    ),
    Operation(
        run=knowledge_log,
        name="knowledge log",
        writes=False,
        example="ctxmgr knowledge log knowledge/people/ada.md",
        uses_store=False,
        path="/v1/knowledge/log",
    ),
    Operation(
        run=knowledge_learnt,
        name="knowledge learnt",
        writes=False,
        example="ctxmgr knowledge learnt 'port 8080'",
        uses_store=False,
        path="/v1/knowledge/learnt",
    ),
    Operation(
        run=knowledge_blame,
        name="knowledge blame",
        writes=False,
        example="ctxmgr knowledge blame knowledge/people/ada.md",
        uses_store=False,
        path="/v1/knowledge/blame",
    ),
    Operation(
        run=knowledge_diff,
        name="knowledge diff",
        writes=False,
        example="ctxmgr knowledge diff memory/weekly/2026-W46",
        uses_store=False,
        path="/v1/knowledge/diff",
        text=lambda changes: changes.diff,
    ),
    Operation(
        run=knowledge_show,
        name="knowledge show",
        writes=False,
        example="ctxmgr knowledge show knowledge/memory/MEMORY.md memory/daily/2026-11-17",
        uses_store=False,
        path="/v1/knowledge/show",
        text=lambda note: note.text,
    ),
    Operation(
        run=knowledge_note,
        name="knowledge note",
        writes=False,
        example="ctxmgr knowledge note knowledge/people/ada.md",
        uses_store=False,
        path="/v1/knowledge/note",
        text=lambda note: note.text,
    ),
    Operation(
        run=knowledge_revert,
        name="knowledge revert",
        writes=True,
        example="ctxmgr knowledge revert 3f2c9a1",
        uses_store=False,
    ),
    Operation(
        run=knowledge_tag,
        name="knowledge tag",
        writes=True,
        example="ctxmgr knowledge tag milestone first-week",
        uses_store=False,
    ),
    Operation(
        run=knowledge_branches,
        name="knowledge branches",
        writes=True,
        example="ctxmgr knowledge branches --prune",
        uses_store=False,
    ),
    Operation(
        run=knowledge_push,
        name="knowledge push",
        writes=True,
        example="ctxmgr knowledge push origin",
        uses_store=False,
    ),
    Operation(
        run=knowledge_indexed,
        name="knowledge indexed",
        writes=True,
        example="ctxmgr knowledge indexed --folder notes",
        uses_store=False,
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

GROUPS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "audit": "Keep a tamper-evident record of what agents did.",
        "experience": "Query what agents experienced, token by token.",
        "knowledge": "Keep notes in git, and ask where they came from.",
        "memory": "Keep what agents learnt beyond their sessions.",
        "lifecycle": "Turn transcripts into notes, and keep notes in order.",
        "store": "Read, verify and back up the store itself.",
        "topics": "See which topics a message activates, and why.",
        "xtdb": "Run a local XTDB server.",
    }
)
"""Groups of commands, and what they are for.

An operation may have the name of a group, which then needs no entry here: ``ctxmgr sessions`` lists
sessions.
"""

SECTIONS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "Start": ("demo", "run", "doctor", "serve", "trust"),
        "Look": (
            *("sessions", "show", "log", "timeline", "turn", "unfold", "context", "diff"),
            *("objects", "calls", "as-of", "cache", "usage", "compare", "recall", "search"),
            "compile",
        ),
        "Change": ("activate", "deactivate", "pin", "unpin", "compact", "fork", "purge"),
        "Move": ("export", "import", "import-recorded"),
        "Serve": ("serve", "mcp", "hook", "token"),
        "Know": ("knowledge", "lifecycle", "topics"),
        "Store": ("store", "xtdb", "audit", "experience", "memory"),
        "Develop": ("bench", "completion"),
    }
)
"""The headings of ``ctxmgr --help``, and the commands and groups under each."""
