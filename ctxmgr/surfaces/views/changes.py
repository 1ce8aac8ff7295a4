"""Change a session's sets, title and state, compact it, and fork it, without its agent. Commits.

The rules are the agent's. A file that was discovered but never read must be read before it can be
shown. That is done only below the mounts that a person declared on this machine: which mounts the
agent had is in the store, and anyone who wrote to it could name any file here.
"""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Literal

from ctxmgr.app import connect
from ctxmgr.core.client.client import Client
from ctxmgr.core.client.leases import SessionLease
from ctxmgr.core.events.lifecycle import LIFECYCLE, PAUSED, lifecycle_document
from ctxmgr.core.files.mount_settings import MountSetting
from ctxmgr.core.files.mounts import FileLocation
from ctxmgr.core.objects.codec import from_document
from ctxmgr.core.objects.compaction import COMPACTION
from ctxmgr.core.objects.envelope import (
    CHAT,
    FILE,
    POLICY,
    SESSION,
    SYSTEM_PROMPT,
    TOOLCALL,
    TURN,
)
from ctxmgr.core.objects.file import File
from ctxmgr.core.objects.sources import FilesystemSource
from ctxmgr.core.sessions.comments import set_comment
from ctxmgr.core.sessions.lineage import FORK
from ctxmgr.core.sessions.sets import Level, Session
from ctxmgr.core.sessions.storage import save_sets
from ctxmgr.core.sessions.titles import set_title
from ctxmgr.core.store.commits import commit_once
from ctxmgr.core.store.contract import Put, Store
from ctxmgr.core.store.documents import KIND
from ctxmgr.errors import Conflict, Incorrect, NotContent, NotFound, Unavailable
from ctxmgr.harness.run import KIND as RUN
from ctxmgr.surfaces.views.last_turn import NOWHERE, turn_count
from ctxmgr.surfaces.views.lookup import no_member, require_session_id, require_sets, resolve_member

Change = Literal["activate", "deactivate", "pin", "unpin"]

CONTENT_KINDS: Final = frozenset({FILE, TOOLCALL})

NOT_CONTENT: Final = frozenset(
    {CHAT, SESSION, SYSTEM_PROMPT, TURN, FORK, LIFECYCLE, RUN, POLICY, COMPACTION}
)
"""Kinds whose ids begin with the kind, and that are never shown as an object."""

SHORT_ID_LENGTH: Final = 12
"""Characters of an id in an error: the path would tell an agent where its files are on the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentedTurn:
    """A turn with its comment."""

    session_id: str
    turn: int
    comment: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TitledSession:
    """A session with its title."""

    session_id: str
    title: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """An object's level in a session after a change."""

    session_id: str
    object_id: str
    level: Level | None
    pinned: bool
    changed: bool
    """False: there was nothing to change, and nothing was written."""


async def change_sets(
    store: Store, name: str, text: str, *, change: Change, mounts: Sequence[MountSetting] = ()
) -> Membership:
    """Change one object's level or pin in a session; ``mounts`` are declared by a person."""
    read = await require_sets(store, name)
    session = read.session
    object_id = await resolve_member(store, session, text)
    await _require_content(store, session, object_id)
    if change == "activate" and await _is_unread(store, object_id):
        before, after = await _read_and_show(store, session, object_id, mounts)
    else:
        before, after = await save_sets(store, read, lambda sets: getattr(sets, change)(object_id))
    return Membership(
        session_id=session.session_id,
        object_id=object_id,
        level=after.level(object_id),
        pinned=object_id in after.pinned_set,
        changed=before != after,
    )


async def _require_content(store: Store, session: Session, object_id: str) -> None:
    """Raise unless it is a file or tool call that the session has seen.

    Of an id that the session has not seen, the store is not asked: the answer must not tell whether
    another session has such an object.
    """
    if object_id not in session.session_index:
        kind = object_id.partition(":")[0]
        if kind in NOT_CONTENT:
            raise NotContent(object_id, kind)
        raise await no_member(store, session, object_id)
    version = await store.get(object_id)
    if version is not None and version.document[KIND] not in CONTENT_KINDS:
        raise NotContent(object_id, str(version.document[KIND]))


async def _is_unread(store: Store, object_id: str) -> bool:
    """Return whether no content is stored of an object."""
    version = await store.get(object_id)
    return version is not None and version.document.get("content") is None


async def _read_and_show(
    store: Store, session: Session, object_id: str, mounts: Sequence[MountSetting]
) -> tuple[Session, Session]:
    async with visiting_client(store, mounts) as client:
        await _require_source(client, session, object_id)
        live = await client.visit(session.session_id)
        before = live.sets
        await live.activate(object_id)
        return before, live.sets


