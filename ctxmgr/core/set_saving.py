"""A change of a session's sets, saved without opening the session. Reads the store, commits.

Its chat and its objects are not read: one who folds an object of a session of a thousand turns from
outside waits for the sets alone. Where another client was faster, the change is made on its sets.
"""

from collections.abc import Callable

from ctxmgr.core.envelopes import session_object_id
from ctxmgr.core.objects import to_document
from ctxmgr.core.proven_sessions import StoredSets, remember, stored_sets
from ctxmgr.core.session_state import ATTEMPTS_MAX
from ctxmgr.core.sessions import Session
from ctxmgr.core.store import Match, Put, Store
from ctxmgr.core.surroundings import commit_once
from ctxmgr.errors import Conflict, Corrupt


async def save_sets(
    store: Store, read: StoredSets, change: Callable[[Session], Session]
) -> tuple[Session, Session]:
    """Change sets that were just read; return them as they were and as they are.

    A change that changes nothing writes nothing.
    """
    object_id = session_object_id(read.session.session_id)
    for _ in range(ATTEMPTS_MAX):
        changed = change(read.session)
        if changed == read.session:
            return read.session, changed
        record = changed.to_record()
        try:
            commit = await commit_once(
                store, [Match(object_id, read.token), Put(to_document(record))]
            )
        except Conflict:
            read = await _read_again(store, object_id)
            continue
        written = StoredSets(session=changed, token=commit.token, object_hash=record.object_hash)
        remember(store, written)
        return read.session, changed
    raise Conflict((object_id,))


async def _read_again(store: Store, object_id: str) -> StoredSets:
    read = await stored_sets(store, object_id)
    if read is None:
        raise Corrupt(f"{object_id} has vanished from its store")
    return read
