"""A session that goes on from an earlier turn of another, made from outside. Commits."""

from dataclasses import dataclass

from ctxmgr.core.store import Store
from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.known_turns import turn_count
from ctxmgr.surfaces.set_changes import visiting_client


@dataclass(frozen=True, slots=True, kw_only=True)
class Forked:
    session_id: str
    """The new one."""
    parent: str
    turn: int
    """The last turn that both have."""


async def fork_session(store: Store, parent: str, new: str, *, turn: int | None) -> Forked:
    """Start a session after some turn of another, and leave it paused; None: after the last."""
    last = await turn_count(store, parent)
    if last == 0:
        raise Incorrect(f"session {parent} has no turn yet to fork from")
    after = last if turn is None else turn
    async with visiting_client(store, parent) as client:
        await client.fork(parent, turn=after, new_session_id=new)
        await client.pause(new)
    return Forked(session_id=new, parent=parent, turn=after)
