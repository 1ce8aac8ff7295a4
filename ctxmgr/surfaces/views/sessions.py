"""Sessions: the list, one in overview, lines of its objects. Reads the store.

    SessionLine       one line of `sessions`
    SessionOverview   `show SESSION`
    ObjectLine        one line of `objects`

A list reads all sessions without their sets and turns, to find the newest ones, and then the sets
of those that it shows.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ctxmgr.core.client.runtime import display_path
from ctxmgr.core.events.lifecycle import ACTIVE, LIFECYCLE
from ctxmgr.core.files.mounts import Mounts
from ctxmgr.core.history.recorded_usage import recorded_usage
from ctxmgr.core.model import read_usage
from ctxmgr.core.objects.chat import Turn
from ctxmgr.core.objects.codec import from_document
from ctxmgr.core.objects.envelope import SESSION, chat_id, session_object_id, system_prompt_id
from ctxmgr.core.objects.file import File
from ctxmgr.core.objects.hashes import VERSION_HASHES
from ctxmgr.core.objects.purged import deletion_id
from ctxmgr.core.objects.session_record import SETS
from ctxmgr.core.objects.toolcall import ToolCall
from ctxmgr.core.prices import PriceList
from ctxmgr.core.sessions.lineage import FORK, lineage
from ctxmgr.core.sessions.sets import Level, Session
from ctxmgr.core.sessions.titles import title_id, title_of
from ctxmgr.core.store.contract import LATEST, PAGE_MAX, AsOf, Instant, Query, Store, Version
from ctxmgr.core.store.documents import Document
from ctxmgr.core.store.queries import batched, check_limit, decode_position, encode_cursor
from ctxmgr.core.tracking.indexing import state_of
from ctxmgr.errors import Corrupt
from ctxmgr.messages.answers import answer_text
from ctxmgr.surfaces.views.last_turn import last_record, mounts_of
from ctxmgr.surfaces.views.lookup import read_session

SHORT_LENGTH_MAX: Final = 200
"""Characters of a shortened text."""

_REQUEST: Final = ["sessions", "newest first"]
"""What a cursor of the list belongs to."""

_NOT_LISTED: Final = (
    *(*SETS, "turns", "toolcall_refs"),
    *("source", "identity_hash", "content", *VERSION_HASHES),
)
"""What is not needed of a session and its chat to find the newest ones."""

DAMAGED: Final = "damaged"
LEVELS: Final = ("active", "metadata", "indexed", "pinned")

GLANCE_MAX: Final = 20
"""Objects listed in a session's overview: those shown in full and those pinned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLine:
    """A session in a list."""

    session_id: str
    state: str
    """active: a client has it open, or did not pause it; paused; damaged: the stored data fails
    its own check, and `show` reports the error."""
    turns: int
    active: int | None
    metadata: int | None
    indexed: int | None
    pinned: int | None
    last_activity: Instant
    parent: str | None
    """The session that it was forked from."""
    parent_turn: int | None
    """The last turn that it has in common with its parent."""
    title: str | None = None
    """What a person called it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPage:
    total: int
    """Sessions in the whole list."""
    sessions: tuple[SessionLine, ...]
    cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectLine:
    """An object in a session's list."""

    object_id: str
    kind: str
    level: Level | None
    """None: the session has not seen it."""
    pinned: bool
    name: str
    """A file's path as the agent sees it; a tool call's tool."""
    char_count: int
    state: str
    """Of a file: live, stub, deleted or nontext. Of a tool call: ok or fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOverview:
    """A session in overview."""

    session_id: str
    title: str | None
    """What a person called it."""
    state: str
    forked_from: str | None
    started: Instant
    last_activity: Instant
    turns: int
    active: int
    metadata: int
    indexed: int
    pinned: int
    usd: float | None
    """What its turns cost, by reported usage and list prices; None: nothing of it is known."""
    unpriced_turns: int
    """Turns that ``usd`` leaves out: their usage or the price of their model is not known."""
    system_prompt: str
    """Shortened, as are the next two."""
    last_user: str | None
    last_answer: str | None
    last_prompt_hash: str | None
    objects: tuple[ObjectLine, ...] = field(repr=False)
    """Objects shown in full, then other pinned ones; at most ``GLANCE_MAX``."""


async def list_sessions(
    store: Store, *, limit: int, cursor: str | None, deleted: bool = False
) -> SessionPage:
    """Return one page of all sessions, the one with the latest activity first.

    Deleted sessions are left out; with ``deleted``, only they are listed.

    A session that becomes active while pages are read moves to the first page.
    """
    check_limit(limit)
    found: dict[str, Version] = {}
    position, more = None, True
    while more:
        query = Query(SESSION)
        page = await store.find(query, without=_NOT_LISTED, limit=PAGE_MAX, cursor=position)
        found |= {version.object_id: version for version in page.versions}
        position, more = page.cursor, page.cursor is not None
    return await _newest_first(store, found, limit=limit, cursor=cursor, deleted=deleted)


async def pick_sessions(
    store: Store, session_ids: Iterable[str], *, limit: int, cursor: str | None
) -> SessionPage:
    """Return one page of these sessions in the same order; missing ones are left out."""
    check_limit(limit)
    found: dict[str, Version] = {}
    for batch in batched({session_object_id(name): None for name in session_ids}, PAGE_MAX):
        found |= await store.get_many(batch, without=_NOT_LISTED)
    return await _newest_first(store, found, limit=limit, cursor=cursor)


async def _newest_first(
    store: Store,
    sessions: Mapping[str, Version],
    *,
    limit: int,
    cursor: str | None,
    deleted: bool = False,
) -> SessionPage:
    """Return one page of sessions, which are given without their sets, by object id."""
    after = None if cursor is None else decode_position(_REQUEST, cursor, int, str)
    prefix = session_object_id("")
    # A document that claims to be a session under another object id is none.
    names = [each.removeprefix(prefix) for each in sessions if each.startswith(prefix)]
    gone = await store.get_many(map(deletion_id, names))
    names = [name for name in names if (deletion_id(name) in gone) is deleted]
    related_ids = [id_of(name) for id_of in (chat_id, _lifecycle_id) for name in names]
    related = await store.get_many(related_ids, without=_NOT_LISTED)
    newest = sorted(
        (-_last_activity(name, sessions[session_object_id(name)], related), name) for name in names
    )
    start = 0 if after is None else bisect_right(newest, (-after[0], after[1]))
    shown = newest[start : start + limit]
    related |= await store.get_many(
        id_of(name) for id_of in (_fork_id, title_id) for _, name in shown
    )
    # A session that was deleted since is left out.
    versions = await store.get_many(session_object_id(name) for _, name in shown)
    # Ten thousand ids per session are verified here: a thread keeps the event loop free.
    lines = await asyncio.to_thread(lambda: [_line(each, related) for each in versions.values()])
    more = start + limit < len(newest)
    last = [-shown[-1][0], shown[-1][1]] if more else []
    return SessionPage(
        total=len(newest),
        sessions=tuple(lines),
        cursor=encode_cursor(_REQUEST, last) if more else None,
    )


async def overview(
    store: Store, session: Session, *, prices: PriceList, as_of: AsOf = LATEST
) -> SessionOverview:
    """Return a session's state, counts, last messages and main objects."""
    name = session.session_id
    ids = (
        *(session_object_id(name), chat_id(name), system_prompt_id(name), _lifecycle_id(name)),
        title_id(name),
    )
    versions = await store.get_many(ids, as_of=as_of)
    if any(object_id not in versions for object_id in ids[:3]):
        raise Corrupt(f"session {name} has no chat or no system prompt")
    line = _line(versions[ids[0]], versions)
    turns = versions[ids[1]].document["turns"]
    last = Turn.from_value(turns[-1]) if turns else None
    captured = await recorded_usage(store, name)
    charges = [
        turn_usd(turn, prices, added=captured.get(str(number)))
        for number, turn in enumerate(turns, start=1)
    ]
    known = [usd for usd in charges if usd is not None]
    began = await store.history(ids[0], documents=False, limit=1)
    record = await last_record(store, name)
    parent = next(iter((await lineage(store, name))[1:]), None)
    return SessionOverview(
        session_id=name,
        title=line.title,
        state=line.state,
        forked_from=f"{parent.session_id} at turn {parent.turns_until}" if parent else None,
        started=began.entries[0].valid_time,
        last_activity=line.last_activity,
        turns=line.turns,
        **session.level_counts(),
        usd=sum(known) if known else None,
        unpriced_turns=len(charges) - len(known),
        system_prompt=shorten(versions[ids[2]].document["content"]),
        last_user=None if last is None else shorten(last.user),
        last_answer=None if last is None else shorten(answer_text(last.assistant)),
        last_prompt_hash=record.prompt_hash if record and as_of == LATEST else None,
        objects=await object_lines(
            store, session, glance_ids(session), mounts=mounts_of(record), as_of=as_of
        ),
    )


