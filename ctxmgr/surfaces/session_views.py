"""Sessions as a person looks at them: the list, one at a glance, its objects. Reads the store.

    SessionLine       one line of `sessions`
    SessionOverview   `show SESSION`
    ObjectLine        one line of `objects`

A list reads what its page needs: of a chat its stored fields, never its turns as values.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ctxmgr.core.contents import File, ToolCall
from ctxmgr.core.envelopes import SESSION, chat_id, session_object_id, system_prompt_id
from ctxmgr.core.events import ACTIVE, LIFECYCLE
from ctxmgr.core.indexing import state_of
from ctxmgr.core.infrastructure import Turn
from ctxmgr.core.lineages import lineage
from ctxmgr.core.mounts import Mounts
from ctxmgr.core.objects import from_document
from ctxmgr.core.parts import TEXT
from ctxmgr.core.sessions import Level, Session
from ctxmgr.core.store import LATEST, AsOf, Instant, Query, Store, Version
from ctxmgr.errors import Corrupt
from ctxmgr.surfaces.known_turns import display_path, last_record, mounts_of
from ctxmgr.surfaces.naming import read_session

SHORT_LENGTH_MAX: Final = 200
"""Characters of a text in short."""

DAMAGED: Final = "damaged"
LEVELS: Final = ("active", "metadata", "indexed", "pinned")

GLANCE_MAX: Final = 20
"""Objects that a glance at a session lists: what is shown in full and what is pinned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLine:
    """A session in a list."""

    session_id: str
    state: str
    """active: some client has it open, or had and did not pause it; paused; or damaged: what is
    stored fails its own check, and `show` says how."""
    turns: int
    active: int | None
    metadata: int | None
    indexed: int | None
    pinned: int | None
    last_activity: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPage:
    sessions: tuple[SessionLine, ...]
    cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectLine:
    """An object as a session has it."""

    object_id: str
    kind: str
    level: Level | None
    """None: the session has not met it."""
    pinned: bool
    name: str
    """A file's path as the agent knows it; a tool call's tool."""
    char_count: int
    state: str
    """Of a file: live, stub, deleted or nontext. Of a tool call: ok or fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOverview:
    """A session at a glance."""

    session_id: str
    state: str
    forked_from: str | None
    started: Instant
    last_activity: Instant
    turns: int
    active: int
    metadata: int
    indexed: int
    pinned: int
    system_prompt: str
    """In short."""
    last_user: str | None
    last_answer: str | None
    last_prompt_hash: str | None
    objects: tuple[ObjectLine, ...] = field(repr=False)
    """What is shown in full, then what is pinned besides; ``GLANCE_MAX`` at most."""


async def list_sessions(store: Store, *, limit: int, cursor: str | None) -> SessionPage:
    """Return one page of all sessions, by id."""
    page = await store.find(Query(SESSION), limit=limit, cursor=cursor)
    ids = [each.object_id.removeprefix(f"{SESSION}:") for each in page.versions]
    besides = [*map(chat_id, ids), *map(_lifecycle_id, ids)]
    found = await store.get_many(besides, without=("turns", "toolcall_refs"))
    # Ten thousand ids a session are proven here: other tasks have their turns meanwhile.
    lines = await asyncio.to_thread(lambda: [_line(each, found) for each in page.versions])
    return SessionPage(sessions=tuple(lines), cursor=page.cursor)


async def overview(store: Store, session: Session, *, as_of: AsOf = LATEST) -> SessionOverview:
    """Tell what a person wants to know of a session at a glance."""
    name = session.session_id
    ids = (session_object_id(name), chat_id(name), system_prompt_id(name), _lifecycle_id(name))
    found = await store.get_many(ids, as_of=as_of)
    if any(each not in found for each in ids[:3]):
        raise Corrupt(f"session {name} lacks its chat or its system prompt")
    line = _line(found[ids[0]], found)
    turns = found[ids[1]].document["turns"]
    last = Turn.from_value(turns[-1]) if turns else None
    began = await store.history(ids[0], documents=False, limit=1)
    record = await last_record(store, name)
    return SessionOverview(
        session_id=name,
        state=line.state,
        forked_from=await _origin(store, name),
        started=began.entries[0].valid_time,
        last_activity=line.last_activity,
        turns=line.turns,
        **level_counts(session),
        system_prompt=shortened(found[ids[2]].document["content"]),
        last_user=None if last is None else shortened(last.user),
        last_answer=None if last is None else shortened(said(last)),
        last_prompt_hash=record.prompt_hash if record and as_of == LATEST else None,
        objects=await object_lines(
            store, session, at_a_glance(session), mounts=mounts_of(record), as_of=as_of
        ),
    )


async def object_lines(
    store: Store,
    session: Session,
    object_ids: Sequence[str],
    *,
    mounts: Mounts,
    as_of: AsOf = LATEST,
) -> tuple[ObjectLine, ...]:
    """Describe objects in the order of their ids; those that are not there are left out."""
    found = await store.get_many(object_ids, as_of=as_of)
    return tuple(
        [
            await object_line(store, session, version, mounts=mounts, as_of=as_of)
            for version in found.values()
        ]
    )


async def object_line(
    store: Store, session: Session, version: Version, *, mounts: Mounts, as_of: AsOf = LATEST
) -> ObjectLine:
    """Describe one content object."""
    stored = from_document(version.document)
    if isinstance(stored, ToolCall):
        name, length, state = stored.tool, len(stored.content or ""), str(stored.status)
    elif isinstance(stored, File):
        name, length = display_path(stored, mounts), stored.char_count
        state = str(await state_of(store, version, as_of=as_of))
    else:
        raise Corrupt(f"{stored.object_id} is a {stored.kind}, and no content object")
    return ObjectLine(
        object_id=stored.object_id,
        kind=stored.kind,
        level=session.level(stored.object_id),
        pinned=stored.object_id in session.pinned_set,
        name=name,
        char_count=length,
        state=state,
    )


def by_level(session: Session, level: Level | None = None) -> list[str]:
    """Name a session's objects: in full, in one line, not at all; each as they arrived."""
    pool, active = session.metadata_pool, session.active_set
    ids = {
        Level.ACTIVE: list(active),
        Level.METADATA: [each for each in pool if each not in active],
        Level.INDEXED: [each for each in session.session_index if each not in pool],
    }
    return ids[level] if level else [each for some in ids.values() for each in some]


