"""A session as the store has it: its sets, its chat and its system prompt. Reads the store.

    whole     every id of the index is read, and all hashes are proven
    shown     all but the index, which may be fifty times as long as all that is shown

The hashes of a session's document cover its index. So what is shown of one whose index was left out
is taken on trust until the index is read, which happens behind the first prompt, and in any case
before the session is saved: nothing is ever written on top of a version that was not proven.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from ctxmgr.core.documents import Document
from ctxmgr.core.envelopes import chat_id, read_list, session_object_id, system_prompt_id
from ctxmgr.core.infrastructure import Chat, SessionRecord, SystemPrompt
from ctxmgr.core.objects import from_document
from ctxmgr.core.proven_sessions import StoredSets, whole_session
from ctxmgr.core.sessions import Session
from ctxmgr.core.store import Store, Version
from ctxmgr.errors import Corrupt, Incorrect, NotFound

_INDEX: Final = "session_index"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSession:
    """A session with what belongs to it, each with the token that guards its next version."""

    session: Session
    chat: Chat
    prompt: SystemPrompt
    tokens: dict[str, str | None]


async def read_session(store: Store, session_id: str, *, whole: bool = True) -> StoredSession:
    """Read a session with its chat and system prompt; ``NotFound`` if there is none."""
    ids = (session_object_id(session_id), chat_id(session_id), system_prompt_id(session_id))
    found = await store.get_many(ids, without=() if whole else (_INDEX,))
    if ids[0] not in found:
        raise NotFound(f"there is no session {session_id}")
    if len(found) < len(ids):
        raise Corrupt(f"session {session_id} lacks its chat or its system prompt")
    chat, prompt = (from_document(found[each].document) for each in ids[1:])
    assert isinstance(chat, Chat)
    assert isinstance(prompt, SystemPrompt)
    read = whole_session if whole else _shown
    return StoredSession(
        session=read(found[ids[0]].document),
        chat=chat,
        prompt=prompt,
        tokens={each: found[each].token for each in ids},
    )


async def read_sets(store: Store, session_id: str) -> StoredSets:
    """Read the sets of a session that is known to be there, and prove them."""
    object_id = session_object_id(session_id)
    stored: Version | None = (await store.get_many((object_id,))).get(object_id)
    if stored is None:
        raise Corrupt(f"{object_id} has vanished from its store")
    # A hundred thousand ids take a while: other tasks have their turns meanwhile.
    session = await asyncio.to_thread(whole_session, stored.document)
    return StoredSets(
        session=session, token=stored.token, object_hash=stored.document["object_hash"]
    )


def _shown(document: Document) -> Session:
    """Take the sets of a document without its index for as good as they look."""
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
        raise Corrupt(f"a session lacks the field {error}") from error
    except Incorrect as error:
        raise Corrupt(f"a session cannot be read: {error}") from error
    return Session.from_record(record).unread()
