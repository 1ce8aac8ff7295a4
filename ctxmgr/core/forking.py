"""A session that goes on from an earlier turn of another. Reads the store.

The new session has the turns up to there, the sets as they were stored with that turn, and shares
every content object; what happened later is not in it. ``fork:{session}`` says where it comes from.
"""

from ctxmgr.core.documents import ID, KIND, Document
from ctxmgr.core.envelopes import chat_id, session_object_id, system_prompt_id, turn_id
from ctxmgr.core.infrastructure import Chat, SessionRecord, SystemPrompt
from ctxmgr.core.lineages import FORK, lineage, owner
from ctxmgr.core.objects import from_document
from ctxmgr.core.sessions import Session
from ctxmgr.core.store import AsOf, Store
from ctxmgr.errors import Corrupt, NotFound


async def forked(
    store: Store, session_id: str, *, turn: int, new_session_id: str
) -> tuple[Session, Chat, SystemPrompt]:
    """Return what a session that begins after that turn is made of."""
    holder = owner(await lineage(store, session_id), turn)
    page = await store.history(turn_id(holder, number=turn), documents=False, limit=1)
    if not page.entries:
        raise NotFound(f"session {session_id} has no turn {turn}")
    ids = (session_object_id(holder), chat_id(holder), system_prompt_id(holder))
    found = await store.get_many(ids, as_of=AsOf(sequence=page.entries[0].sequence))
    if len(found) < len(ids):
        raise Corrupt(f"session {holder} lacks its chat or its system prompt at turn {turn}")
    record, chat, prompt = (from_document(found[each].document) for each in ids)
    assert isinstance(record, SessionRecord)
    assert isinstance(chat, Chat)
    assert isinstance(prompt, SystemPrompt)
    sets = Session.from_record(record)
    session = Session(
        session_id=new_session_id,
        session_index=sets.session_index,
        metadata_pool=sets.metadata_pool,
        active_set=sets.active_set,
        pinned_set=sets.pinned_set,
    )
    return (
        session,
        Chat(session_id=new_session_id, turns=chat.turns[:turn]),
        SystemPrompt(session_id=new_session_id, content=prompt.content),
    )


def fork_document(new_session_id: str, *, parent: str, turn: int) -> Document:
    """Say where a session comes from."""
    return {
        ID: f"{FORK}:{new_session_id}",
        KIND: FORK,
        "session": new_session_id,
        "parent": parent,
        "turn": turn,
    }
