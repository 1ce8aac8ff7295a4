"""The objects of a session, a page at a time. Reads the store.

Pages are of one moment: the cursor names the sequence at which the first was read.
"""

from dataclasses import dataclass
from typing import Final

from ctxmgr.core.documents import KIND
from ctxmgr.core.paging import check_limit, encode_cursor, position_of
from ctxmgr.core.sessions import Level, Session
from ctxmgr.core.store import AsOf, Store
from ctxmgr.surfaces.known_turns import last_record, mounts_of
from ctxmgr.surfaces.naming import require_session
from ctxmgr.surfaces.session_views import ObjectLine, by_level, object_line

CHUNK: Final = 200
"""Objects read at once while a kind is looked for."""

LOOKED_AT_MAX: Final = 10_000
"""Objects read for one page: of a rare kind a page may be shorter, with a cursor all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectPage:
    session_id: str
    total: int
    """Objects of the level asked for, of any kind."""
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
    asked = ["objects", name, kind, level]
    if cursor is None:
        sequence, offset = (await store.status()).sequence, 0
    else:
        sequence, offset = position_of(asked, cursor, int, int)
    as_of = AsOf(sequence=sequence)
    session = await require_session(store, name, as_of=as_of)
    ids = by_level(session, level)
    lines, reached = await _lines(store, session, ids, offset, kind=kind, limit=limit, as_of=as_of)
    more = reached < len(ids)
    return ObjectPage(
        session_id=session.session_id,
        total=len(ids),
        objects=tuple(lines),
        cursor=encode_cursor(asked, [sequence, reached]) if more else None,
    )


async def _lines(
    store: Store,
    session: Session,
    ids: list[str],
    offset: int,
    *,
    kind: str | None,
    limit: int,
    as_of: AsOf,
) -> tuple[list[ObjectLine], int]:
    """Read on from an offset until the page is full; return where that was."""
    mounts = mounts_of(await last_record(store, session.session_id))
    lines: list[ObjectLine] = []
    end = min(len(ids), offset + LOOKED_AT_MAX)
    while offset < end:
        chunk = ids[offset : min(end, offset + CHUNK)]
        found = await store.get_many(chunk, as_of=as_of)
        for object_id in chunk:
            version = found.get(object_id)
            offset += 1
            if version is not None and kind in (None, version.document[KIND]):
                lines.append(await object_line(store, session, version, mounts=mounts, as_of=as_of))
            if len(lines) == limit:
                return lines, offset
    return lines, offset
