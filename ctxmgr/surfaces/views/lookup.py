"""Resolve the names that people type for sessions, objects and versions. Reads the store.

    session   its id, with or without ``session:``
    object    its id; inside a session also a unique id prefix, a handle such as ``#7``, or the path
              of a file as the agent sees it
    version   its number in the object's history, from 1; negative ones count from the newest

Id prefixes are not resolved outside a session, since stores cannot search by prefix.
"""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from functools import partial
from typing import Final

from ctxmgr.core.client.lookup import ObjectLookup
from ctxmgr.core.client.runtime import display_path
from ctxmgr.core.context.compact import COMPACT_RENDERERS
from ctxmgr.core.files.mounts import Mounts
from ctxmgr.core.history.reading import with_handle
from ctxmgr.core.objects.codec import from_document
from ctxmgr.core.objects.envelope import SESSION, session_object_id
from ctxmgr.core.objects.file import File
from ctxmgr.core.objects.hashes import is_hash
from ctxmgr.core.objects.session_record import SETS
from ctxmgr.core.sessions.sets import Session
from ctxmgr.core.sessions.storage import StoredSets, stored_sets, whole_session
from ctxmgr.core.store.contract import LATEST, PAGE_MAX, AsOf, HistoryEntry, Query, Store, Version
from ctxmgr.core.store.documents import check_object_id
from ctxmgr.core.store.queries import batched
from ctxmgr.errors import NotFound
from ctxmgr.surfaces.views.last_turn import last_record, mounts_of

PATH_SEARCH_FILES_MAX: Final = 10_000
"""Files read to find one by its path where no mount determines its id: those seen last."""

NEAREST_MAX: Final = 3
"""Names that an error suggests."""

_SESSION_NAME: Final = re.compile(r"[0-9a-f]{4,63}|#[0-9]+|.*/.*")
"""A name that is resolved only inside a session: a prefix of a hash, a handle, or a path."""

VIEW_BATCH: Final = 200
"""Objects read at once while one is searched for."""


async def get_session(store: Store, name: str, *, as_of: AsOf = LATEST) -> Session | None:
    """Return the session of that name; None: there is none."""
    sets = await _get_sets(store, name, as_of=as_of)
    return None if sets is None else sets.session


async def require_session(store: Store, name: str, *, as_of: AsOf = LATEST) -> Session:
    """Return the session of that name; ``NotFound`` if there is none."""
    return (await require_sets(store, name, as_of=as_of)).session


async def require_sets(store: Store, name: str, *, as_of: AsOf = LATEST) -> StoredSets:
    """Return the session's sets with the token that guards their next version."""
    sets = await _get_sets(store, name, as_of=as_of)
    if sets is None:
        raise await _no_session(store, name, as_of)
    return sets


async def require_session_id(store: Store, name: str) -> str:
    """Return the id of the session of that name, without reading its sets."""
    ids = [session_object_id(name)]
    if name.startswith(f"{SESSION}:"):
        ids.insert(0, name)
    versions = await store.get_many(ids, without=SETS)
    for object_id in ids:
        if object_id in versions:
            return object_id.removeprefix(f"{SESSION}:")
    raise await _no_session(store, name, LATEST)


async def has_session(store: Store, session_id: str) -> bool:
    """Return whether a session is stored, without reading its sets."""
    return bool(await store.get_many([session_object_id(session_id)], without=SETS))


def read_session(version: Version) -> Session:
    """Read a session's sets from its document."""
    return whole_session(version.document)


async def resolve_member(store: Store, session: Session, text: str) -> str:
    """Return the id of the object that a name refers to in a session.

    A name that matches nothing is returned unchanged; the caller reports what is wrong with it.
    """
    if text in session.session_index:
        return text
    last = await last_record(store, session.session_id)
    mounts = mounts_of(last)
    lookup = ObjectLookup(
        mounts=mounts,
        directory=mounts.mappings[0].agent_prefix if mounts.mappings else None,
        with_handle=partial(with_handle, store, session.session_id),
        shown_as=partial(_shown_as, store, session, mounts),
        is_compact=last is not None and last.renderer in COMPACT_RENDERERS,
    )
    try:
        return await lookup.resolve(session, text)
    except NotFound:
        raise await no_member(store, session, text) from None


