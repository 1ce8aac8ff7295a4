"""Operations on one object or session by its name: show it, compare it, see it as it was.

What they need is imported when they run, so that ``--help`` answers at once.
"""

from typing import TYPE_CHECKING, Annotated

from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.catalogue import Param
from ctxmgr.surfaces.store_operations import KnownSequence, SystemTime, ValidTime

if TYPE_CHECKING:
    from ctxmgr.app import App
    from ctxmgr.core.sessions import Session
    from ctxmgr.core.store import AsOf, Store
    from ctxmgr.surfaces.differences import Difference, PromptDifference
    from ctxmgr.surfaces.object_views import ObjectView
    from ctxmgr.surfaces.past_views import ObjectAsOf, SessionAsOf
    from ctxmgr.surfaces.session_views import SessionOverview

ObjectName = Annotated[
    str,
    Param(
        "A session or an object; within a session also the beginning of an id, or a path.",
        metavar="ID",
    ),
]
Within = Annotated[
    str | None, Param("Look the name up among this session's objects.", metavar="SESSION")
]


async def show(
    app: "App",
    name: ObjectName,
    *,
    session: Within = None,
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
    from ctxmgr.core.envelopes import session_object_id
    from ctxmgr.core.store import LATEST, AsOf
    from ctxmgr.surfaces.object_views import view_object
    from ctxmgr.surfaces.session_views import overview

    store = await app.store()
    asked = AsOf(valid_time=valid_time, sequence=sequence, system_time=system_time)
    as_of = LATEST if asked == LATEST else asked  # by which a store knows the short way
    within, object_id = await _within(store, session, name)
    found = await _session(store, name, as_of) if within is None else None
    if found is not None and version is None:
        return await overview(store, found, as_of=as_of)
    if found is not None:
        object_id = session_object_id(found.session_id)
    return await view_object(store, object_id, as_of=as_of, version=version, session=within)


async def diff(
    app: "App",
    name: ObjectName,
    *,
    from_: Annotated[
        int | None, Param("The older version; default: the one before --to.", metavar="VERSION")
    ] = None,
    to: Annotated[
        int | None, Param("The newer version; default: the newest.", metavar="VERSION")
    ] = None,
    from_turn: Annotated[
        int | None, Param("Of a session: the earlier prompt; default: the one before.")
    ] = None,
    to_turn: Annotated[
        int | None, Param("Of a session: the later prompt; default: of the last turn.")
    ] = None,
    session: Within = None,
) -> "Difference | PromptDifference":
    """Compare two versions of an object, or two prompts of a session.

    Versions are numbered from 1 as `ctxmgr history` lists them; -1 is the newest. A session is
    compared by its prompts, unless --from or --to ask for versions of its sets.
    """
    from ctxmgr.core.envelopes import session_object_id
    from ctxmgr.core.store import LATEST
    from ctxmgr.surfaces.object_views import compare_turns, compare_versions

    store = await app.store()
    within, object_id = await _within(store, session, name)
    found = await _session(store, name, LATEST) if within is None else None
    by_turns = from_turn is not None or to_turn is not None
    by_version = from_ is not None or to is not None
    if by_turns and (by_version or found is None):
        raise Incorrect("turns are compared of a session, versions of an object: give one of them")
    if found is not None and not by_version:
        return await compare_turns(store, found, from_turn=from_turn, to_turn=to_turn)
    newer = -1 if to is None else to
    older = newer - 1 if from_ is None else from_
    if found is not None:
        object_id = session_object_id(found.session_id)
    return await compare_versions(store, object_id, numbers=(older, newer))


async def as_of(
    app: "App",
    name: ObjectName,
    valid_time: Annotated[
        int,
        Param(
            "The moment asked about: UTC milliseconds or ISO 8601.",
            metavar="INSTANT",
            instant=True,
        ),
    ],
    *,
    system_time: Annotated[
        int | None, Param("By what was known then; default: at that moment.", instant=True)
    ] = None,
    session: Within = None,
) -> "ObjectAsOf | SessionAsOf":
    """Tell what was believed at a moment, and what was true then.

    Believed is what the store said at the time; true is what is known today of that time. They
    differ where a file had changed before anyone looked again.
    """
    from ctxmgr.core.store import AsOf
    from ctxmgr.surfaces.past_views import object_as_of, session_as_of

    store = await app.store()
    known = valid_time if system_time is None else system_time
    within, object_id = await _within(store, session, name)
    point = AsOf(valid_time=valid_time, system_time=known)
    found = await _session(store, name, point) if within is None else None
    if found is not None:
        return await session_as_of(store, found, valid=valid_time, known=known)
    return await object_as_of(store, object_id, valid=valid_time, known=known)


async def _within(store: "Store", session: str | None, name: str) -> "tuple[Session | None, str]":
    """Return the session that a name is looked up in, and the id it stands for there."""
    from ctxmgr.surfaces.naming import member_named, require_session

    if session is None:
        return None, name
    found = await require_session(store, session)
    return found, await member_named(store, found, name)


async def _session(store: "Store", name: str, as_of: "AsOf") -> "Session | None":
    """Return the session that a name means, unless it is an object's id."""
    from ctxmgr.core.documents import KIND
    from ctxmgr.core.envelopes import SESSION
    from ctxmgr.surfaces.naming import get_session

    version = await store.get(name, as_of=as_of)
    if version is not None and version.document[KIND] != SESSION:
        return None
    return await get_session(store, name, as_of=as_of)
