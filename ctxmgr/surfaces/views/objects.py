"""Objects: one version, two versions compared, or a session's objects by page. Reads the store.

All pages of a list show the same point in time: the cursor holds the sequence of the first page.
"""

from dataclasses import dataclass, field
from typing import Any

from ctxmgr.core.history.as_of import prompt_as_of
from ctxmgr.core.objects.codec import from_document
from ctxmgr.core.objects.envelope import FILE, OBJECT_KINDS, TOOLCALL
from ctxmgr.core.objects.hashes import is_hash
from ctxmgr.core.sessions.sets import Level, Session
from ctxmgr.core.store.contract import AsOf, HistoryEntry, Instant, Store, Version
from ctxmgr.core.store.documents import ID, KIND
from ctxmgr.core.store.queries import check_limit, decode_position, encode_cursor
from ctxmgr.core.tracking.indexing import state_of
from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.views.differences import (
    ComparedVersion,
    Difference,
    PromptDifference,
    compare_documents,
    compare_prompts,
)
from ctxmgr.surfaces.views.last_turn import last_record, mounts_of, turn_count
from ctxmgr.surfaces.views.lookup import (
    VIEW_BATCH,
    no_member,
    no_object,
    require_session,
    version_at,
    version_number,
)
from ctxmgr.surfaces.views.sessions import ObjectLine, ids_by_level, object_line


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectPage:
    session_id: str
    total: int
    """Objects of the requested level and kind, on all pages."""
    objects: tuple[ObjectLine, ...]
    cursor: str | None


async def list_objects(
    store: Store,
    name: str,
    *,
    kind: str | None,
    level: Level | None,
    limit: int,
    cursor: str | None,
) -> ObjectPage:
    """Return one page of a session's objects, by level and then as they arrived."""
    check_limit(limit)
    query = ["objects", name, kind, level]
    if cursor is None:
        sequence, offset = (await store.status()).sequence, 0
    else:
        sequence, offset = decode_position(query, cursor, int, int)
    as_of = AsOf(sequence=sequence)
    session = await require_session(store, name, as_of=as_of)
    # Only the ids of files are hashes, so that no object is read to count those of a kind.
    ids = [
        object_id
        for object_id in ids_by_level(session, level)
        if kind in (None, FILE if is_hash(object_id) else TOOLCALL)
    ]
    lines, reached = await _lines(store, session, ids, offset, limit=limit, as_of=as_of)
    more = reached < len(ids)
    return ObjectPage(
        session_id=session.session_id,
        total=len(ids),
        objects=tuple(lines),
        cursor=encode_cursor(query, [sequence, reached]) if more else None,
    )


async def _lines(
    store: Store,
    session: Session,
    ids: list[str],
    offset: int,
    *,
    limit: int,
    as_of: AsOf,
) -> tuple[list[ObjectLine], int]:
    """Read from an offset until the page is full; return the lines and the new offset."""
    mounts = mounts_of(await last_record(store, session.session_id))
    lines: list[ObjectLine] = []
    while offset < len(ids):
        chunk = ids[offset : offset + VIEW_BATCH]
        versions = await store.get_many(chunk, as_of=as_of)
        for object_id in chunk:
            version = versions.get(object_id)
            offset += 1
            if version is not None:
                lines.append(await object_line(store, session, version, mounts=mounts, as_of=as_of))
            if len(lines) == limit:
                return lines, offset
    return lines, offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectView:
    """One version of an object."""

    object_id: str
    kind: str
    valid_time: Instant
    """When the version became valid."""
    state: str | None
    """Of a file: live, stub, deleted or nontext."""
    level: str | None
    """In the requested session."""
    pinned: bool | None
    fields: dict[str, Any]
    content: str | None = field(repr=False)


async def view_object(
    store: Store, object_id: str, *, as_of: AsOf, version: int | None, session: Session | None
) -> ObjectView:
    """Return a version: the one of that number, or the one visible at a point in time."""
    if version is not None:
        _, entry = await version_number(store, object_id, version, as_of=as_of)
        as_of = AsOf(valid_time=entry.valid_time, sequence=entry.sequence)
        stored: Version | None = await version_at(store, entry)
    else:
        stored = await store.get(object_id, as_of=as_of)
    if stored is None:
        if session is not None:
            raise await no_member(store, session, object_id)
        raise await no_object(store, object_id, as_of)
    document = dict(stored.document)
    content = document.pop("content", None)
    return ObjectView(
        object_id=object_id,
        kind=str(document.pop(KIND)),
        valid_time=stored.valid_time,
        state=await checked_state(store, stored, as_of),
        level=None if session is None else str(session.level(object_id) or "not met"),
        pinned=None if session is None else object_id in session.pinned_set,
        fields={name: value for name, value in document.items() if name != ID},
        content=content,
    )


async def compare_versions(store: Store, object_id: str, *, numbers: tuple[int, int]) -> Difference:
    """Compare two versions of an object."""
    (old, before), (new, after) = [
        await version_number(store, object_id, number) for number in numbers
    ]
    old_version, new_version = await version_at(store, before), await version_at(store, after)
    fields, diff = compare_documents(old_version.document, new_version.document)
    return Difference(
        object_id=object_id,
        kind=str(new_version.document[KIND]),
        before=_compared(old, before, old_version),
        after=_compared(new, after, new_version),
        same=not fields and not diff,
        fields=fields,
        diff=diff,
    )


async def compare_turns(
    store: Store, session: Session, *, from_turn: int | None, to_turn: int | None
) -> PromptDifference:
    """Compare the prompts of two turns; by default the last two."""
    last = to_turn if to_turn is not None else await turn_count(store, session.session_id)
    first = from_turn if from_turn is not None else last - 1
    if first < 1:
        raise Incorrect(f"session {session.session_id} has no earlier turn to compare with")
    old_prompt, new_prompt = [
        await prompt_as_of(store, session.session_id, turn=turn) for turn in (first, last)
    ]
    return compare_prompts(old_prompt, new_prompt, turns=(first, last))


async def checked_state(store: Store, version: Version, as_of: AsOf) -> str | None:
    """Check a version against its hashes; return the state of a file, None for other kinds."""
    if version.document[KIND] in OBJECT_KINDS:
        from_document(version.document)
    if version.document[KIND] != FILE:
        return None
    return str(await state_of(store, version, as_of=as_of))


def _compared(number: int, entry: HistoryEntry, version: Version) -> ComparedVersion:
    return ComparedVersion(
        version=number,
        valid_time=entry.valid_time,
        system_time=entry.system_time,
        sequence=entry.sequence,
        object_hash=hash_of(version),
    )


def hash_of(version: Version | None) -> str | None:
    """Return the hash of a version; None: no version, or a kind without hashes."""
    return None if version is None else version.document.get("object_hash")
