"""A change of a session's sets, saved without opening the session. Reads the store, commits.

Its chat and its objects are not read: one who folds an object of a session of a thousand turns from
outside waits for the sets alone. Where another client was faster, the change is made on its sets.
"""

from collections.abc import Callable

from ctxmgr.core.envelopes import session_object_id
from ctxmgr.core.objects import to_document
from ctxmgr.core.proven_sessions import proven_sessions
from ctxmgr.core.session_state import ATTEMPTS_MAX
from ctxmgr.core.sessions import Session
from ctxmgr.core.store import Match, Put, Store
from ctxmgr.core.surroundings import commit_once
from ctxmgr.errors import Conflict, Corrupt


async def save_sets(
    store: Store, session_id: str, change: Callable[[Session], Session]
) -> tuple[Session, Session]:
    """Change the sets of a session that is there; return them as they were and as they are.

    A change that changes nothing writes nothing.
    """
    object_id, proven = session_object_id(session_id), proven_sessions(store)
    for _ in range(ATTEMPTS_MAX):
        stored = await store.get(object_id)
        if stored is None:
            raise Corrupt(f"{object_id} has vanished from its store")
        session = await proven.prove(stored.document)
        changed = change(session)
        if changed == session:
            return session, changed
        document = to_document(changed.to_record())
        try:
            await commit_once(store, [Match(object_id, stored.token), Put(document)])
        except Conflict:
            continue
        proven.keep(document, changed)
        return session, changed
    raise Conflict((object_id,))
