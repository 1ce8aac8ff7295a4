"""What a token of one session reaches: that session, and the objects it has met. Reads the store.

Operations are listed by how they name what they are about; what is not listed is not reached.
Names are looked up here and given on as ids, so that the operation cannot find another thing by
the same name.
"""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from ctxmgr.core.envelopes import (
    SESSION,
    TURN,
    chat_id,
    session_object_id,
    system_prompt_id,
)
from ctxmgr.core.events import LIFECYCLE
from ctxmgr.core.lineages import FORK
from ctxmgr.core.store import Store
from ctxmgr.errors import Denied, Incorrect
from ctxmgr.surfaces.naming import member_named, require_session

Given: TypeAlias = dict[str, Any]


def scope_named(name: str) -> str:
    """Return the id of the session that a token is made for, from what a person calls it."""
    session_id = name.removeprefix(f"{SESSION}:")
    if not session_id or session_id.startswith(f"{SESSION}:"):
        raise Incorrect(f"{name!r:.80} cannot have a token of its own: give the session's id")
    return session_id


async def confined(store: Store, operation: str, given: Given, *, session_id: str) -> Given:
    """Return the arguments as they may be used; ``Denied`` if they reach further."""
    confine = CONFINED.get(operation)
    if confine is None:
        raise Denied(f"{operation} is not for a token of one session ({session_id})")
    return await confine(store, given, session_id)


def check_session(given: str | None, session_id: str) -> None:
    """Refuse another session's name."""
    if given not in (None, session_id, session_object_id(session_id)):
        raise Denied(f"this token reaches session {session_id} only")


async def _by_session(_store: Store, given: Given, session_id: str) -> Given:
    check_session(given["session"], session_id)
    return {**given, "session": session_id}


async def _by_name(store: Store, given: Given, session_id: str) -> Given:
    """The session itself, or one of its objects by id, beginning of an id, or path."""
    check_session(given.get("session"), session_id)
    if given["name"] in (session_id, session_object_id(session_id)):
        without = {name: value for name, value in given.items() if name != "session"}
        return {**without, "name": session_object_id(session_id)}
    object_id = await _reached(store, given["name"], session_id)
    return {**given, "name": object_id, "session": session_id}


async def _by_id(store: Store, given: Given, session_id: str) -> Given:
    return {**given, "object_id": await _reached(store, given["object_id"], session_id)}


async def _reached(store: Store, name: str, session_id: str) -> str:
    """Return the id of an object that the session has met, or of its own documents."""
    session = await require_session(store, session_id)
    object_id = await member_named(store, session, name)
    if object_id in session.session_index or _is_own(object_id, session_id):
        return object_id
    raise Denied(f"{name} is not among what session {session_id} has met")


def _is_own(object_id: str, session_id: str) -> bool:
    own = {
        session_object_id(session_id),
        chat_id(session_id),
        system_prompt_id(session_id),
        f"{LIFECYCLE}:{session_id}",
        f"{FORK}:{session_id}",
    }
    number = object_id.removeprefix(f"{TURN}:{session_id}:")
    return object_id in own or (number != object_id and number.isdecimal())


_Confine: TypeAlias = Callable[[Store, Given, str], Awaitable[Given]]

CONFINED: Final[Mapping[str, _Confine]] = MappingProxyType(
    {
        "objects": _by_session,
        "log": _by_session,
        "timeline": _by_session,
        "turn": _by_session,
        "context": _by_session,
        "cache": _by_session,
        "recall": _by_session,
        "activate": _by_session,
        "deactivate": _by_session,
        "pin": _by_session,
        "unpin": _by_session,
        "show": _by_name,
        "diff": _by_name,
        "as-of": _by_name,
        "get": _by_id,
        "history": _by_id,
    }
)
