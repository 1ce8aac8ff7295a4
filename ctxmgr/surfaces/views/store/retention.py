"""Results of deleting and purging, and the size of a store. Reads the store."""

import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

from ctxmgr.core.sessions.retention import (
    PurgePlan,
    deleted_sessions,
    interrupted_sessions,
    purge_records,
)
from ctxmgr.core.store.canonical import canonical
from ctxmgr.core.store.contract import PAGE_MAX, Instant, Store
from ctxmgr.core.store.documents import KIND, Document
from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.views.lookup import require_session, resolve_member, version_number
from ctxmgr.surfaces.views.sessions import list_sessions

_AGE: Final = re.compile(r"([1-9][0-9]{0,5})([dhm])")
_UNITS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000}

FEED_PAGE: Final = 200
"""Transactions read at once."""

SESSIONS_MAX: Final = 50
"""Sessions that a size report lists: the largest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSessions:
    """Sessions that were deleted, restored or paused."""

    sessions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeReport:
    """What was purged, or would be."""

    purge: int | None
    """The number of the purge; None: nothing was removed."""
    sessions: tuple[str, ...]
    objects: int
    """Files and tool calls."""
    versions: int
    text_bytes: int
    """As JSON."""
    kept: int
    """Objects of the sessions that others have seen too."""

    @classmethod
    def of(cls, plan: PurgePlan, *, number: int | None) -> Self:
        return cls(
            purge=number,
            sessions=plan.sessions,
            objects=len(plan.hashes),
            versions=len(plan.documents),
            text_bytes=plan.text_bytes,
            kept=len(plan.kept),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeRow:
    """The record of a purge."""

    purge: int
    sessions: tuple[str, ...]
    objects: int
    versions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KindSize:
    kind: str
    versions: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSize:
    session: str
    bytes: int
    """Of its tool calls, chat, sets, prompts and records; files belong to no single session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSize:
    bytes: int
    kinds: tuple[KindSize, ...]
    """The largest first."""
    sessions: tuple[SessionSize, ...]
    """The largest first."""


def instant_before(age: str) -> Instant:
    """Return the instant an age such as 90d, 12h or 30m ago."""
    match = _AGE.fullmatch(age)
    if match is None:
        raise Incorrect(f"invalid age {age!r:.80}: write days, hours or minutes, such as 90d")
    return time.time_ns() // 1_000_000 - int(match[1]) * _UNITS[match[2]]


async def idle_sessions(store: Store, *, before: Instant) -> list[str]:
    """Return the sessions whose last activity was before an instant."""
    idle: list[str] = []
    cursor: str | None = None
    while True:
        page = await list_sessions(store, limit=PAGE_MAX, cursor=cursor)
        idle += [line.session_id for line in page.sessions if line.last_activity <= before]
        cursor = page.cursor
        if cursor is None:
            return idle


async def sessions_deleted_before(store: Store, instant: Instant) -> list[str]:
    """Return the sessions that were deleted before an instant and are not purged yet.

    Those of an interrupted purge are among them, whenever they were deleted: it is to be finished.
    """
    due = [
        name
        for name, deletion in (await deleted_sessions(store)).items()
        if deletion.valid_time <= instant and "purge" not in deletion.document
    ]
    return [*due, *await interrupted_sessions(store)]


async def named_object(
    store: Store, session: str, name: str, *, version: int | None
) -> tuple[str, int | None]:
    """Return the id of an object of a session, and the sequence of one of its versions."""
    sets = await require_session(store, session)
    object_id = await resolve_member(store, sets, name)
    if object_id not in sets.session_index:
        raise Incorrect(f"{name!r:.80} is not an object of session {session}")
    if version is None:
        return object_id, None
    _, entry = await version_number(store, object_id, version)
    return object_id, entry.sequence


async def list_purges(store: Store) -> list[PurgeRow]:
    return [
        PurgeRow(
            purge=record["n"],
            sessions=tuple(record["sessions"]),
            objects=record["objects"],
            versions=record["versions"],
        )
        for record in await purge_records(store)
    ]


async def store_size(store: Store, *, say: Callable[[str], None]) -> StoreSize:
    """Add up all versions of a store."""
    kinds: Counter[str] = Counter()
    versions: Counter[str] = Counter()
    sessions: Counter[str] = Counter()
    after = None
    while page := await store.feed(after=after, limit=FEED_PAGE):
        for write in (write for transaction in page for write in transaction.writes):
            if write.document is None:
                continue
            length = len(canonical(write.document))
            kind = str(write.document.get(KIND))
            kinds[kind] += length
            versions[kind] += 1
            session = _session_of(write.document)
            if session is not None:
                sessions[session] += length
        after = page[-1].sequence
        say(f"{after} transactions")
    return StoreSize(
        bytes=kinds.total(),
        kinds=tuple(
            KindSize(kind=kind, versions=versions[kind], bytes=length)
            for kind, length in kinds.most_common()
        ),
        sessions=tuple(
            SessionSize(session=session, bytes=length)
            for session, length in sessions.most_common(SESSIONS_MAX)
        ),
    )


def _session_of(document: Document) -> str | None:
    """Return the session that a document belongs to; None for a file."""
    for name, prefix in (
        ("session_id", ""),
        ("session", ""),
        ("session_ref", "session:"),
        ("chat_ref", "chat:"),
    ):
        value = document.get(name)
        if isinstance(value, str):
            return value.removeprefix(prefix)
    return None
