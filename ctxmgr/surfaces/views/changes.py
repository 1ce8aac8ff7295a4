"""Change a session's sets, and fork it, without its agent. Commits.

The rules are the agent's. Of its sandbox only the mounts of the last turn are known. A file that
was discovered but never read must be read before it can be shown: this is done if it is on this
machine's filesystem and inside those mounts, and refused otherwise.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

from ctxmgr.app import connect
from ctxmgr.core.client.client import Client
from ctxmgr.core.files.filesystem_ids import host_filesystem_id
from ctxmgr.core.objects.codec import from_document
from ctxmgr.core.objects.file import File
from ctxmgr.core.objects.sources import FilesystemSource
from ctxmgr.core.sessions.sets import Level, Session
from ctxmgr.core.sessions.storage import save_sets
from ctxmgr.core.store.contract import Store
from ctxmgr.errors import Incorrect, Unavailable
from ctxmgr.surfaces.views.last_turn import NOWHERE, last_record, turn_count
from ctxmgr.surfaces.views.lookup import require_sets, resolve_member

Change = Literal["activate", "deactivate", "pin", "unpin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """An object's level in a session after a change."""

    session_id: str
    object_id: str
    level: Level | None
    pinned: bool
    changed: bool
    """False: there was nothing to change, and nothing was written."""


async def change_sets(store: Store, name: str, text: str, *, change: Change) -> Membership:
    """Change one object's level or pin in a session."""
    read = await require_sets(store, name)
    session = read.session
    object_id = await resolve_member(store, session, text)
    if change == "activate" and await _is_unread(store, object_id):
        before, after = await _read_and_show(store, session, object_id)
    else:
        before, after = await save_sets(store, read, lambda sets: getattr(sets, change)(object_id))
    return Membership(
        session_id=session.session_id,
        object_id=object_id,
        level=after.level(object_id),
        pinned=object_id in after.pinned_set,
        changed=before != after,
    )


async def _is_unread(store: Store, object_id: str) -> bool:
    """Return whether no content is stored of an object."""
    version = await store.get(object_id)
    return version is not None and version.document.get("content") is None


async def _read_and_show(store: Store, session: Session, object_id: str) -> tuple[Session, Session]:
    async with visiting_client(store, session.session_id) as client:
        await _require_source(client, object_id)
        live = await client.visit(session.session_id)
        before = live.sets
        await live.activate(object_id)
        return before, live.sets


@asynccontextmanager
async def visiting_client(store: Store, session_id: str) -> AsyncIterator[Client]:
    """Open a client that reads only what the agent's mounts show of this machine.

    Mounts of another machine's filesystem are left out: they would be read from this one's disk.
    """
    record = await last_record(store, session_id)
    mounts: tuple[Mapping[str, str], ...] = record.mounts if record else ()
    here = [mount for mount in mounts if mount["filesystemId"] == host_filesystem_id()]
    filesystem_id = NOWHERE if mounts else None
    async with connect(
        store=store, mounts=here, filesystem_id=filesystem_id, tracking=False
    ) as client:
        yield client


async def _require_source(client: Client, object_id: str) -> None:
    """Raise ``Unavailable`` for a file that was never read and cannot be read from here."""
    version = await client.store.get(object_id)
    stored = None if version is None else from_document(version.document)
    if not isinstance(stored, File) or not stored.is_stub:
        return
    source = stored.source
    assert isinstance(source, FilesystemSource), "the only source type there is"
    if client.runtime.files.mounts.declares(source.filesystem_id):
        return
    raise Unavailable(
        f"{source.path} was never read, and its filesystem ({source.filesystem_id[:12]}) is not "
        "this machine's: run this command where the agent runs"
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
    async with visiting_client(store, parent) as client:
        await client.fork(parent, turn=after, new_session_id=new)
        await client.pause(new)
    return Fork(session_id=new, parent=parent, turn=after)
