"""An object or a session as it was: what was believed, and what was true. Reads the store.

believed   what the store said then of what was true then: what the agent could know
true       what is known today of that time
"""

from dataclasses import dataclass, field
from typing import Final

from ctxmgr.core.documents import KIND
from ctxmgr.core.sessions import Session
from ctxmgr.core.store import AsOf, Instant, Store, Version
from ctxmgr.errors import NotFound
from ctxmgr.surfaces.differences import unified
from ctxmgr.surfaces.known_turns import last_record, mounts_of, turn_count
from ctxmgr.surfaces.object_views import checked_state, hash_of
from ctxmgr.surfaces.session_views import (
    ObjectLine,
    at_a_glance,
    by_level,
    level_counts,
    object_lines,
)

COMPARED_MAX: Final = 1_000
"""Objects of a session that are compared with what was true: those shown most come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """An object at some point, in short."""

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
    believed: Seen | None
    """None: it was not known, or not there."""
    true: Seen | None
    """By all that is known now; None: it was not there."""
    diff: str
    """From what was believed to what was true."""
    content: str | None = field(repr=False)
    """What was believed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Differing:
    """An object of which something else was true than was believed."""

    object_id: str
    level: str
    name: str
    believed: str | None
    """Its ``object_hash``."""
    true: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionAsOf:
    """A session as it was, and where it was wrong."""

    session_id: str
    asked_valid_time: Instant
    asked_system_time: Instant
    turns: int
    active: int
    metadata: int
    indexed: int
    pinned: int
    objects: tuple[ObjectLine, ...]
    """What was shown in full, then what was pinned besides; as it was believed."""
    compared: int
    """Objects that were compared with what was true."""
    differing: tuple[Differing, ...]


async def object_as_of(
    store: Store, object_id: str, *, valid: Instant, known: Instant
) -> ObjectAsOf:
    """Tell what was believed of an object and what was true of it."""
    then, ever = AsOf(valid_time=valid, system_time=known), AsOf(valid_time=valid)
    believed, true = [await store.get(object_id, as_of=each) for each in (then, ever)]
    some = believed or true
    if some is None:
        raise NotFound(f"{object_id} was not there then, as far as is known")
    texts = [str(each.document.get("content") or "") if each else "" for each in (believed, true)]
    return ObjectAsOf(
        object_id=object_id,
        kind=str(some.document[KIND]),
        asked_valid_time=valid,
        asked_system_time=known,
        same=hash_of(believed) == hash_of(true),
        believed=await _seen(store, believed, then),
        true=await _seen(store, true, ever),
        diff=unified(*texts, names=("believed", "true")),
        content=believed.document.get("content") if believed else None,
    )


async def session_as_of(
    store: Store, session: Session, *, valid: Instant, known: Instant
) -> SessionAsOf:
    """Tell what a session was, and which of its objects were not as it believed."""
    then, ever = AsOf(valid_time=valid, system_time=known), AsOf(valid_time=valid)
    ids = by_level(session)[:COMPARED_MAX]
    believed, true = [await store.get_many(ids, as_of=each) for each in (then, ever)]
    mounts = mounts_of(await last_record(store, session.session_id))
    wrong = [each for each in ids if hash_of(believed.get(each)) != hash_of(true.get(each))]
    lines = await object_lines(store, session, wrong, mounts=mounts, as_of=ever)
    return SessionAsOf(
        session_id=session.session_id,
        asked_valid_time=valid,
        asked_system_time=known,
        turns=await turn_count(store, session.session_id, as_of=then),
        **level_counts(session),
        objects=await object_lines(store, session, at_a_glance(session), mounts=mounts, as_of=then),
        compared=len(ids),
        differing=tuple(
            Differing(
                object_id=each.object_id,
                level=str(each.level),
                name=each.name,
                believed=hash_of(believed.get(each.object_id)),
                true=hash_of(true.get(each.object_id)),
            )
            for each in lines
        ),
    )


async def _seen(store: Store, version: Version | None, as_of: AsOf) -> Seen | None:
    if version is None:
        return None
    return Seen(
        valid_time=version.valid_time,
        object_hash=hash_of(version),
        state=await checked_state(store, version, as_of),
        char_count=len(version.document.get("content") or ""),
    )
