"""Past prompts and past states of sessions and objects. Reads the store.

    prompt_as_of   a prompt rebuilt from its record, verified by its hash
    state_as_of    sets, chat and objects at a point on both time axes
    believed_at    the version of an object that the store had at that time
    true_at        what was true of it then, as far as is known now

The last two differ if a file changed before it was read again.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeAlias

from ctxmgr.core.context.assembly import Context
from ctxmgr.core.history.reading import read_prompts, read_turns_until
from ctxmgr.core.objects.chat import Chat
from ctxmgr.core.objects.codec import StoredObject, from_document
from ctxmgr.core.objects.envelope import chat_id, session_object_id, system_prompt_id
from ctxmgr.core.objects.session_record import SessionRecord, SystemPrompt
from ctxmgr.core.sessions.sets import Session
from ctxmgr.core.store.contract import AsOf, Instant, Store
from ctxmgr.errors import Incorrect, NotFound

Moment: TypeAlias = Instant | datetime
"""UTC milliseconds, or a datetime with a time zone."""

MILLISECONDS_MIN: Final = 10**11
"""In 1973. In seconds it is a time after the year 5000, so that one unit is not taken for the
other."""


def to_instant(moment: Moment) -> Instant:
    """Return a moment in UTC milliseconds; ``Incorrect`` if it is not one, or is in seconds."""
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise Incorrect(f"{moment!r} has no time zone: use datetime.now(UTC), for example")
        return int(moment.timestamp() * 1000)
    if type(moment) is not int:
        raise Incorrect(f"a time must be a datetime or UTC milliseconds, not {moment!r:.80}")
    if moment < MILLISECONDS_MIN:
        raise Incorrect(f"{moment} looks like seconds: times are a datetime or UTC milliseconds")
    return moment


@dataclass(frozen=True, slots=True, kw_only=True)
class PastState:
    """A session at a point on both time axes."""

    session: Session
    chat: Chat
    system_prompt: SystemPrompt
    objects: Mapping[str, StoredObject] = field(repr=False)
    """Every content object of the session index that existed then."""


async def prompt_as_of(store: Store, session_id: str, *, turn: int) -> Context:
    """Rebuild the prompt of a turn; ``Corrupt`` unless it hashes to what was sent.

    A turn from before a fork belongs to the parent session.
    """
    chat = await read_turns_until(store, session_id, turn=turn)
    if not 1 <= turn <= len(chat.turns):
        raise NotFound(f"session {session_id} has no turn {turn}")
    read = await read_prompts(store, chat, first=turn, last=turn)
    return await asyncio.to_thread(read.last_context)


async def state_as_of(
    store: Store,
    session_id: str,
    *,
    valid_time: Moment | None = None,
    system_time: Moment | None = None,
) -> PastState:
    """Return a session as it was; None means now, with everything that is known."""
    as_of = AsOf(
        valid_time=None if valid_time is None else to_instant(valid_time),
        system_time=None if system_time is None else to_instant(system_time),
    )
    ids = (session_object_id(session_id), chat_id(session_id), system_prompt_id(session_id))
    versions = await store.get_many(ids, as_of=as_of)
    if len(versions) < len(ids):
        raise NotFound(f"session {session_id} did not exist then")
    record, chat, prompt = (from_document(versions[object_id].document) for object_id in ids)
    assert isinstance(record, SessionRecord)
    assert isinstance(chat, Chat)
    assert isinstance(prompt, SystemPrompt)
    objects = await store.get_many(record.session_index, as_of=as_of)
    return PastState(
        session=Session.from_record(record),
        chat=chat,
        system_prompt=prompt,
        objects={
            object_id: from_document(version.document) for object_id, version in objects.items()
        },
    )


async def believed_at(store: Store, object_id: str, *, instant: Moment) -> StoredObject | None:
    """Return the version that the store had at that time for that time."""
    at = to_instant(instant)
    return await _get(store, object_id, AsOf(valid_time=at, system_time=at))


async def true_at(store: Store, object_id: str, *, instant: Moment) -> StoredObject | None:
    """Return what was true at that moment, according to everything learnt since."""
    return await _get(store, object_id, AsOf(valid_time=to_instant(instant)))


async def _get(store: Store, object_id: str, as_of: AsOf) -> StoredObject | None:
    version = await store.get(object_id, as_of=as_of)
    return None if version is None else from_document(version.document)
