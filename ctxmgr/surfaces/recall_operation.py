"""Search what a session has met. Keeps a search index beside the store.

An SQLite store has its index in a file of the same name with ``.search`` after it; any other store
in the cache folder, under a name made of its URL. Both are derived, and may be deleted.
"""

import hashlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.catalogue import Param
from ctxmgr.surfaces.session_operations import SessionName

if TYPE_CHECKING:
    from ctxmgr.app import App

QUERY_CHARS_MAX: Final = 1_000
"""Of what is looked for: words, not a text."""

OBJECTS_MAX: Final = 20
"""Objects that one answer tells of."""


async def recall(
    app: "App",
    session: SessionName,
    query: Annotated[str, Param("Words to look for.", metavar="QUERY")],
    *,
    limit: Annotated[int, Param(f"How many objects at most; {OBJECTS_MAX} is the most.")] = 5,
) -> str:
    """Search what a session has met, also what it no longer shows.

    Files are found by path and text, tool calls by tool, arguments and output. The answer has the
    best lines of each, and its id to activate. Secrets in it are masked.
    """
    from ctxmgr.core.documents import KIND
    from ctxmgr.core.envelopes import FILE
    from ctxmgr.core.recall import recalled, tell
    from ctxmgr.surfaces.known_turns import display_path, last_record, mounts_of
    from ctxmgr.surfaces.naming import require_session

    if not query.strip() or len(query) > QUERY_CHARS_MAX:
        raise Incorrect(f"the query has 1 to {QUERY_CHARS_MAX} characters")
    if not 1 <= limit <= OBJECTS_MAX:
        raise Incorrect(f"the limit is 1 to {OBJECTS_MAX}, not {limit}")
    store = await app.store()
    asking = await require_session(store, session)
    path = index_file(app.loaded.settings.store)
    path.parent.mkdir(parents=True, exist_ok=True)
    index = await app.search_index(path)
    found = await recalled(store, index, query, session=asking, limit=limit)
    has_file = any(each.document[KIND] == FILE for each in found)  # only those have a path
    mounts = mounts_of(await last_record(store, asking.session_id) if has_file else None)
    shown = partial(display_path, mounts=mounts)
    return tell(query, found, masker=app.masker, display_path=shown)


def index_file(url: str) -> Path:
    """Return where the search index of a store lies."""
    from ctxmgr.settings import cache_dir
    from ctxmgr.stores.sqlite_file import parse_url

    path = parse_url(url).path if url.startswith("sqlite:") else None
    if path is not None:
        return path.with_name(f"{path.name}.search")
    return cache_dir() / "search" / f"{hashlib.sha256(url.encode()).hexdigest()}.search"
