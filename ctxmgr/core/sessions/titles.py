"""The titles that people give sessions. Commits.

A title is a plain document ``title:{session}``. The id of a session never changes: bundles, records
and prompts refer to it.
"""

from typing import Final

from ctxmgr.core.objects.envelope import check_short_text, session_object_id
from ctxmgr.core.store.contract import Delete, Put, Store, Version
from ctxmgr.core.store.documents import ID, KIND
from ctxmgr.errors import Incorrect, NotFound

TITLE: Final = "title"
TITLE_BYTES_MAX: Final = 200
"""Of a title in UTF-8: it has to fit in a line."""


def title_id(session_id: str) -> str:
    return f"{TITLE}:{session_id}"


def title_of(version: Version | None) -> str | None:
    """Read a stored title; None if there is none, or another program wrote something else."""
    title = None if version is None else version.document.get(TITLE)
    return title if isinstance(title, str) else None


async def set_title(store: Store, session_id: str, title: str) -> None:
    """Give a session a title; an empty one removes it. ``NotFound`` if there is no session."""
    if await store.get(session_object_id(session_id)) is None:
        raise NotFound(f"no session {session_id}; `ctxmgr sessions` lists them")
    if not title:
        await store.commit([Delete(title_id(session_id))])
        return
    check_short_text(TITLE, title, bytes_max=TITLE_BYTES_MAX)
    if not title.isprintable():
        raise Incorrect(f"title must be one line of printable characters, not {title!r:.80}")
    document = {ID: title_id(session_id), KIND: TITLE, "session": session_id, TITLE: title}
    await store.commit([Put(document)])
