"""``ctxmgr recall``: search the objects a session has seen. Keeps a search index beside the store.

The index can be rebuilt, and may be deleted.
"""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.operation import Param
from ctxmgr.surfaces.operations.sessions import SessionName

if TYPE_CHECKING:
    from ctxmgr.app import App
    from ctxmgr.surfaces.views.recalled import RecallView


QUERY_CHARS_MAX: Final = 1_000
"""A query is some words, not a text."""

RECALL_LIMIT_MAX: Final = 20
"""The largest ``--limit``."""


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
    path.parent.mkdir(parents=True, exist_ok=True)
    index = await app.search_index(path)
    versions = await recalled(store, index, query, session=asking, limit=limit)
    has_file = any(version.document[KIND] == FILE for version in versions)  # only those have a path
    mounts = mounts_of(await last_record(store, asking.session_id) if has_file else None)
    path_of = partial(display_path, mounts=mounts)
    results = search_results(versions, masker=app.masker, display_path=path_of)
    return recall_view(asking.session_id, query, results, shown=app.masker.shown(query))
