"""Operations on one object or session: show it, compare versions, see it as of a time.

They import what they need when they run, so that ``--help`` answers at once.
"""

from typing import TYPE_CHECKING, Annotated

from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.operation import Param
from ctxmgr.surfaces.operations.store import KnownSequence, SystemTime, ValidTime

if TYPE_CHECKING:
    from ctxmgr.app import App
    from ctxmgr.core.sessions.sets import Session
    from ctxmgr.core.store.contract import AsOf, Store
    from ctxmgr.surfaces.views.as_of import ObjectAsOf, SessionAsOf
    from ctxmgr.surfaces.views.differences import Difference, PromptDifference
    from ctxmgr.surfaces.views.objects import ObjectView
    from ctxmgr.surfaces.views.sessions import SessionOverview


ObjectName = Annotated[
    str,
    Param(
        "A session or an object; within a session also an id prefix, or a path.",
        metavar="ID",
        former="name",
        or_session=True,
    ),
]
SessionScope = Annotated[
    str | None, Param("Resolve the name among this session's objects.", metavar="SESSION")
]


async def show(
    app: "App",
    object_id: ObjectName,
    *,
    session: SessionScope = None,
    version: Annotated[
        int | None, Param("This version, from 1; -1 is the newest.", metavar="NUMBER")
    ] = None,
    valid_time: ValidTime = None,
    sequence: KnownSequence = None,
    system_time: SystemTime = None,
) -> "SessionOverview | ObjectView":
    """Show a session at a glance, or an object with its content.

    Now, at a numbered version, or at any point on both time axes.
    """
    from ctxmgr.core.objects.envelope import session_object_id
    from ctxmgr.core.store.contract import LATEST, AsOf
    from ctxmgr.surfaces.views.objects import view_object
    from ctxmgr.surfaces.views.sessions import overview

    store = await app.store()
    requested = AsOf(valid_time=valid_time, sequence=sequence, system_time=system_time)
    as_of = LATEST if requested == LATEST else requested  # stores have a fast path for LATEST
    within, name = await _within(store, session, object_id)
    stored = await _session(store, object_id, as_of) if within is None else None
    if stored is not None and version is None:
        return await overview(store, stored, as_of=as_of, prices=app.prices)
    if stored is not None:
        name = session_object_id(stored.session_id)
    return await view_object(store, name, as_of=as_of, version=version, session=within)


async def diff(
    app: "App",
    object_id: ObjectName,
    *,
    from_: Annotated[
        int | None, Param("The older version; default: the one before --to.", metavar="VERSION")
    ] = None,
    to: Annotated[
        int | None, Param("The newer version; default: the newest.", metavar="VERSION")
    ] = None,
    from_turn: Annotated[
        int | None, Param("For a session: the turn of the older prompt; default: the one before.")
    ] = None,
    to_turn: Annotated[
        int | None, Param("For a session: the turn of the newer prompt; default: the last.")
    ] = None,
    session: SessionScope = None,
) -> "Difference | PromptDifference":
    """Compare two versions of an object, or two prompts.

    Versions are numbered from 1 as `ctxmgr store history` lists them; -1 is the newest. For a
    session, prompts are compared, unless --from or --to select versions of its sets.
    """
    from ctxmgr.core.objects.envelope import session_object_id
    from ctxmgr.core.store.contract import LATEST
    from ctxmgr.surfaces.views.objects import compare_turns, compare_versions

    store = await app.store()
    within, name = await _within(store, session, object_id)
    stored = await _session(store, object_id, LATEST) if within is None else None
    by_turns = from_turn is not None or to_turn is not None
    by_version = from_ is not None or to is not None
    if by_turns and (by_version or stored is None):
        raise Incorrect("--from-turn and --to-turn are for a session, and exclude --from and --to")
    if stored is not None and not by_version:
        return await compare_turns(store, stored, from_turn=from_turn, to_turn=to_turn)
    newer = -1 if to is None else to
    older = newer - 1 if from_ is None else from_
    if stored is not None:
        name = session_object_id(stored.session_id)
    return await compare_versions(store, name, numbers=(older, newer))


async def as_of(
    app: "App",
    object_id: ObjectName,
    valid_time: Annotated[
        int,
        Param(
            "The time in question: UTC milliseconds or ISO 8601.",
            metavar="INSTANT",
            instant=True,
        ),
    ],
    *,
    system_time: Annotated[
        int | None, Param("As it was known at this time; default: the same time.", instant=True)
    ] = None,
    session: SessionScope = None,
) -> "ObjectAsOf | SessionAsOf":
    """Show what was believed at a time, and what was true then.

    Believed is what the store held at that time; true is what is known of that time today. They
    differ where a file had changed before it was read again.
    """
    from ctxmgr.core.store.contract import AsOf
    from ctxmgr.surfaces.views.as_of import object_as_of, session_as_of

    store = await app.store()
    known = valid_time if system_time is None else system_time
    within, name = await _within(store, session, object_id)
    point = AsOf(valid_time=valid_time, system_time=known)
    stored = await _session(store, object_id, point) if within is None else None
    if stored is not None:
        return await session_as_of(store, stored, valid=valid_time, known=known)
    return await object_as_of(store, name, valid=valid_time, known=known)


async def _within(store: "Store", session: str | None, name: str) -> "tuple[Session | None, str]":
    """Return the session that a name is resolved in, and the object id it refers to."""
    from ctxmgr.surfaces.views.lookup import require_session, resolve_member

    if session is None:
        return None, name
    stored = await require_session(store, session)
    return stored, await resolve_member(store, stored, name)


async def _session(store: "Store", name: str, as_of: "AsOf") -> "Session | None":
    """Return the session of that name, unless the name is an object's id."""
    from ctxmgr.core.objects.envelope import SESSION
    from ctxmgr.core.store.documents import KIND
    from ctxmgr.surfaces.views.lookup import get_session

    version = await store.get(name, as_of=as_of)
    if version is not None and version.document[KIND] != SESSION:
        return None
    return await get_session(store, name, as_of=as_of)