async def version_number(
    store: Store, object_id: str, number: int, *, as_of: AsOf = LATEST
) -> tuple[int, HistoryEntry]:
    """Return a version's number from 1, and its history entry; negatives count from the newest.

    Reads no documents. ``NotFound`` says how many versions there are.
    """
    check_object_id(object_id)
    entries = await _entries(store, object_id, as_of=as_of)
    if not entries:
        raise NotFound(f"{object_id} was never written")
    index = number if number > 0 else len(entries) + 1 + number
    if not 1 <= index <= len(entries) or number == 0:
        versions = "1 version" if len(entries) == 1 else f"{len(entries)} versions"
        raise NotFound(f"{object_id} has {versions}, but no version {number}")
    return index, entries[index - 1]


async def version_at(store: Store, entry: HistoryEntry) -> Version:
    """Read the version of a history entry."""
    at = AsOf(valid_time=entry.valid_time, sequence=entry.sequence)
    version = await store.get(entry.object_id, as_of=at)
    if version is None:
        raise NotFound(f"{entry.object_id} was deleted in that version")
    return version


async def no_member(store: Store, session: Session, text: str) -> NotFound:
    """Return the error for a name that no object of a session has; it lists the nearest names."""
    ids = list(session.session_index)[-VIEW_BATCH:]
    mounts = mounts_of(await last_record(store, session.session_id))
    names = [object_id for object_id in ids if not is_hash(object_id)]
    for version in (await store.get_many([name for name in ids if is_hash(name)])).values():
        stored = from_document(version.document)
        if isinstance(stored, File):
            names.append(display_path(stored, mounts))
    return NotFound(f"session {session.session_id} has seen no {text}{_nearest(text, names)}")


async def no_object(store: Store, name: str, as_of: AsOf) -> NotFound:
    """Return the error for a name of nothing.

    It lists the sessions with the nearest names, or says where names of that form are known.
    """
    if _SESSION_NAME.fullmatch(name):
        return NotFound(
            f"no session or object {name}: name its session with `--session`, since prefixes of "
            "ids, handles and paths are known only there"
        )
    return await _no_session(store, name, as_of, what="session or object")


async def _no_session(store: Store, name: str, as_of: AsOf, *, what: str = "session") -> NotFound:
    when = "" if as_of == LATEST else " at that point"
    found = (await store.find(Query(SESSION), limit=PAGE_MAX)).versions
    names = [version.object_id.removeprefix(f"{SESSION}:") for version in found]
    return NotFound(f"no {what} {name}{when}{_nearest(name, names)}")


def _nearest(name: str, names: Sequence[str]) -> str:
    """List the names that are most like a mistyped one."""
    nearest = get_close_matches(name, names, n=NEAREST_MAX, cutoff=0.0)
    return f" (nearest: {', '.join(nearest)})" if nearest else ""


async def _get_sets(store: Store, name: str, *, as_of: AsOf) -> StoredSets | None:
    if name.startswith(f"{SESSION}:"):
        sets = await stored_sets(store, name, as_of=as_of)
        if sets is not None:
            return sets
    return await stored_sets(store, session_object_id(name), as_of=as_of)


async def _entries(store: Store, object_id: str, *, as_of: AsOf) -> list[HistoryEntry]:
    entries: list[HistoryEntry] = []
    cursor = None
    while True:
        page = await store.history(
            object_id, as_of=as_of, documents=False, limit=PAGE_MAX, cursor=cursor
        )
        entries += page.entries
        cursor = page.cursor
        if cursor is None:
            return entries


async def _shown_as(store: Store, session: Session, mounts: Mounts, path: str) -> list[str]:
    """Find files by their displayed path, for files of a sandbox or of another machine.

    Their ids depend on a filesystem id that only their own client knows.
    """
    files = [object_id for object_id in session.session_index if is_hash(object_id)][
        -PATH_SEARCH_FILES_MAX:
    ]
    matching = []
    for batch in batched(files, VIEW_BATCH):
        versions = await store.get_many(batch)
        for object_id, version in versions.items():
            stored = from_document(version.document)
            if isinstance(stored, File) and display_path(stored, mounts) == path:
                matching.append(object_id)
    return matching
