"""``ctxmgr recall`` and ``ctxmgr search``: search what sessions have seen, and notes.

Each keeps an index, which can be rebuilt and may be deleted: that of a store is beside it.
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from ctxmgr.core.private_files import make_private_folder
from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.operation import Param
from ctxmgr.surfaces.operations.sessions import SessionName

if TYPE_CHECKING:
    from ctxmgr.app import App
    from ctxmgr.core.sessions.sets import Session
    from ctxmgr.core.store.contract import Store
    from ctxmgr.core.store.documents import Document
    from ctxmgr.surfaces.views.recalled import FoundEntry, RecallView, SearchView


QUERY_CHARS_MAX: Final = 1_000
"""A query is some words, not a text."""

RECALL_LIMIT_MAX: Final = 20
"""The largest ``--limit``."""

SESSIONS_MAX: Final = 1_000
"""Sessions that a search covers, the newest."""

NOTES, SESSION, PROJECT, ALL = "notes", "session", "project", "all"


async def recall(
    app: "App",
    session: SessionName,
    query: Annotated[str, Param("Words to search for.", metavar="QUERY")],
    *,
    limit: Annotated[int, Param(f"At most this many objects, up to {RECALL_LIMIT_MAX}.")] = 5,
) -> "RecallView":
    """Search everything a session has seen, shown or not.

    Files are matched by path and text, tool calls by tool, arguments and output. The result has the
    best lines of each object, and its id to activate. Secrets are masked.
    """
    from ctxmgr.core.client.recall import recalled, search_results
    from ctxmgr.core.client.runtime import display_path
    from ctxmgr.core.objects.envelope import FILE
    from ctxmgr.core.store.documents import KIND
    from ctxmgr.surfaces.local_state import index_file
    from ctxmgr.surfaces.views.last_turn import last_record, mounts_of
    from ctxmgr.surfaces.views.lookup import require_session
    from ctxmgr.surfaces.views.recalled import recall_view

    if not query.strip() or len(query) > QUERY_CHARS_MAX:
        raise Incorrect(f"the query must have 1 to {QUERY_CHARS_MAX} characters")
    if not 1 <= limit <= RECALL_LIMIT_MAX:
        raise Incorrect(f"the limit must be 1 to {RECALL_LIMIT_MAX}, not {limit}")
    store = await app.store()
    asking = await require_session(store, session)
    path = index_file(app.loaded.settings.store)
    make_private_folder(path.parent)
    index = await app.search_index(path)
    seen = asking.session_index.__contains__
    versions = await recalled(store, index, query, wanted=seen, limit=limit)
    has_file = any(version.document[KIND] == FILE for version in versions)  # only those have a path
    mounts = mounts_of(await last_record(store, asking.session_id) if has_file else None)
    path_of = partial(display_path, mounts=mounts)
    results = search_results(versions, masker=app.masker, display_path=path_of)
    return recall_view(asking.session_id, query, results, shown=app.masker.shown(query))


async def search(
    app: "App",
    query: Annotated[str, Param("Words to search for.", metavar="QUERY")],
    *,
    session: Annotated[
        str | None, Param("Only what this session has seen.", metavar="SESSION")
    ] = None,
    project: Annotated[
        bool,
        Param("Only sessions that worked in this folder or, if not at home, below it.", local=True),
    ] = False,
    all_: Annotated[
        bool, Param("What any session has seen; the default without notes.", local=True)
    ] = False,
    notes: Annotated[
        Path | None,
        Param(
            "The Markdown notes of a folder; default: the setting, or the one that you are in.",
            metavar="DIR",
            local=True,
            here=True,
        ),
    ] = None,
    embeddings: Annotated[
        bool,
        Param("Compare notes by OpenAI's embeddings: they are sent there, masked.", local=True),
    ] = False,
    category: Annotated[
        str | None,
        Param("Only this category: of notes, such as journal or person; else file or toolcall."),
    ] = None,
    limit: Annotated[int, Param(f"At most this many results, up to {RECALL_LIMIT_MAX}.")] = 10,
) -> "SearchView":
    """Search sessions, a project or notes.

    Sessions are searched by the text and path of files, and by tool, arguments and output of calls;
    notes by words and, with the extra vectors, by meaning. Secrets are masked.
    """
    from ctxmgr.surfaces.views.recalled import search_view

    if not query.strip() or len(query) > QUERY_CHARS_MAX:
        raise Incorrect(f"the query must have 1 to {QUERY_CHARS_MAX} characters")
    if not 1 <= limit <= RECALL_LIMIT_MAX:
        raise Incorrect(f"the limit must be 1 to {RECALL_LIMIT_MAX}, not {limit}")
    if sum((session is not None, project, all_, notes is not None)) > 1:
        raise Incorrect("pass one of --session, --project, --all and --notes")
    shown = app.masker.shown(query)
    unscoped = session is None and not project and not all_
    if notes is not None or (unscoped and app.has_notes()):
        return search_view(
            shown, NOTES, await _in_notes(app, query, notes, category, limit, embeddings=embeddings)
        )
    if embeddings:
        raise Incorrect("--embeddings is for notes: pass --notes DIR")
    store = await app.store()
    sessions = await _sessions(app, store, session, project=project)
    hits = await _in_sessions(app, query, sessions, category, limit)
    scope = SESSION if session is not None else PROJECT if project else ALL
    return search_view(shown, scope, hits)


async def _in_notes(
    app: "App",
    query: str,
    folder: Path | None,
    category: str | None,
    limit: int,
    *,
    embeddings: bool,
) -> "list[FoundEntry]":
    from ctxmgr.surfaces.views.recalled import FoundEntry

    found = await app.search_notes(
        folder, query, limit=limit, category=category, embeddings=embeddings
    )
    return [
        FoundEntry(
            path=app.masker.shown(result.path),
            category=result.category,
            score=round(result.score, 4),
            snippet=app.masker.shown(result.snippet),
        )
        for result in found
    ]


async def _sessions(
    app: "App", store: "Store", session: str | None, *, project: bool
) -> "list[Session]":
    """Return the sessions that are searched, the newest first."""
    from ctxmgr.surfaces.views.lookup import get_session, require_session
    from ctxmgr.surfaces.views.sessions import list_sessions, pick_sessions

    if session is not None:
        return [await require_session(store, session)]
    if project:
        page = await pick_sessions(store, _project(app), limit=SESSIONS_MAX, cursor=None)
    else:
        page = await list_sessions(store, limit=SESSIONS_MAX, cursor=None)
    found = [await get_session(store, line.session_id) for line in page.sessions]
    return [entry for entry in found if entry is not None]


def _project(app: "App") -> list[str]:
    """Return the sessions that worked in the current folder, or below it."""
    from ctxmgr.surfaces.local_state import project_sessions

    return project_sessions(app, Path.cwd())


async def _in_sessions(
    app: "App", query: str, sessions: "list[Session]", category: str | None, limit: int
) -> "list[FoundEntry]":
    from ctxmgr.core.client.recall import best_lines, recalled, search_results, words
    from ctxmgr.core.client.runtime import display_path
    from ctxmgr.core.objects.envelope import FILE, TOOLCALL
    from ctxmgr.core.store.documents import KIND
    from ctxmgr.surfaces.local_state import index_file
    from ctxmgr.surfaces.views.last_turn import last_record, mounts_of
    from ctxmgr.surfaces.views.recalled import FoundEntry

    if category not in (None, FILE, TOOLCALL):
        raise Incorrect(f"{category!r:.80} is not one of: {FILE}, {TOOLCALL}")
    store = await app.store()
    owners: dict[str, Session] = {}
    for entry in sessions:
        for object_id in entry.session_index:
            owners.setdefault(object_id, entry)
    path = index_file(app.loaded.settings.store)
    make_private_folder(path.parent)
    index = await app.search_index(path)
    looked_at = limit if category is None else RECALL_LIMIT_MAX
    versions = await recalled(store, index, query, wanted=owners.__contains__, limit=looked_at)
    hits: list[FoundEntry] = []
    for version in versions:
        if category not in (None, version.document[KIND]) or len(hits) == limit:
            continue
        owner = owners[version.object_id].session_id
        record = await last_record(store, owner) if version.document[KIND] == FILE else None
        path_of = partial(display_path, mounts=mounts_of(record))
        (result,) = search_results([version], masker=app.masker, display_path=path_of)
        lines = best_lines(result.text, words(query))
        hits.append(
            FoundEntry(
                path=f"{result.name} {_doing(app, version.document)}".rstrip(),
                category=result.kind,
                score=None,
                snippet="\n".join(f"{number}: {line}" for number, line in lines),
                object_id=result.object_id,
                session_id=owner,
            )
        )
    return hits


def _doing(app: "App", document: "Document") -> str:
    """Return what a call did, such as its command, with secrets masked; empty for a file."""
    from ctxmgr.surfaces.views.recalled import describe_args

    args = document.get("args") or {}
    shown = app.masker.shown
    masked = {name: shown(item) if isinstance(item, str) else item for name, item in args.items()}
    return shown(describe_args(masked)) if masked else ""