def turn_usd(
    turn: Document, prices: PriceList, *, added: Mapping[str, Any] | None = None
) -> float | None:
    """Return what a stored turn cost, without reading the rest of it; None: not known.

    ``added`` is what an import has added to a turn that hooks captured.
    """
    meta = {**(added or {}), **(turn.get("assistant_meta") or {})}
    return prices.usd(meta.get("model"), read_usage(meta.get("usage")))


async def object_lines(
    store: Store,
    session: Session,
    object_ids: Sequence[str],
    *,
    mounts: Mounts,
    as_of: AsOf = LATEST,
) -> tuple[ObjectLine, ...]:
    """Describe objects in the order of their ids; missing ones are left out."""
    versions = await store.get_many(object_ids, as_of=as_of)
    return tuple(
        [
            await object_line(store, session, version, mounts=mounts, as_of=as_of)
            for version in versions.values()
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
        raise Corrupt(f"{stored.object_id} is a {stored.kind}, not a content object")
    return ObjectLine(
        object_id=stored.object_id,
        kind=stored.kind,
        level=session.level(stored.object_id),
        pinned=stored.object_id in session.pinned_set,
        name=name,
        char_count=length,
        state=state,
    )


def ids_by_level(session: Session, level: Level | None = None) -> list[str]:
    """Return the ids of a session's objects by level, each level in order of arrival."""
    pool, active = session.metadata_pool, session.active_set
    ids = {
        Level.ACTIVE: list(active),
        Level.METADATA: [object_id for object_id in pool if object_id not in active],
        Level.INDEXED: [object_id for object_id in session.session_index if object_id not in pool],
    }
    return (
        ids[level]
        if level
        else [object_id for level_ids in ids.values() for object_id in level_ids]
    )


def shorten(text: str) -> str:
    """Return a text in one line of at most ``SHORT_LENGTH_MAX`` characters."""
    line = " ".join(text[: 4 * SHORT_LENGTH_MAX].split())
    cut = len(line) > SHORT_LENGTH_MAX or len(text) > 4 * SHORT_LENGTH_MAX
    return line[: SHORT_LENGTH_MAX - 1] + "…" if cut else line


def _line(version: Version, related: dict[str, Version]) -> SessionLine:
    name = version.object_id.removeprefix(f"{SESSION}:")
    chat, life = related.get(chat_id(name)), related.get(_lifecycle_id(name))
    fork = related.get(_fork_id(name))
    state = str(life.document["state"]) if life else ACTIVE
    counts: dict[str, int | None]
    try:
        counts = {**read_session(version).level_counts()}
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
        last_activity=_last_activity(name, version, related),
        parent=None if fork is None else str(fork.document["parent"]),
        parent_turn=None if fork is None else int(fork.document["turn"]),
        title=title_of(related.get(title_id(name))),
    )


def _last_activity(name: str, version: Version, related: Mapping[str, Version]) -> Instant:
    """Return when the sets, the chat or the state of a session last changed."""
    times = [
        related[object_id].valid_time
        for object_id in (chat_id(name), _lifecycle_id(name))
        if object_id in related
    ]
    return max([version.valid_time, *times])


def glance_ids(session: Session) -> list[str]:
    """Return the ids of the objects shown in full or pinned."""
    object_ids = [*session.active_set, *session.pinned_set]
    return list(dict.fromkeys(object_ids))[:GLANCE_MAX]


def _lifecycle_id(session_id: str) -> str:
    return f"{LIFECYCLE}:{session_id}"


def _fork_id(session_id: str) -> str:
    return f"{FORK}:{session_id}"
