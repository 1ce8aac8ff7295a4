"""Operations on sessions: list them, read them, see their prompts, change their sets, carry them.

What they need is imported when they run, so that ``--help`` answers at once.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from ctxmgr.surfaces.catalogue import Param
from ctxmgr.surfaces.store_operations import Cursor, Limit

if TYPE_CHECKING:
    from ctxmgr.app import App
    from ctxmgr.surfaces.bundle_files import Exported, Imported
    from ctxmgr.surfaces.chronicle import Log
    from ctxmgr.surfaces.forks import Forked
    from ctxmgr.surfaces.object_pages import ObjectPage
    from ctxmgr.surfaces.prompt_views import PromptView
    from ctxmgr.surfaces.session_views import SessionPage
    from ctxmgr.surfaces.set_changes import Membership
    from ctxmgr.surfaces.timelines import Timeline
    from ctxmgr.surfaces.turn_views import TurnView

SessionName = Annotated[
    str, Param("The session's id, with or without session: before it.", metavar="SESSION")
]
MemberName = Annotated[
    str,
    Param(
        "An object of the session: its id, the beginning of it, or a file's path in the agent's "
        "eyes.",
        metavar="ID",
    ),
]


async def sessions(app: "App", *, limit: Limit = 20, cursor: Cursor = None) -> "SessionPage":
    """List the sessions of a store, by id, with their turns and objects.

    Objects are counted by level: active (in full), metadata (one line), indexed (not shown). A
    session is active until some client has paused it.
    """
    from ctxmgr.surfaces.session_views import list_sessions

    return await list_sessions(await app.store(), limit=limit, cursor=cursor)


async def objects(
    app: "App",
    session: SessionName,
    *,
    level: Annotated[
        Literal["active", "metadata", "indexed"] | None, Param("Only those shown so much.")
    ] = None,
    kind: Annotated[Literal["file", "toolcall"] | None, Param("Only those of this kind.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> "ObjectPage":
    """List what a session has met, by level.

    What is shown in full comes first, then what is shown in one line, then the rest. Files stand
    under the path by which the agent knows them. All pages show one moment.
    """
    from ctxmgr.core.sessions import Level
    from ctxmgr.surfaces.object_pages import list_objects

    return await list_objects(
        await app.store(),
        session,
        kind=kind,
        level=None if level is None else Level(level),
        limit=limit,
        cursor=cursor,
    )


async def log(
    app: "App",
    session: SessionName,
    *,
    before: Annotated[int | None, Param("Only turns before this one.", metavar="TURN")] = None,
    full: Annotated[bool, Param("Show texts in full length.")] = False,
    limit: Limit = 20,
) -> "Log":
    """Tell a session turn by turn.

    What was asked, answered and run, and what changed in the sets. The last turns are told, in the
    order they happened; what changed in the sets since the last turn comes after it.
    """
    from ctxmgr.surfaces.chronicle import tell
    from ctxmgr.surfaces.naming import require_session

    store = await app.store()
    found = await require_session(store, session)
    return await tell(store, found, before=before, limit=limit, full=full)


async def timeline(
    app: "App",
    session: SessionName,
    *,
    before: Annotated[int | None, Param("Only turns before this one.", metavar="TURN")] = None,
    limit: Limit = 50,
) -> "Timeline":
    """Tell what every prompt was made of, and what became of its cached prefix.

    Tokens by section, as the session's model counts them as far as that is public, and what the
    prompt shares with the one before it: so much a provider's cache could give. Where it broke, it
    is told why. The last turns are told, in the order they happened; 10,000 at most.
    """
    from ctxmgr.surfaces.naming import require_session_id
    from ctxmgr.surfaces.timelines import tell_timeline

    store = await app.store()
    session_id = await require_session_id(store, session)
    return await tell_timeline(store, session_id, before=before, limit=limit)


async def turn(
    app: "App",
    session: SessionName,
    turn: Annotated[int | None, Param("Which turn; default: the last.", metavar="TURN")] = None,
    *,
    full: Annotated[bool, Param("Show the texts too.")] = False,
) -> "TurnView":
    """Take the prompt of a turn apart: its blocks, what each costs, and what changed.

    Blocks are compared with those of the prompt before: same, new, changed or moved, and which are
    gone. On a terminal, many blocks in a row that are the same are told in one line.
    """
    from ctxmgr.surfaces.naming import require_session_id
    from ctxmgr.surfaces.turn_views import view_turn

    store = await app.store()
    session_id = await require_session_id(store, session)
    return await view_turn(store, session_id, turn=turn, full=full)


async def context(
    app: "App",
    session: SessionName,
    *,
    turn: Annotated[int | None, Param("As it was sent for this turn; default: now.")] = None,
    form: Annotated[
        Literal["text", "anthropic", "openai"], Param("As one text, or as an API takes it.")
    ] = "text",
    tokens: Annotated[
        str | None, Param("Also count tokens, as this model does.", metavar="MODEL")
    ] = None,
) -> "PromptView":
    """Print a prompt exactly as the model receives it.

    Of an earlier turn, or as the next one would begin. An earlier prompt is made again from its
    record, on any machine, and is proven by the hash of what was sent. Standard output is the
    prompt alone; its sizes by section go to standard error.
    """
    from ctxmgr.surfaces.naming import require_session
    from ctxmgr.surfaces.prompt_views import view_prompt

    store = await app.store()
    found = await require_session(store, session)
    return await view_prompt(store, found.session_id, turn=turn, form=form, model=tokens)


async def activate(app: "App", session: SessionName, object_id: MemberName) -> "Membership":
    """Show an object in full from the next prompt on.

    A file that was only seen is read first, which needs its source on this machine.
    """
    from ctxmgr.surfaces.set_changes import change_sets

    return await change_sets(await app.store(), session, object_id, change="activate")


async def deactivate(app: "App", session: SessionName, object_id: MemberName) -> "Membership":
    """Fold an object back to its one line; nothing is lost."""
    from ctxmgr.surfaces.set_changes import change_sets

    return await change_sets(await app.store(), session, object_id, change="deactivate")


async def pin(app: "App", session: SessionName, object_id: MemberName) -> "Membership":
    """Exempt an object from automatic collapse. It is not activated by that."""
    from ctxmgr.surfaces.set_changes import change_sets

    return await change_sets(await app.store(), session, object_id, change="pin")


async def unpin(app: "App", session: SessionName, object_id: MemberName) -> "Membership":
    """Let automatic collapse fold an object again."""
    from ctxmgr.surfaces.set_changes import change_sets

    return await change_sets(await app.store(), session, object_id, change="unpin")


async def fork(
    app: "App",
    session: SessionName,
    new_session: Annotated[str, Param("The new session's id.", metavar="NEW")],
    *,
    turn: Annotated[
        int | None, Param("The last turn it keeps; default: the last there is.")
    ] = None,
) -> "Forked":
    """Start a new session that goes on from an earlier turn of another.

    It has the turns up to there, the sets as they were then, and the same objects; the other stays
    as it is. It is left paused, for whoever resumes it.
    """
    from ctxmgr.surfaces.forks import fork_session
    from ctxmgr.surfaces.naming import require_session

    store = await app.store()
    found = await require_session(store, session)
    return await fork_session(store, found.session_id, new_session, turn=turn)


async def export_bundle(
    app: "App",
    session: SessionName,
    path: Annotated[Path, Param("The bundle; must not exist yet.", metavar="FILE")],
) -> "Exported":
    """Write a session with its whole past as one file that proves itself."""
    from ctxmgr.surfaces.bundle_files import export_to
    from ctxmgr.surfaces.naming import require_session

    store = await app.store()
    found = await require_session(store, session)
    app.say("collecting the versions")
    return await export_to(store, found.session_id, path)


async def import_bundle(
    app: "App", path: Annotated[Path, Param("A bundle that export wrote.", metavar="FILE")]
) -> "Imported":
    """Store the session of a bundle, to be looked at or resumed here.

    All of it is checked before the first write. Imported again it writes nothing; a session of
    the same name with another past is refused.
    """
    from ctxmgr.surfaces.bundle_files import import_from

    app.say("checking and storing the versions")
    return await import_from(await app.store(), path)
