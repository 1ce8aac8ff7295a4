"""Tags and comments on timesteps, in ``log.sqlite``.

A tag counts for a timestep if it was applied to the timestep, to its event, or to a range of ticks
that holds it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from ctxmgr.errors import Incorrect, NotFound
from ctxmgr.experience.log.tail import last_tick
from ctxmgr.experience.records.annotations import AnnotationTarget, Comment, Tag, TagApplication
from ctxmgr.experience.records.kinds import BudStatus, TagSource, TagType, TargetType
from ctxmgr.experience.records.timestep import parse_timestep_id, timestep_id
from ctxmgr.stores.layer_file import SqlConnection

TAG_COLUMNS: Final = (
    "id, name, tag_type, concept_id, entity_type, bud_status, created_at, created_by, description,"
    " origin_type, related_concepts"
)
_TARGET: Final = "session_id, target_type, timestep_id, event_id, range_start, range_end"


@dataclass(frozen=True, slots=True)
class TagTargets:
    """What some tags were applied to."""

    ranges: tuple[tuple[str, int, int], ...]
    """Session, first and last tick."""
    events: tuple[tuple[str, str], ...]
    """Session and event id."""


def tag_targets(
    connection: SqlConnection, tag_ids: Sequence[str], session_id: str | None = None
) -> TagTargets:
    """Return what these tags were applied to, in one session or in all."""
    ranges, events = list[tuple[str, int, int]](), list[tuple[str, str]]()
    for tag_id in tag_ids:
        rows = connection.execute(
            f"SELECT {_TARGET} FROM tag_applications WHERE tag_id = ?",
            (tag_id,),
        )
        for session, kind, timestep, event, start, end in rows:
            if session_id is not None and session != session_id:
                continue
            if kind == TargetType.TIMESTEP:
                _, tick = parse_timestep_id(timestep)
                ranges.append((session, tick, tick))
            elif kind == TargetType.EVENT:
                events.append((session, event))
            else:
                ranges.append((session, start, end))
    return TagTargets(tuple(ranges), tuple(events))


def add_application(connection: SqlConnection, application: TagApplication) -> str:
    """Store an application; ``Incorrect`` if there is no such tag.

    ``NotFound`` if it is on ticks that were not recorded yet.
    """
    known = connection.execute("SELECT 1 FROM tags WHERE id = ?", (application.tag_id,)).fetchone()
    if known is None:
        raise Incorrect(f"there is no tag {application.tag_id!r:.80}; create it first")
    _require_recorded(connection, application)
    connection.execute(
        f"INSERT INTO tag_applications (id, tag_id, {_TARGET}, confidence, source, created_at,"
        " note, inherited_from) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            application.id,
            application.tag_id,
            *_target_values(application),
            application.confidence,
            application.source,
            application.created_at,
            application.note,
            application.inherited_from,
        ),
    )
    return application.id


def add_comment(connection: SqlConnection, comment: Comment) -> str:
    """Store a comment; ``NotFound`` if it is on ticks that were not recorded yet."""
    if not comment.content.strip():
        raise Incorrect("the comment is empty: say something about what happened")
    _require_recorded(connection, comment)
    connection.execute(
        f"INSERT INTO comments (id, {_TARGET}, content, created_at, updated_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            comment.id,
            *_target_values(comment),
            comment.content,
            comment.created_at,
            comment.updated_at,
        ),
    )
    return comment.id


def _require_recorded(connection: SqlConnection, target: AnnotationTarget) -> None:
    """Refuse ticks after the last one, which nobody would find. An event may still be streamed."""
    if target.timestep_id is not None:
        tick = parse_timestep_id(target.timestep_id)[1]
    elif target.range_start is not None:
        tick = target.range_start
    else:
        return
    last = last_tick(connection, target.session_id)
    if tick > last:
        known = f"its last tick is {last}" if last else "nothing was recorded in it"
        raise NotFound(f"there is no tick {tick} in session {target.session_id!r}: {known}")


def tags_of_timestep(
    connection: SqlConnection, *, session_id: str, tick: int, timestep_id: str, event_id: str | None
) -> list[Tag]:
    """Return the tags that apply to a timestep, by name."""
    rows = connection.execute(
        f"SELECT {TAG_COLUMNS} FROM tags WHERE id IN (SELECT tag_id FROM tag_applications"
        " WHERE timestep_id = ? OR session_id = ? AND (event_id = ?"
        " OR ? BETWEEN range_start AND range_end)) ORDER BY name, id",
        (timestep_id, session_id, event_id, tick),
    )
    return [read_tag(row) for row in rows]


def comments_of_range(
    connection: SqlConnection, *, session_id: str, start: int, end: int, event_ids: Sequence[str]
) -> list[Comment]:
    """Return the comments on a timestep, an event or a range that meets the ticks, oldest first."""
    rows = connection.execute(
        f"SELECT id, {_TARGET}, content, created_at, updated_at FROM comments"
        " WHERE session_id = ? ORDER BY created_at, id",
        (session_id,),
    )
    comments = [_comment(row) for row in rows]
    return [comment for comment in comments if _meets(comment, start, end, set(event_ids))]


def applications_of_range(
    connection: SqlConnection,
    *,
    session_id: str,
    ticks: tuple[int, int],
    event_ids: Sequence[str],
    limit: int,
) -> list[tuple[str, TagApplication]]:
    """Return the newest applications that meet the ticks, with the names of their tags."""
    start, end = ticks
    rows = connection.execute(
        f"SELECT tags.name, a.id, tag_id, {_TARGET}, confidence, source, a.created_at, note,"
        " inherited_from FROM tag_applications AS a JOIN tags ON tags.id = tag_id"
        " WHERE session_id = ? AND (range_start <= ? AND range_end >= ?"
        " OR event_id IN (SELECT value FROM json_each(?))"
        " OR CAST(substr(timestep_id, ?) AS INTEGER) BETWEEN ? AND ?)"
        " ORDER BY a.created_at DESC, a.id LIMIT ?",
        (
            *(session_id, end, start),
            orjson.dumps(list(event_ids)).decode(),
            *(len(timestep_id(session_id, 0)), start, end),
            limit,
        ),
    )
    return [(name, _application(row)) for name, *row in rows]


def read_tag(row: Sequence[Any]) -> Tag:
    """Return the tag of a row with ``TAG_COLUMNS``."""
    *plain, related = row
    id_, name, kind, concept, entity, status, created_at, created_by, description, origin = plain
    return Tag(
        id=id_,
        name=name,
        tag_type=TagType(kind),
        concept_id=concept,
        entity_type=entity,
        bud_status=None if status is None else BudStatus(status),
        created_at=created_at,
        created_by=created_by,
        description=description,
        origin_type=None if origin is None else TagType(origin),
        related_concepts=tuple(orjson.loads(related)),
    )


def _target_values(target: AnnotationTarget) -> tuple[object, ...]:
    return (
        target.session_id,
        target.target_type,
        target.timestep_id,
        target.event_id,
        target.range_start,
        target.range_end,
    )


def _application(row: Sequence[Any]) -> TagApplication:
    id_, tag_id, session, kind, timestep, event, start, end, *rest = row
    confidence, source, created_at, note, inherited_from = rest
    return TagApplication(
        id=id_,
        tag_id=tag_id,
        session_id=session,
        target_type=TargetType(kind),
        timestep_id=timestep,
        event_id=event,
        range_start=start,
        range_end=end,
        confidence=confidence,
        source=TagSource(source),
        created_at=created_at,
        note=note,
        inherited_from=inherited_from,
    )


def _comment(row: Sequence[Any]) -> Comment:
    id_, session, kind, timestep, event, start, end, content, created_at, updated_at = row
    return Comment(
        id=id_,
        session_id=session,
        target_type=TargetType(kind),
        timestep_id=timestep,
        event_id=event,
        range_start=start,
        range_end=end,
        content=content,
        created_at=created_at,
        updated_at=updated_at,
    )


def _meets(comment: Comment, start: int, end: int, event_ids: set[str]) -> bool:
    if comment.timestep_id is not None:
        return start <= parse_timestep_id(comment.timestep_id)[1] <= end
    if comment.event_id is not None:
        return comment.event_id in event_ids
    assert comment.range_start is not None
    assert comment.range_end is not None
    return comment.range_start <= end and comment.range_end >= start
