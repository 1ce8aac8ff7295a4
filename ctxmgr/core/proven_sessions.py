"""Sets of sessions as they are now, proven by their hashes once for every version. Reads the store.

A request names its session more than once on its way, and each time the store is asked anew, for
only it says what is true now. But reading a long session takes longer than asking which version
there is, and proving it ten times as long: a version that was proven, or written by ourselves, is
neither read nor proven again. Versions never change, and their tokens tell them apart.

Sessions are remembered for each store apart. They share what they grow from, and what shares must
stay on the event loop of its store.
"""

import asyncio
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from ctxmgr.core.documents import Document
from ctxmgr.core.envelopes import session_object_id
from ctxmgr.core.generations import Generations
from ctxmgr.core.infrastructure import SessionRecord
from ctxmgr.core.objects import from_document
from ctxmgr.core.sessions import SETS, Session
from ctxmgr.core.store import LATEST, AsOf, Store, Version
from ctxmgr.errors import Corrupt

SESSIONS_MAX: Final = 4
"""Sessions of one store that are remembered at least: one of 100,000 objects takes 30 MB."""

IDS_AT_ONCE_MAX: Final = 1_000
"""Ids that are proven on the event loop: some milliseconds. More are proven in a thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSets:
    """The sets of one version of a session."""

    session: Session
    token: str | None
    """As the store gives it; None: this version cannot be told from others by one."""
    object_hash: str
    """Of the version: another program may write another one and leave the token as it was."""


_Known = Generations[str, StoredSets]
_STORES: Final[WeakKeyDictionary[Store, _Known]] = WeakKeyDictionary()


async def stored_sets(store: Store, object_id: str, *, as_of: AsOf = LATEST) -> StoredSets | None:
    """Return the sets of a session's object; None: there is none. ``Corrupt`` unless proven."""
    known = _known(store).get(object_id)
    if known is not None:
        there = await store.get_many([object_id], as_of=as_of, without=SETS)
        if object_id not in there:
            return None
        if _is_version(there[object_id], known):
            return known
    version = await store.get(object_id, as_of=as_of)
    if version is None:
        return None
    session = await _proven(version.document)
    read = StoredSets(
        session=session, token=version.token, object_hash=version.document["object_hash"]
    )
    remember(store, read)
    return read


def _is_version(there: Version, known: StoredSets) -> bool:
    return (there.token, there.document.get("object_hash")) == (known.token, known.object_hash)


def remember(store: Store, proven: StoredSets) -> None:
    """Take the sets of a version for proven: it was read so, or just written."""
    if proven.token is not None:
        _known(store).keep(session_object_id(proven.session.session_id), proven)


def whole_session(document: Document) -> Session:
    """Read the sets of a document, and prove them."""
    record = from_document(document)
    if not isinstance(record, SessionRecord):
        raise Corrupt(f"{record.object_id} is a {record.kind} where a session is expected")
    return Session.from_record(record)


async def _proven(document: Document) -> Session:
    if len(document.get("session_index", ())) > IDS_AT_ONCE_MAX:
        return await asyncio.to_thread(whole_session, document)
    return whole_session(document)


def _known(store: Store) -> _Known:
    return _STORES.setdefault(store, Generations(SESSIONS_MAX))