@asynccontextmanager
async def visiting_client(
    store: Store, mounts: Sequence[MountSetting] = ()
) -> AsyncIterator[Client]:
    """Open a client that reads files below these mounts only; without any, it reads none."""
    declared = [mount.model_dump(by_alias=True) for mount in mounts]
    async with connect(
        store=store, mounts=declared, filesystem_id=NOWHERE, tracking=False
    ) as client:
        yield client


async def _require_source(client: Client, session: Session, object_id: str) -> None:
    """Raise ``Unavailable`` for a file that was never read and lies on no declared mount."""
    version = await client.store.get(object_id)
    stored = None if version is None else from_document(version.document)
    if not isinstance(stored, File) or not stored.is_stub:
        return
    source, mounts = stored.source, client.runtime.files.mounts
    assert isinstance(source, FilesystemSource), "the only source type there is"
    location = FileLocation(filesystem_id=source.filesystem_id, path=source.path, on_host=True)
    found = mounts.forward(mounts.reverse(location))
    if found == location and found.on_host:
        return
    raise Unavailable(
        f"{object_id[:SHORT_ID_LENGTH]} was never read, and this process has no access to the "
        f"files of session {session.session_id}: run `ctxmgr activate` with --mount where the "
        "agent works"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    session_id: str
    """The new session."""
    parent: str
    turn: int
    """The last turn that both sessions share."""


async def fork_session(store: Store, parent: str, new: str, *, turn: int | None) -> Fork:
    """Start a paused session after a turn of another; None: after the last turn."""
    last = await turn_count(store, parent)
    if last == 0:
        raise Incorrect(f"session {parent} has no turn to fork from")
    after = last if turn is None else turn
    async with visiting_client(store) as client:
        await client.fork(parent, turn=after, new_session_id=new)
        await client.pause(new)
    return Fork(session_id=new, parent=parent, turn=after)


async def rename_session(store: Store, name: str, title: str) -> TitledSession:
    """Give a session a title; an empty one removes it."""
    session_id = await require_session_id(store, name)
    await set_title(store, session_id, title)
    return TitledSession(session_id=session_id, title=title or None)


async def comment_on(store: Store, name: str, turn: int, comment: str) -> CommentedTurn:
    """Comment on a turn of a session; an empty text removes the comment."""
    session_id = await require_session_id(store, name)
    last = await turn_count(store, session_id)
    if not 1 <= turn <= last:
        raise NotFound(f"session {session_id} has no turn {turn}: its last is {last}")
    await set_comment(store, session_id, turn, comment)
    return CommentedTurn(
        session_id=session_id, turn=turn, comment=comment if comment.strip() else None
    )


async def pause_session(store: Store, name: str) -> str:
    """Note that no client has a session open any more, and return its id.

    ``Incorrect`` if one has: its lease holds, and its process is running as far as is known.
    """
    session_id = await require_session_id(store, name)
    lease = SessionLease(store, session_id, clock=time.monotonic)
    await lease.look()
    await lease.take()
    paused = Put(lifecycle_document(session_id, state=PAUSED))
    try:
        await commit_once(store, [lease.guard, paused, lease.put_released()])
    except Conflict:
        raise _opened_meanwhile(session_id) from None
    return session_id


def _opened_meanwhile(session_id: str) -> Incorrect:
    return Incorrect(
        f"session {session_id} was opened by another client meanwhile; nothing was changed"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedSession:
    """The oldest turns of a session that are shown as a summary from its next prompt on."""

    session_id: str
    compaction: str | None
    """The id of the record; None: the session has too few turns, and nothing was written."""
    turns: str = ""
    """The first and the last turn."""
    tokens_before: int = 0
    tokens_after: int = 0
    summary: str = ""


async def compact_session(store: Store, name: str) -> CompactedSession:
    """Show the oldest half of a session's prompt as a summary.

    ``Incorrect`` if a client has it open: what that client shows would not change.
    """
    session_id = await require_session_id(store, name)
    lease = SessionLease(store, session_id, clock=time.monotonic)
    await lease.look()
    await lease.take()
    async with visiting_client(store) as client:
        try:
            live = await client.visit(session_id)
            record = await live.compact(matches=[lease.guard])
        except Conflict:
            raise _opened_meanwhile(session_id) from None
        finally:
            await lease.release()
    if record is None:
        return CompactedSession(session_id=session_id, compaction=None)
    return CompactedSession(
        session_id=session_id,
        compaction=record.id,
        turns=f"{record.range_start}–{record.range_end}",
        tokens_before=record.tokens_before,
        tokens_after=record.tokens_after,
        summary=record.summary,
    )
