"""What people type for a session, an object or a version, and which one it is. Reads the store.

    session   its id, with or without ``session:``
    object    its id; inside a session also the beginning of an id, if no other begins so, and the
              path by which the agent knows a file
    version   its number in the object's history, from 1; negative ones count from the newest

Across a whole store an id is never guessed from its beginning: no store finds by that.
"""

from typing import Final

from ctxmgr.core.contents import File
from ctxmgr.core.documents import check_object_id
from ctxmgr.core.envelopes import SESSION, session_object_id
from ctxmgr.core.hashes import is_hash
from ctxmgr.core.mounts import Mounts
from ctxmgr.core.objects import from_document
from ctxmgr.core.proven_sessions import StoredSets, stored_sets, whole_session
from ctxmgr.core.sessions import SETS, Session
from ctxmgr.core.sources import FilesystemSource
from ctxmgr.core.store import LATEST, PAGE_MAX, AsOf, HistoryEntry, Store, Version
from ctxmgr.errors import Incorrect, NotFound
from ctxmgr.surfaces.known_turns import display_path, last_record, mounts_of

PREFIX_LENGTH_MIN: Final = 4
"""Letters of an id that may stand for it: fewer would be a slip more often than a name."""

NAMED_MAX: Final = 5
"""Ids that a message lists."""

LOOKED_AT_MAX: Final = 10_000
"""Files read to find one by its path, where no mount tells its id: those met last."""

CHUNK: Final = 200
"""Files read at once for that."""


async def get_session(store: Store, name: str, *, as_of: AsOf = LATEST) -> Session | None:
    """Return the session that a person means, as it is stored; None: there is none."""
    found = await _get_sets(store, name, as_of=as_of)
    return None if found is None else found.session


async def require_session(store: Store, name: str, *, as_of: AsOf = LATEST) -> Session:
    """Return the session that a person means; ``NotFound`` says how to see which there are."""
    return (await require_sets(store, name, as_of=as_of)).session


async def require_sets(store: Store, name: str, *, as_of: AsOf = LATEST) -> StoredSets:
    """Return the same with the token that guards its next version."""
    found = await _get_sets(store, name, as_of=as_of)
    if found is None:
        raise _no_session(name, as_of)
    return found


async def require_session_id(store: Store, name: str) -> str:
    """Return the id of the session that a person means, without reading what it has met."""
    ids = [session_object_id(name)]
    if name.startswith(f"{SESSION}:"):
        ids.insert(0, name)
    found = await store.get_many(ids, without=SETS)
    for object_id in ids:
        if object_id in found:
            return object_id.removeprefix(f"{SESSION}:")
    raise _no_session(name, LATEST)


def read_session(version: Version) -> Session:
    """Read a session's sets from its document."""
    return whole_session(version.document)


async def member_named(store: Store, session: Session, text: str) -> str:
    """Return the id of the object that a person means in a session.

    What nothing in the session begins with is returned as it is: whoever uses it says what is
    wrong with it.
    """
    if text in session.session_index:
        return text
    if text.startswith("/"):
        return await _of_path(store, session, text)
    if len(text) < PREFIX_LENGTH_MIN:
        return text
    matching = [each for each in session.session_index if each.startswith(text)]
    if len(matching) > 1:
        some = ", ".join(matching[:NAMED_MAX])
        more = " …" if len(matching) > NAMED_MAX else ""
        raise Incorrect(
            f"{len(matching)} objects begin with {text}: write more of it ({some}{more})"
        )
    return matching[0] if matching else text


async def version_number(
    store: Store, object_id: str, number: int, *, as_of: AsOf = LATEST
) -> tuple[int, HistoryEntry]:
    """Return a version's number from 1, and where it starts; negative ones count from the newest.

    Reads no documents. ``NotFound`` says how many there are.
    """
    check_object_id(object_id)
    entries = await _entries(store, object_id, as_of=as_of)
    if not entries:
        raise NotFound(f"{object_id} was never written")
    place = number if number > 0 else len(entries) + 1 + number
    if not 1 <= place <= len(entries) or number == 0:
        versions = "1 version" if len(entries) == 1 else f"{len(entries)} versions"
        raise NotFound(f"{object_id} has {versions}, and no version {number}")
    return place, entries[place - 1]


async def version_at(store: Store, entry: HistoryEntry) -> Version:
    """Read the version that starts at an entry of a history."""
    at = AsOf(valid_time=entry.valid_time, sequence=entry.sequence)
    version = await store.get(entry.object_id, as_of=at)
    if version is None:
        raise NotFound(f"{entry.object_id} was deleted there")
    return version


def _no_session(name: str, as_of: AsOf) -> NotFound:
    when = "" if as_of == LATEST else " at that point"
    return NotFound(f"there is no session {name}{when}; `ctxmgr sessions` lists them")


async def _get_sets(store: Store, name: str, *, as_of: AsOf) -> StoredSets | None:
    if name.startswith(f"{SESSION}:"):
        found = await stored_sets(store, name, as_of=as_of)
        if found is not None:
            return found
    return await stored_sets(store, session_object_id(name), as_of=as_of)


async def _entries(store: Store, object_id: str, *, as_of: AsOf) -> list[HistoryEntry]:
    found: list[HistoryEntry] = []
    cursor = None
    while True:
        page = await store.history(
            object_id, as_of=as_of, documents=False, limit=PAGE_MAX, cursor=cursor
        )
        found += page.entries
        cursor = page.cursor
        if cursor is None:
            return found


async def _of_path(store: Store, session: Session, path: str) -> str:
    mounts = mounts_of(await last_record(store, session.session_id))
    place = mounts.forward(path)
    source = FilesystemSource(filesystem_id=place.filesystem_id, path=place.path)
    object_id = File.stub(source).object_id
    if object_id in session.session_index:
        return object_id
    found = await _shown_as(store, session, path, mounts)
    if not found:
        raise NotFound(
            f"session {session.session_id} has met no file {path}; "
            f"`ctxmgr objects {session.session_id}` lists what it has"
        )
    if len(found) > 1:
        raise Incorrect(f"{len(found)} files were {path}: name one by its id ({', '.join(found)})")
    return found[0]


async def _shown_as(store: Store, session: Session, path: str, mounts: Mounts) -> list[str]:
    """Find files by the path they are listed under: of a sandbox's own filesystem, or elsewhere's.

    Their ids hold the id of a filesystem that only their own client knows.
    """
    files = [each for each in session.session_index if is_hash(each)][-LOOKED_AT_MAX:]
    found = []
    for start in range(0, len(files), CHUNK):
        versions = await store.get_many(files[start : start + CHUNK])
        for object_id, version in versions.items():
            stored = from_document(version.document)
            if isinstance(stored, File) and display_path(stored, mounts) == path:
                found.append(object_id)
    return found
