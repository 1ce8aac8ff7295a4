"""Forks: sessions that continue from an earlier turn of another session. Reads the store.

A fork has the turns up to there, the sets as they were stored with that turn, and shares every
content object. The records of the turns before the fork remain the parent's; ``lineage`` and
``owner`` find the session that has them.
"""

from dataclasses import dataclass
from typing import Final

from ctxmgr.core.objects.chat import Chat
from ctxmgr.core.objects.codec import from_document
from ctxmgr.core.objects.envelope import chat_id, session_object_id, system_prompt_id, turn_id
from ctxmgr.core.objects.session_record import SessionRecord, SystemPrompt
from ctxmgr.core.sessions.sets import Session
from ctxmgr.core.store.contract import AsOf, Store
from ctxmgr.core.store.documents import ID, KIND, Document
from ctxmgr.errors import Corrupt, NotFound

FORK: Final = "fork"
"""``fork:{session}`` names the parent and the turn: a plain document, not one of the five types."""

IMPORTED: Final = "imported"
"""``imported:{session}`` says that a bundle wrote to the session: which files it names was decided
elsewhere. In no bundle itself."""

ANCESTORS_MAX: Final = 1_000
"""Forks of forks that are followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ancestor:
    """A session of a lineage, and the turns it contributes."""

    session_id: str
    turns_until: int | None
    """The last turn that it contributes; None if there is no limit."""


async def lineage(store: Store, session_id: str) -> list[Ancestor]:
    """Return the session and those it was forked from, the newest first."""
    line = [Ancestor(session_id=session_id, turns_until=None)]
    while len(line) < ANCESTORS_MAX:
        fork = await store.get(f"{FORK}:{line[-1].session_id}")
        if fork is None:
            return line
        parent, turn = str(fork.document["parent"]), int(fork.document["turn"])
        line.append(Ancestor(session_id=parent, turns_until=turn))
    raise Corrupt(f"session {session_id} is a fork of more than {ANCESTORS_MAX} others")


def owner(line: list[Ancestor], turn: int) -> str:
    """Return the session that has the record of a turn: the oldest that reaches this turn."""
    session_id = line[0].session_id
    for ancestor in line[1:]:
        if ancestor.turns_until is None or turn > ancestor.turns_until:
            break
        session_id = ancestor.session_id
    return session_id


def imported_document(session_id: str, *, root: str) -> Document:
    """Return the mark of a session that a bundle with this root hash was imported into."""
    mark = {ID: f"{IMPORTED}:{session_id}", KIND: IMPORTED}
    return {**mark, "session": session_id, "root": root}


async def was_imported(store: Store, session_id: str) -> bool:
    """Return whether a bundle wrote to a session, or to one that it was forked from."""
    line = await lineage(store, session_id)
    marks = await store.get_many([f"{IMPORTED}:{ancestor.session_id}" for ancestor in line])
    return bool(marks)


async def forked(
    store: Store, session_id: str, *, turn: int, new_session_id: str
) -> tuple[Session, Chat, SystemPrompt, AsOf]:
    """Return the sets, chat and system prompt of a new session that continues after a turn.

    The last value is the point at which the turn was stored.
    """
    holder = owner(await lineage(store, session_id), turn)
    page = await store.history(turn_id(holder, number=turn), documents=False, limit=1)
    if not page.entries:
        raise NotFound(f"session {session_id} has no turn {turn}")
    ids = (session_object_id(holder), chat_id(holder), system_prompt_id(holder))
    then = AsOf(sequence=page.entries[0].sequence)
    versions = await store.get_many(ids, as_of=then)
    if len(versions) < len(ids):
        raise Corrupt(f"session {holder} has no chat or no system prompt at turn {turn}")
    record, chat, prompt = (from_document(versions[object_id].document) for object_id in ids)
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
        then,
    )


def fork_document(new_session_id: str, *, parent: str, turn: int) -> Document:
    """Return the document that names the parent of a fork."""
    return {
        ID: f"{FORK}:{new_session_id}",
        KIND: FORK,
        "session": new_session_id,
        "parent": parent,
        "turn": turn,
    }
