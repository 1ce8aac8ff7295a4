"""Whose a session's turns are: those from before a fork are the parent's. Reads the store."""

from dataclasses import dataclass
from typing import Final

from ctxmgr.core.store import Store
from ctxmgr.errors import Corrupt

FORK: Final = "fork"
"""``fork:{session}`` says where it comes from: a plain document, none of the five types."""

ANCESTORS_MAX: Final = 1_000
"""Forks of forks that are followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ancestor:
    """Which session made a run of turns."""

    session_id: str
    turns_until: int | None
    """The last turn that is its own in this line; None: no end."""


async def lineage(store: Store, session_id: str) -> list[Ancestor]:
    """Return the session and those it was forked from, the youngest first."""
    line = [Ancestor(session_id=session_id, turns_until=None)]
    while len(line) < ANCESTORS_MAX:
        fork = await store.get(f"{FORK}:{line[-1].session_id}")
        if fork is None:
            return line
        parent, turn = str(fork.document["parent"]), int(fork.document["turn"])
        line.append(Ancestor(session_id=parent, turns_until=turn))
    raise Corrupt(f"session {session_id} is a fork of more than {ANCESTORS_MAX} others")


def owner(line: list[Ancestor], turn: int) -> str:
    """Name the session in whose records a turn is: the oldest that reaches so far."""
    found = line[0].session_id
    for each in line[1:]:
        if each.turns_until is None or turn > each.turns_until:
            break
        found = each.session_id
    return found
