"""Sessions that harnesses use over HTTP, and what they are told. Reads the store.

Reading a long session for every request would take longer than the request, so sessions stay open
in this process. Before each use it is asked whether another client has changed them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

from ctxmgr.app import connect
from ctxmgr.core.bounded_cache import BoundedCache
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.store.contract import Store

OPEN_MAX: Final = 64
"""Sessions that stay open at least; one of 2,000 turns takes some 20 MB."""

_OPEN: Final[WeakKeyDictionary[Store, BoundedCache[str, LiveSession]]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedSession:
    """A new session."""

    session_id: str
    turn: int
    policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedPrompt:
    """The prompt of a turn."""

    session_id: str
    turn: int
    text: str | None
    """The prompt in the form ``text``."""
    request: Mapping[str, Any]
    """The arguments of a request to the API; empty in the form ``text``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedToolCall:
    """A stored tool call."""

    session_id: str
    turn: int
    object_id: str
    status: Literal["ok", "fail"]
    characters: int
    """Of the stored output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTurn:
    """A stored turn."""

    session_id: str
    turn: int
    tool_calls: int
    repeated: bool
    """It had been stored by an earlier request."""


async def open_session(store: Store, session_id: str) -> LiveSession:
    """Return a session as it is stored now; ``NotFound`` if there is none."""
    sessions = _OPEN.setdefault(store, BoundedCache(OPEN_MAX))
    live = sessions.get(session_id)
    if live is not None:
        await live.refresh()
        return live
    async with connect(store=store, tracking=False) as client:
        live = await client.visit(session_id)
    sessions.keep(session_id, live)
    return live
