"""Read sessions from the store, and save changes of their sets. Reads the store, commits.

    read_session   sets, chat and system prompt; with or without the index
    stored_sets    the current sets, cached by version
    save_sets      change the sets of a session that is not open
    compaction_ids the ids of a session's compactions
    proxied_ids    what the proxy stored to shape a session's requests
    exchange_count how many exchanges the proxy recorded in a session

The index may be fifty times as long as everything that is shown, so a session can be opened without
it. Since the hashes of a session's document cover the index, such a session is not verified until
the index is read: in the background after the first prompt, and always before the session is saved.
Nothing is ever written on top of a version that was not verified.

One request may look up its session several times, and each time the store must be asked for the
current version. Reading a long session takes longer than asking which version is current, and
verifying it ten times as long, so versions that were verified, or written by this process, are
cached by their tokens. The cache is per store, because the cached values share growing lists and
must stay on the event loop of their store.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from ctxmgr.core.bounded_cache import BoundedCache
from ctxmgr.core.objects.chat import Chat
from ctxmgr.core.objects.codec import from_document, put_of
from ctxmgr.core.objects.compaction import COMPACTION
from ctxmgr.core.objects.envelope import (
    chat_id,
    exchange_id,
    read_list,
    session_object_id,
    system_prompt_id,
)
from ctxmgr.core.objects.session_record import SETS, SessionRecord, SystemPrompt
from ctxmgr.core.sessions.sets import Session
from ctxmgr.core.store.commits import commit_once
from ctxmgr.core.store.contract import (
    LATEST,
    PAGE_MAX,
    AsOf,
    Instant,
    Match,
    Query,
    Store,
    Version,
)
from ctxmgr.core.store.documents import Document
from ctxmgr.errors import Conflict, Corrupt, Incorrect, NotFound

SESSIONS_MAX: Final = 4
"""Sessions of one store that are cached at least: one of 100,000 objects takes 30 MB."""

PROXY_SESSION: Final = "proxy-"
"""How the ids of sessions begin that the proxy records; the rest is its conversation."""

EXCHANGES_PER_READ: Final = 500
"""Exchanges that are looked for at once."""

IDS_AT_ONCE_MAX: Final = 1_000
"""Ids that are verified on the event loop, in some milliseconds. More are verified in a thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSets:
    """The sets of one version of a session."""

    session: Session
    token: str | None
    """The store's token of the version; None if it has none, and cannot be cached."""
    object_hash: str
    """Of the version: another program may write a version without changing the token."""


_Cache = BoundedCache[str, StoredSets]
_STORES: Final[WeakKeyDictionary[Store, _Cache]] = WeakKeyDictionary()


async def stored_sets(store: Store, object_id: str, *, as_of: AsOf = LATEST) -> StoredSets | None:
    """Return the sets of a session's object, or None; ``Corrupt`` if they fail verification."""
    cached = _cache(store).get(object_id)
    if cached is not None:
        current = (await store.get_many([object_id], as_of=as_of, without=SETS)).get(object_id)
        if current is None:
            return None
        version_key = (current.token, current.document.get("object_hash"))
        if version_key == (cached.token, cached.object_hash):
            return cached
    version = await store.get(object_id, as_of=as_of)
    if version is None:
        return None
    if len(version.document.get("session_index", ())) > IDS_AT_ONCE_MAX:
        session = await asyncio.to_thread(whole_session, version.document)
    else:
        session = whole_session(version.document)
    read = StoredSets(
        session=session, token=version.token, object_hash=version.document["object_hash"]
    )
    remember(store, read)
    return read


def remember(store: Store, verified: StoredSets) -> None:
    """Cache the sets of a version that was verified or just written."""
    if verified.token is not None:
        _cache(store).keep(session_object_id(verified.session.session_id), verified)


def whole_session(document: Document) -> Session:
    """Read and verify the sets of a document."""
    record = from_document(document)
    if not isinstance(record, SessionRecord):
        raise Corrupt(f"{record.object_id} is a {record.kind}, not a session")
    return Session.from_record(record)


def _cache(store: Store) -> _Cache:
    return _STORES.setdefault(store, BoundedCache(SESSIONS_MAX))


_INDEX: Final = "session_index"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSession:
    """A session with its chat and system prompt, and the tokens for compare-and-set."""

    session: Session
    chat: Chat
    prompt: SystemPrompt
    tokens: dict[str, str | None]
    valid_since: Instant
    """From when the latest of these versions is valid."""


