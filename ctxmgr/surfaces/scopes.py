"""Limit a request to one session and the objects it has seen. Reads the store.

``CONFINED`` lists the allowed operations by the parameter that names their subject; all others are
denied. Names are resolved to ids here, so that the operation cannot resolve them differently.
"""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from ctxmgr.core.events.lifecycle import LIFECYCLE
from ctxmgr.core.objects.envelope import (
    SESSION,
    TURN,
    chat_id,
    policy_id,
    session_object_id,
    system_prompt_id,
)
from ctxmgr.core.sessions.lineage import FORK
from ctxmgr.core.store.contract import Store
from ctxmgr.errors import Denied, Incorrect
from ctxmgr.surfaces.views.lookup import require_session, resolve_member

Arguments: TypeAlias = dict[str, Any]


def parse_session_id(name: str) -> str:
    """Return the session id from a name with or without ``session:``."""
    session_id = name.removeprefix(f"{SESSION}:")
    if not session_id or session_id.startswith(f"{SESSION}:"):
        raise Incorrect(f"{name!r:.80} is not a session id")
    return session_id


async def confine(
    store: Store, operation: str, arguments: Arguments, *, session_id: str
) -> Arguments:
    """Return the arguments limited to the session; ``Denied`` if they reach beyond it."""
    confine_arguments = CONFINED.get(operation)
    if confine_arguments is None:
        raise Denied(f"{operation} is not available to a token of one session ({session_id})")
    return await confine_arguments(store, arguments, session_id)


def check_session(name: str | None, session_id: str) -> None:
    """Raise ``Denied`` if the name is of another session."""
    if name not in (None, session_id, session_object_id(session_id)):
        raise Denied(f"this token is limited to session {session_id}")


async def _by_session(_store: Store, arguments: Arguments, session_id: str) -> Arguments:
    check_session(arguments.get("session"), session_id)
    return {**arguments, "session": session_id}


async def _by_name(store: Store, arguments: Arguments, session_id: str) -> Arguments:
    """Limit to the session itself, or to one of its objects by id, id prefix or path."""
    check_session(arguments.get("session"), session_id)
    if arguments["object_id"] in (session_id, session_object_id(session_id)):
        without = {name: value for name, value in arguments.items() if name != "session"}
        return {**without, "object_id": session_object_id(session_id)}
    object_id = await _reached(store, arguments["object_id"], session_id)
    return {**arguments, "object_id": object_id, "session": session_id}


async def _by_id(store: Store, arguments: Arguments, session_id: str) -> Arguments:
    return {**arguments, "object_id": await _reached(store, arguments["object_id"], session_id)}


async def _reached(store: Store, name: str, session_id: str) -> str:
    """Return the id of an object that the session has seen, or of one of its own documents."""
    session = await require_session(store, session_id)
    object_id = await resolve_member(store, session, name)
    if object_id in session.session_index or _is_own(object_id, session_id):
        return object_id
    raise Denied(f"session {session_id} has not seen {name}")


def _is_own(object_id: str, session_id: str) -> bool:
    own = {
        session_object_id(session_id),
        chat_id(session_id),
        system_prompt_id(session_id),
        f"{LIFECYCLE}:{session_id}",
        f"{FORK}:{session_id}",
        policy_id(session_id),
    }
    number = object_id.removeprefix(f"{TURN}:{session_id}:")
    return object_id in own or (number != object_id and number.isascii() and number.isdecimal())


_Confine: TypeAlias = Callable[[Store, Arguments, str], Awaitable[Arguments]]

CONFINED: Final[Mapping[str, _Confine]] = MappingProxyType(
    {
        "objects": _by_session,
        "log": _by_session,
        "timeline": _by_session,
        "turn": _by_session,
        "unfold": _by_session,
        "calls": _by_session,
        "usage": _by_session,
        "context": _by_session,
        "cache": _by_session,
        "proxy requests": _by_session,
        "proxy request": _by_session,
        "recall": _by_session,
        "search": _by_session,
        "comment": _by_session,
        "activate": _by_session,
        "deactivate": _by_session,
        "pin": _by_session,
        "unpin": _by_session,
        "harness render": _by_session,
        "harness record": _by_session,
        "harness end-turn": _by_session,
        "show": _by_name,
        "diff": _by_name,
        "as-of": _by_name,
        "get": _by_id,
        "history": _by_id,
    }
)
