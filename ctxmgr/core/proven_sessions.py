"""Sets of sessions, proven by their hashes once for every version that is met. Touches nothing.

A request names its session more than once on its way, and each time the document is read anew, for
only the store says what is true now. The proof takes ten times as long as that, and need not be
made again: a document that equals one that was proven is proven.

Sessions are remembered for each store apart. They share what they grow from, and what shares must
stay on the event loop of its store.
"""

import asyncio
from typing import Final
from weakref import WeakKeyDictionary

from ctxmgr.core.documents import ID, Document
from ctxmgr.core.generations import Generations
from ctxmgr.core.infrastructure import SessionRecord
from ctxmgr.core.objects import from_document
from ctxmgr.core.sessions import Session
from ctxmgr.core.store import Store
from ctxmgr.errors import Corrupt

SESSIONS_MAX: Final = 4
"""Sessions of one store that are remembered at least: one of 100,000 objects takes 30 MB."""

IDS_AT_ONCE_MAX: Final = 1_000
"""Ids that are proven on the event loop: some milliseconds. More are proven in a thread."""


class ProvenSessions:
    """The last proven version of some sessions."""

    def __init__(self) -> None:
        self._known: Generations[str, tuple[Document, Session]] = Generations(SESSIONS_MAX)

    async def prove(self, document: Document) -> Session:
        """Read the sets of a document; ``Corrupt`` unless its hashes are right."""
        known = self._known.get(str(document.get(ID)))
        if known is not None and known[0] == document:
            return known[1]
        if len(document.get("session_index", ())) > IDS_AT_ONCE_MAX:
            session = await asyncio.to_thread(whole_session, document)
        else:
            session = whole_session(document)
        self.keep(document, session)
        return session

    def keep(self, document: Document, session: Session) -> None:
        """Remember a document with the session that it was made of, or that was read from it."""
        self._known.keep(str(document[ID]), (document, session))


def proven_sessions(store: Store) -> ProvenSessions:
    """Return what is remembered for a store."""
    return _STORES.setdefault(store, ProvenSessions())


def whole_session(document: Document) -> Session:
    """Read the sets of a document, and prove them."""
    record = from_document(document)
    if not isinstance(record, SessionRecord):
        raise Corrupt(f"{record.object_id} is a {record.kind} where a session is expected")
    return Session.from_record(record)


_STORES: Final[WeakKeyDictionary[Store, ProvenSessions]] = WeakKeyDictionary()
