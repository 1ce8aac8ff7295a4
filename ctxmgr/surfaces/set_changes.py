"""What a person changes in a session from outside, by the same rules as the agent. Commits.

Nothing is known here of the agent's sandbox but the mounts of its last turn. A file that was only
seen has to be read before it can be shown: that is done if it lies on this machine's filesystem and
inside those mounts, and refused otherwise.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

from ctxmgr.app import connect
from ctxmgr.core.client import Client
from ctxmgr.core.contents import File
from ctxmgr.core.filesystem_ids import host_filesystem_id
from ctxmgr.core.objects import from_document
from ctxmgr.core.sessions import Level, Session
from ctxmgr.core.set_saving import save_sets
from ctxmgr.core.sources import FilesystemSource
from ctxmgr.core.store import Store
from ctxmgr.errors import Unavailable
from ctxmgr.surfaces.known_turns import NOWHERE, last_record
from ctxmgr.surfaces.naming import member_named, require_sets

Change = Literal["activate", "deactivate", "pin", "unpin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """Where an object stands in a session after a change."""

    session_id: str
    object_id: str
    level: Level | None
    pinned: bool
    changed: bool
    """False: it was so already, and nothing was written."""


async def change_sets(store: Store, name: str, text: str, *, change: Change) -> Membership:
    """Change one object's place in a session; return where it stands then."""
    read = await require_sets(store, name)
    session = read.session
    object_id = await member_named(store, session, text)
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
    """Tell whether nothing is stored of an object that could be shown."""
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
    """Open a client that reads what the agent's mounts show of this machine, and nothing else.

    A mount of another machine's filesystem would be read from this one's disk, as if it were the
    same: such mounts are left out.
    """
    record = await last_record(store, session_id)
    mounts: tuple[Mapping[str, str], ...] = record.mounts if record else ()
    here = [each for each in mounts if each["filesystemId"] == host_filesystem_id()]
    own = NOWHERE if mounts else None
    async with connect(store=store, mounts=here, filesystem_id=own, tracking=False) as client:
        yield client


async def _require_source(client: Client, object_id: str) -> None:
    """Refuse a file that was only seen and cannot be read from here."""
    version = await client.store.get(object_id)
    stored = None if version is None else from_document(version.document)
    if not isinstance(stored, File) or not stored.is_stub:
        return
    source = stored.source
    assert isinstance(source, FilesystemSource), "the only source type there is"
    if client.surroundings.files.mounts.declares(source.filesystem_id):
        return
    raise Unavailable(
        f"{source.path} was seen and never read, and its filesystem "
        f"({source.filesystem_id[:12]}) is not this machine's: run this where the agent works, "
        "or let the agent read it"
    )