def said(turn: Turn) -> str:
    """Return the text of an answer, without its tool calls."""
    return "\n".join(part["text"] for part in turn.assistant if part["type"] == TEXT)


def shortened(text: str, *, length: int = SHORT_LENGTH_MAX) -> str:
    """Return a text in one line of bounded length."""
    line = " ".join(text[: 4 * length].split())
    cut = len(line) > length or len(text) > 4 * length
    return line[: length - 1] + "…" if cut else line


def _line(own: Version, besides: dict[str, Version]) -> SessionLine:
    name = own.object_id.removeprefix(f"{SESSION}:")
    chat, life = besides.get(chat_id(name)), besides.get(_lifecycle_id(name))
    times = [each.valid_time for each in (own, chat, life) if each is not None]
    state = str(life.document["state"]) if life else ACTIVE
    counts: dict[str, int | None]
    try:
        counts = {**level_counts(read_session(own))}
    except Corrupt:  # one damaged session must not hide the others
        state, counts = DAMAGED, dict.fromkeys(LEVELS)
    return SessionLine(
        session_id=name,
        state=state,
        turns=0 if chat is None else int(chat.document.get("turn_count") or 0),
        active=counts["active"],
        metadata=counts["metadata"],
        indexed=counts["indexed"],
        pinned=counts["pinned"],
        last_activity=max(times),
    )


def level_counts(session: Session) -> dict[str, int]:
    """Count a session's objects by how much of each it shows."""
    index, pool, active = map(
        len, (session.session_index, session.metadata_pool, session.active_set)
    )
    return dict(
        zip(LEVELS, (active, pool - active, index - pool, len(session.pinned_set)), strict=True)
    )


def at_a_glance(session: Session) -> list[str]:
    """Name the objects that matter most."""
    shown = [*session.active_set, *session.pinned_set]
    return list(dict.fromkeys(shown))[:GLANCE_MAX]


async def _origin(store: Store, session_id: str) -> str | None:
    line = await lineage(store, session_id)
    if len(line) == 1:
        return None
    return f"{line[1].session_id} at turn {line[1].turns_until}"


def _lifecycle_id(session_id: str) -> str:
    return f"{LIFECYCLE}:{session_id}"