async def read_session(store: Store, session_id: str, *, whole: bool = True) -> StoredSession:
    """Read a session with its chat and system prompt; ``NotFound`` if it does not exist."""
    ids = (session_object_id(session_id), chat_id(session_id), system_prompt_id(session_id))
    versions = await store.get_many(ids, without=() if whole else (_INDEX,))
    if ids[0] not in versions:
        raise NotFound(f"there is no session {session_id}")
    if len(versions) < len(ids):
        raise Corrupt(f"session {session_id} has no chat or no system prompt")
    chat, prompt = (from_document(versions[object_id].document) for object_id in ids[1:])
    assert isinstance(chat, Chat)
    assert isinstance(prompt, SystemPrompt)
    read = whole_session if whole else _without_index
    return StoredSession(
        session=read(versions[ids[0]].document),
        chat=chat,
        prompt=prompt,
        tokens={object_id: versions[object_id].token for object_id in ids},
        valid_since=max(version.valid_time for version in versions.values()),
    )


async def read_sets(store: Store, session_id: str) -> StoredSets:
    """Read and verify the sets of a session that is known to exist."""
    object_id = session_object_id(session_id)
    stored: Version | None = (await store.get_many((object_id,))).get(object_id)
    if stored is None:
        raise Corrupt(f"{object_id} has vanished from its store")
    # Verifying a hundred thousand ids would block the event loop.
    session = await asyncio.to_thread(whole_session, stored.document)
    return StoredSets(
        session=session, token=stored.token, object_hash=stored.document["object_hash"]
    )


def _without_index(document: Document) -> Session:
    """Read the sets of a document without its index, unverified."""
    try:
        pool = read_list("metadata_pool", document["metadata_pool"])
        record = SessionRecord(
            session_id=document["session_id"],
            session_index=pool,
            metadata_pool=pool,
            active_set=read_list("active_set", document["active_set"]),
            pinned_set=read_list("pinned_set", document["pinned_set"]),
        )
    except KeyError as error:
        raise Corrupt(f"the document of a session has no field {error}") from error
    except Incorrect as error:
        raise Corrupt(f"the document of a session cannot be read: {error}") from error
    return Session.from_record(record).unread()


ATTEMPTS_MAX: Final = 8
"""Attempts to save one change: with each conflict, another writer has succeeded."""


async def save_sets(
    store: Store, read: StoredSets, change: Callable[[Session], Session]
) -> tuple[Session, Session]:
    """Change sets that were just read; return them before and after the change.

    Chat and objects are not read. After a conflict, the change is applied to the other writer's
    sets. A change without effect writes nothing.
    """
    object_id = session_object_id(read.session.session_id)
    for _ in range(ATTEMPTS_MAX):
        changed = change(read.session)
        if changed == read.session:
            return read.session, changed
        record = changed.to_record()
        try:
            commit = await commit_once(store, [Match(object_id, read.token), put_of(record)])
        except Conflict:
            current = await stored_sets(store, object_id)
            if current is None:
                raise Corrupt(f"{object_id} has vanished from its store") from None
            read = current
            continue
        written = StoredSets(session=changed, token=commit.token, object_hash=record.object_hash)
        remember(store, written)
        return read.session, changed
    raise Conflict((object_id,))


async def compaction_ids(store: Store, session_id: str) -> list[str]:
    """Return the ids of the compactions of a session, in no order."""
    ids: list[str] = []
    query, cursor = Query(COMPACTION, where={"session": session_id}), None
    while True:
        page = await store.find(query, limit=PAGE_MAX, cursor=cursor, without=("summary", "parts"))
        ids += [version.object_id for version in page.versions]
        cursor = page.cursor
        if cursor is None:
            return ids


async def exchange_count(store: Store, session_id: str) -> int:
    """Return how many exchanges a session has; they are numbered without gaps."""
    count = 0
    while True:
        numbers = range(count + 1, count + EXCHANGES_PER_READ + 1)
        ids = [exchange_id(session_id, number=number) for number in numbers]
        found = await store.get_many(ids, without=("received", "sent", "answer"))
        count += len(found)
        if len(found) < EXCHANGES_PER_READ:
            return count


async def proxied_ids(store: Store, session_id: str) -> list[str]:
    """Return the ids of what the proxy sent instead of texts of a session, and of the texts."""
    conversation = session_id.removeprefix(PROXY_SESSION)
    if conversation == session_id:
        return []
    ids: list[str] = []
    while True:
        page = [f"proxy_step:{conversation}:{len(ids) + n}" for n in range(EXCHANGES_PER_READ)]
        found = await store.get_many(page, without=("replaced", "views"))
        ids += found
        if len(found) < EXCHANGES_PER_READ:
            break
    handles: set[str] = set()
    for number in range(1, await exchange_count(store, session_id) + 1):
        object_id = exchange_id(session_id, number=number)
        versions = await store.get_many([object_id], without=("received", "sent", "answer"))
        folds = versions[object_id].document.get("folds") or ()
        handles.update(str(fold["handle"]).lstrip("#") for fold in folds)
    return [*ids, *(f"proxy_text:{conversation}:{handle}" for handle in sorted(handles))]
