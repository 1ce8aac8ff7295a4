"""An object or a session as of a time: what was believed, and what was true. Reads the store.

believed   what the store held then of that time: what the agent could know
true       what is known today of that time
"""

from dataclasses import dataclass, field
from typing import Final

from ctxmgr.core.sessions.sets import Session
from ctxmgr.core.store.contract import AsOf, Instant, Store, Version
from ctxmgr.core.store.documents import KIND
from ctxmgr.errors import NotFound
from ctxmgr.surfaces.views.differences import diff_texts
from ctxmgr.surfaces.views.last_turn import last_record, mounts_of, turn_count
from ctxmgr.surfaces.views.objects import checked_state, hash_of
from ctxmgr.surfaces.views.sessions import (
    ObjectLine,
    glance_ids,
    ids_by_level,
    object_lines,
)

COMPARED_MAX: Final = 1_000
"""Objects of a session that are compared, those shown in full first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectSummary:
    """An object at one point in time, in short."""

    valid_time: Instant
    object_hash: str | None
    state: str | None
    char_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectAsOf:
    """What was believed of an object, and what was true of it."""

    object_id: str
    kind: str
    asked_valid_time: Instant
    asked_system_time: Instant
    same: bool
    believed: ObjectSummary | None
    """None: it was not known, or did not exist."""
    true: ObjectSummary | None
    """By all that is known now; None: it did not exist."""
    diff: str
    """From the believed to the true content."""
    content: str | None = field(repr=False)
    """As it was believed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeliefDifference:
    """An object that was not as it was believed to be."""

    object_id: str
    level: str
    name: str
    believed: str | None
    """Its ``object_hash``."""
    true: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionAsOf:
    """A session as of a time, and which of its objects were not as believed."""

    session_id: str
    asked_valid_time: Instant
    asked_system_time: Instant
    turns: int
    active: int
    metadata: int
    indexed: int
    pinned: int
    objects: tuple[ObjectLine, ...]
    """Objects shown in full, then other pinned ones; as they were believed."""
    compared: int
    """How many objects were compared."""
    differing: tuple[BeliefDifference, ...]


async def object_as_of(
    store: Store, object_id: str, *, valid: Instant, known: Instant
) -> ObjectAsOf:
    """Compare what was believed of an object with what was true of it."""
    then, ever = AsOf(valid_time=valid, system_time=known), AsOf(valid_time=valid)
    believed, true = [await store.get(object_id, as_of=as_of) for as_of in (then, ever)]
    either = believed or true
    if either is None:
        raise NotFound(f"{object_id} did not exist then, as far as is known")
    texts = [
        str(version.document.get("content") or "") if version else ""
        for version in (believed, true)
    ]
    return ObjectAsOf(
        object_id=object_id,
        kind=str(either.document[KIND]),
        asked_valid_time=valid,
        asked_system_time=known,
        same=hash_of(believed) == hash_of(true),
        believed=await _summary(store, believed, then),
        true=await _summary(store, true, ever),
        diff=diff_texts(*texts, names=("believed", "true")),
        content=believed.document.get("content") if believed else None,
    )


async def session_as_of(
    store: Store, session: Session, *, valid: Instant, known: Instant
) -> SessionAsOf:
    """Describe a session as of a time, and which of its objects were not as believed."""
    then, ever = AsOf(valid_time=valid, system_time=known), AsOf(valid_time=valid)
    ids = ids_by_level(session)[:COMPARED_MAX]
    believed, true = [await store.get_many(ids, as_of=as_of) for as_of in (then, ever)]
    mounts = mounts_of(await last_record(store, session.session_id))
    wrong = [
        object_id
        for object_id in ids
        if hash_of(believed.get(object_id)) != hash_of(true.get(object_id))
    ]
    lines = await object_lines(store, session, wrong, mounts=mounts, as_of=ever)
    return SessionAsOf(
        session_id=session.session_id,
        asked_valid_time=valid,
        asked_system_time=known,
        turns=await turn_count(store, session.session_id, as_of=then),
        **session.level_counts(),
        objects=await object_lines(store, session, glance_ids(session), mounts=mounts, as_of=then),
        compared=len(ids),
        differing=tuple(
            BeliefDifference(
                object_id=line.object_id,
                level=str(line.level),
                name=line.name,
                believed=hash_of(believed.get(line.object_id)),
                true=hash_of(true.get(line.object_id)),
            )
            for line in lines
        ),
    )


async def _summary(store: Store, version: Version | None, as_of: AsOf) -> ObjectSummary | None:
    if version is None:
        return None
    return ObjectSummary(
        valid_time=version.valid_time,
        object_hash=hash_of(version),
        state=await checked_state(store, version, as_of),
        char_count=len(version.document.get("content") or ""),
    )
