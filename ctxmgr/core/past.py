"""What a session was, and what it was shown. Reads the store.

    prompt_as_of   a prompt made again from its record, proven by its hash
    state_as_of    sets, chat and objects at a point on both time axes
    believed_at    what was known of an object at that moment
    true_at        what was true of it then, as far as is known now

The last two differ when a file changed before it was looked at again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ctxmgr.core.assembly import Context
from ctxmgr.core.documents import ID
from ctxmgr.core.economy_records import Told
from ctxmgr.core.envelopes import chat_id, session_object_id, system_prompt_id, turn_id
from ctxmgr.core.infrastructure import Chat, SessionRecord, SystemPrompt
from ctxmgr.core.objects import StoredObject, from_document
from ctxmgr.core.prompts import rebuild, rebuild_economy
from ctxmgr.core.sessions import Session
from ctxmgr.core.store import AsOf, Instant, Store, Version
from ctxmgr.core.turns import ShownVersion, TurnRecord, shown_at
from ctxmgr.errors import Corrupt, NotFound, Unavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class PastState:
    """A session at a point on both time axes."""

    session: Session
    chat: Chat
    system_prompt: SystemPrompt
    objects: Mapping[str, StoredObject] = field(repr=False)
    """Every content object of the index that was there."""


async def prompt_as_of(store: Store, session_id: str, *, turn: int) -> Context:
    """Make the prompt of a turn again; ``Corrupt`` unless it hashes to what was sent.

    A turn from before a fork is the parent's.
    """
    record = await _record(store, session_id, turn)
    if record is None:
        parent = await _parent(store, session_id, turn)
        if parent is None:
            raise NotFound(f"session {session_id} has no turn {turn}")
        return await prompt_as_of(store, parent, turn=turn)
    chain = await store.get_many(record.needed())
    records = [TurnRecord.from_document(each.document) for each in chain.values()]
    shown = shown_at(records)
    chat = await _require(store, chat_id(session_id))
    versions = await _versions(store, record, shown)
    assert isinstance(chat, Chat)
    if record.policy is None:
        return rebuild(record, shown=shown, versions=versions, chat=chat)
    told = _told(records)
    return rebuild_economy(record, told, shown=shown, versions=versions, chat=chat)


async def told_at(store: Store, session_id: str, *, turn: int) -> Told | None:
    """Return what made the prompt of a turn; None: there is none, or it was the plain form."""
    record = await _record(store, session_id, turn) if turn else None
    if record is None or record.policy is None:
        return None
    chain = await store.get_many(record.needed())
    return _told(TurnRecord.from_document(each.document) for each in chain.values())


async def state_as_of(
    store: Store,
    session_id: str,
    *,
    valid_time: Instant | None = None,
    system_time: Instant | None = None,
) -> PastState:
    """Return a session as it was; None means now, with all that is known."""
    as_of = AsOf(valid_time=valid_time, system_time=system_time)
    ids = (session_object_id(session_id), chat_id(session_id), system_prompt_id(session_id))
    found = await store.get_many(ids, as_of=as_of)
    if len(found) < len(ids):
        raise NotFound(f"there was no session {session_id} then")
    record, chat, prompt = (from_document(found[each].document) for each in ids)
    assert isinstance(record, SessionRecord)
    assert isinstance(chat, Chat)
    assert isinstance(prompt, SystemPrompt)
    objects = await store.get_many(record.session_index, as_of=as_of)
    return PastState(
        session=Session.from_record(record),
        chat=chat,
        system_prompt=prompt,
        objects={each: from_document(version.document) for each, version in objects.items()},
    )


async def believed_at(store: Store, object_id: str, *, instant: Instant) -> StoredObject | None:
    """Return what the store said at that moment of what was true then."""
    return _stored(await store.get(object_id, as_of=AsOf(valid_time=instant, system_time=instant)))


async def true_at(store: Store, object_id: str, *, instant: Instant) -> StoredObject | None:
    """Return what was true at that moment, by all that has been learnt since."""
    return _stored(await store.get(object_id, as_of=AsOf(valid_time=instant)))


def _told(chain: Iterable[TurnRecord]) -> Told:
    """Join what the last records of a chain say that a policy made."""
    policies = [record.policy for record in chain]
    plain = [at for at, policy in enumerate(policies) if policy is None]
    since = policies[plain[-1] + 1 :] if plain else policies
    return Told.joined(policy for policy in since if policy is not None)


async def _record(store: Store, session_id: str, turn: int) -> TurnRecord | None:
    version = await store.get(turn_id(session_id, number=turn))
    return None if version is None else TurnRecord.from_document(version.document)


async def _parent(store: Store, session_id: str, turn: int) -> str | None:
    fork = await store.get(f"fork:{session_id}")
    if fork is None or turn > fork.document["turn"]:
        return None
    return str(fork.document["parent"])


async def _versions(
    store: Store, record: TurnRecord, shown: Mapping[str, ShownVersion]
) -> dict[str, StoredObject]:
    """Read the versions that were shown: as of the record's sequence, or else by their hash."""
    wanted = {each: shown[each].object_hash for each in shown if each != chat_id(record.session)}
    try:
        found = await store.get_many(wanted, as_of=AsOf(sequence=record.sequence))
    except Unavailable:  # in another store sequences mean nothing
        found = {}
    versions = {}
    for object_id, wanted_hash in wanted.items():
        version = found.get(object_id)
        if version is not None and version.document.get("object_hash") == wanted_hash:
            versions[object_id] = from_document(version.document)
        else:
            versions[object_id] = await _by_hash(store, object_id, wanted_hash)
    return versions


async def _by_hash(store: Store, object_id: str, object_hash: str) -> StoredObject:
    cursor = None
    while True:
        page = await store.history(object_id, corrections=True, newest_first=True, cursor=cursor)
        for entry in page.entries:
            if entry.document is not None and entry.document.get("object_hash") == object_hash:
                return from_document(entry.document)
        cursor = page.cursor
        if cursor is None:
            raise Corrupt(f"{object_id}: the version {object_hash} that was shown is missing")


async def _require(store: Store, object_id: str) -> StoredObject:
    found = _stored(await store.get(object_id))
    if found is None:
        raise Corrupt(f"{object_id} is missing")
    return found


def _stored(version: Version | None) -> StoredObject | None:
    if version is None:
        return None
    assert version.document[ID] == version.object_id
    return from_document(version.document)
