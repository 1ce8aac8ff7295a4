"""Operations on sessions: list, read, show prompts, change sets, fork, export and import.

They import what they need when they run, so that ``--help`` answers at once.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.operation import Cursor, Limit, Param
from ctxmgr.surfaces.operations.store import count_progress

if TYPE_CHECKING:
    from ctxmgr.app import App
    from ctxmgr.surfaces.views.bundles import ExportedBundle, ImportedBundle
    from ctxmgr.surfaces.views.calls import CallPage
    from ctxmgr.surfaces.views.changes import (
        CommentedTurn,
        CompactedSession,
        Fork,
        Membership,
        TitledSession,
    )
    from ctxmgr.surfaces.views.log import Log
    from ctxmgr.surfaces.views.objects import ObjectPage
    from ctxmgr.surfaces.views.prompts import PromptView, TurnView
    from ctxmgr.surfaces.views.sessions import SessionPage
    from ctxmgr.surfaces.views.store.retention import ChangedSessions
    from ctxmgr.surfaces.views.timeline import Timeline
    from ctxmgr.surfaces.views.unfolded import UnfoldedBlock
    from ctxmgr.surfaces.views.usage import SessionComparison, SessionUsage


SessionName = Annotated[
    str, Param("The session's id, with or without the prefix session:.", metavar="SESSION")
]
MemberName = Annotated[
    str,
    Param(
        "An object of the session: its id, an id prefix, or a file's path as the agent sees it.",
        metavar="ID",
    ),
]


SessionNames = Annotated[tuple[str, ...], Param("Sessions, by id.", metavar="SESSION")]


async def sessions(
    app: "App",
    *,
    deleted: Annotated[bool, Param("List the deleted sessions instead.", local=True)] = False,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> "SessionPage":
    """List the sessions of a store, newest first.

    Objects are counted by level: active (in full), metadata (one line), indexed (not shown). A
    session is active until a client pauses it.
    """
    from ctxmgr.surfaces.views.sessions import list_sessions

    store = await app.store()
    return await list_sessions(store, limit=limit, cursor=cursor, deleted=deleted)


async def delete(
    app: "App",
    sessions: SessionNames = (),
    *,
    older_than: Annotated[
        str | None,
        Param("Every session without activity for so long, such as 90d, 12h.", metavar="AGE"),
    ] = None,
) -> "ChangedSessions":
    """Delete sessions: they are hidden and cannot be resumed, and can be restored.

    Nothing is removed from the store; `ctxmgr purge` does that.
    """
    from ctxmgr.core.sessions.retention import delete_session
    from ctxmgr.surfaces.views.store.retention import ChangedSessions, idle_sessions, instant_before

    store = await app.store()
    names = list(dict.fromkeys(sessions))
    if older_than is not None:
        names += await idle_sessions(store, before=instant_before(older_than))
    elif not names:
        raise Incorrect("name a session, or use --older-than")
    for name in names:
        await delete_session(store, name)
    return ChangedSessions(sessions=tuple(names))


async def restore(app: "App", sessions: SessionNames = ()) -> "ChangedSessions":
    """Restore deleted sessions."""
    from ctxmgr.core.sessions.retention import restore_session
    from ctxmgr.surfaces.views.store.retention import ChangedSessions

    if not sessions:
        raise Incorrect("name a session; `ctxmgr sessions --deleted` lists them")
    store = await app.store()
    for name in sessions:
        await restore_session(store, name)
    return ChangedSessions(sessions=tuple(sessions))


async def rename(
    app: "App",
    session: SessionName,
    title: Annotated[str, Param("The title; an empty one removes it.", metavar="TITLE")],
) -> "TitledSession":
    """Give a session a title, which lists and the inspector show.

    Its id stays: bundles, records and prompts refer to it.
    """
    from ctxmgr.surfaces.views.changes import rename_session

    return await rename_session(await app.store(), session, title)


async def pause(app: "App", sessions: SessionNames = ()) -> "ChangedSessions":
    """Mark sessions as paused whose client ended without pausing them.

    A session that a running client has open is refused: end it there.
    """
    from ctxmgr.surfaces.views.changes import pause_session
    from ctxmgr.surfaces.views.store.retention import ChangedSessions

    if not sessions:
        raise Incorrect("name a session; `ctxmgr sessions` lists them")
    store = await app.store()
    return ChangedSessions(sessions=tuple([await pause_session(store, name) for name in sessions]))


async def objects(
    app: "App",
    session: SessionName,
    *,
    level: Annotated[
        Literal["active", "metadata", "indexed"] | None, Param("Only objects of this level.")
    ] = None,
    kind: Annotated[Literal["file", "toolcall"] | None, Param("Only objects of this kind.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> "ObjectPage":
    """List the objects a session has seen, by level.

    Active objects (shown in full) come first, then metadata (one line each), then indexed ones (not
    shown). Files are listed by the path the agent sees. All pages show the same point in time.
    """
    from ctxmgr.core.sessions.sets import Level
    from ctxmgr.surfaces.views.objects import list_objects

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
    full: Annotated[bool, Param("Show texts in full.")] = False,
    follow: Annotated[
        bool, Param("Go on, and show each further turn when it is stored; Ctrl-C ends.", local=True)
    ] = False,
    limit: Limit = 20,
) -> "Log":
    """Show a session turn by turn.

    What was asked, answered and run, and what changed in the sets. Shows the last turns, oldest
    first; changes to the sets after the last turn follow it.
    """
    from ctxmgr.surfaces.views.log import follow_log, read_log
    from ctxmgr.surfaces.views.lookup import require_session

    store = await app.store()
    stored = await require_session(store, session)
    if follow and before is not None:
        raise Incorrect("--follow shows new turns: leave out --before")
    page = await read_log(store, stored, before=before, limit=limit, full=full)
    if not follow:
        return page
    app.show(page)
    name, after = stored.session_id, page.turns
    return await follow_log(store, name, after=after, full=full, show=app.show)


async def timeline(
    app: "App",
    session: SessionName,
    *,
    before: Annotated[int | None, Param("Only turns before this one.", metavar="TURN")] = None,
    limit: Limit = 50,
) -> "Timeline":
    """Show what each prompt consisted of, and how much was cached.

    Tokens by section, counted with the model's tokenizer where that is public, and how much of the
    prompt is the same as the start of the previous one, which a provider's cache can serve. Where
    the prefix broke, the reason is shown. Shows the last turns, oldest first; at most 10,000.
    """
    from ctxmgr.surfaces.views.lookup import require_session_id
    from ctxmgr.surfaces.views.timeline import read_timeline

    store = await app.store()
    session_id = await require_session_id(store, session)
    return await read_timeline(store, session_id, before=before, limit=limit, prices=app.prices)


async def turn(
    app: "App",
    session: SessionName,
    turn: Annotated[int | None, Param("Which turn; default: the last.", metavar="TURN")] = None,
    *,
    full: Annotated[bool, Param("Show the texts too.")] = False,
) -> "TurnView":
    """Show the blocks of a turn's prompt, and what changed.

    Blocks are compared with the previous prompt: same, new, changed or moved; those that are gone
    are listed. On a terminal, a run of unchanged blocks is one line.
    """
    from ctxmgr.surfaces.views.lookup import require_session_id
    from ctxmgr.surfaces.views.prompts import view_turn

    store = await app.store()
    session_id = await require_session_id(store, session)
    return await view_turn(store, session_id, turn=turn, full=full, prices=app.prices)


async def unfold(
    app: "App",
    session: SessionName,
    block: Annotated[
        int, Param("Its number in the prompt, from 1, as `turn` lists it.", metavar="BLOCK")
    ],
    *,
    turn: Annotated[int | None, Param("Which turn; default: the last.")] = None,
) -> "UnfoldedBlock":
    """Show what folding hid from the model.

    Shows a block of a prompt in full, and which of its lines the model saw, which it did not see,
    and which it saw elsewhere in the same prompt.
    """
    from ctxmgr.surfaces.views.lookup import require_session_id
    from ctxmgr.surfaces.views.unfolded import unfold_block

    store = await app.store()
    session_id = await require_session_id(store, session)
    return await unfold_block(store, session_id, turn=turn, block=block)


async def calls(
    app: "App",
    session: SessionName,
    *,
    failed: Annotated[bool, Param("Only calls that failed.")] = False,
    before: Annotated[int | None, Param("Only turns before this one.", metavar="TURN")] = None,
    limit: Limit = 100,
) -> "CallPage":
    """List a session's tool calls.

    Shows the last calls, oldest first, with their arguments, how they ended and when.
    """
    from ctxmgr.surfaces.views.calls import list_calls
    from ctxmgr.surfaces.views.lookup import require_session_id

    store = await app.store()
    session_id = await require_session_id(store, session)
    return await list_calls(store, session_id, before=before, failed=failed, limit=limit)


async def usage(app: "App", session: SessionName) -> "SessionUsage":
    """Show a session's models, tokens, cost and reuse.

    The tokens and the cost are those that the provider reported. Without a report the prompts are
    counted, and what each shares with the beginning of the one before counts as reusable.
    """
    from ctxmgr.surfaces.views.lookup import require_session_id
    from ctxmgr.surfaces.views.usage import session_usage

    store = await app.store()
    session_id = await require_session_id(store, session)
    return await session_usage(store, session_id, prices=app.prices)


async def compare(
    app: "App",
    session: SessionName,
    other: Annotated[str, Param("The other session's id.", metavar="OTHER")],
    *,
    turn: Annotated[int | None, Param("A turn of the session; default: the last.")] = None,
    other_turn: Annotated[int | None, Param("A turn of the other; default: the last.")] = None,
) -> "SessionComparison":
    """Compare two sessions, such as a fork and its parent.

    Shows what each used, how many turns they have in common, and the difference between a prompt
    of each.
    """
    from ctxmgr.surfaces.views.lookup import require_session_id
    from ctxmgr.surfaces.views.usage import compare_sessions

    store = await app.store()
    return await compare_sessions(
        store,
        await require_session_id(store, session),
        await require_session_id(store, other),
        turn=turn,
        other_turn=other_turn,
        prices=app.prices,
    )


async def context(
    app: "App",
    session: SessionName,
    *,
    turn: Annotated[int | None, Param("The prompt sent in this turn; default: the next.")] = None,
    form: Annotated[
        Literal["text", "anthropic", "openai"], Param("As plain text, or as an API request.")
    ] = "text",
    tokens: Annotated[
        str | None, Param("Also count tokens with this model's tokenizer.", metavar="MODEL")
    ] = None,
) -> "PromptView":
    """Print a prompt exactly as the model receives it.

    The prompt of an earlier turn, or the start of the next one. An earlier prompt is rebuilt from
    its record, on any machine, and verified by the hash of what was sent. Standard output is the
    prompt alone; its sizes by section go to standard error.
    """
    from ctxmgr.surfaces.views.lookup import require_session
    from ctxmgr.surfaces.views.prompts import view_prompt

    store = await app.store()
    stored = await require_session(store, session)
    return await view_prompt(store, stored.session_id, turn=turn, form=form, model=tokens)


async def activate(
    app: "App",
    session: SessionName,
    object_id: MemberName,
    *,
    mount: Annotated[
        tuple[str, ...],
        Param(
            "Read an unread file below this folder, which the agent sees at AGENT.",
            metavar="AGENT=FOLDER",
            local=True,
        ),
    ] = (),
) -> "Membership":
    """Show an object in full from the next prompt on.

    A file that was discovered but never read is read first, if it lies in the folder in which this
    machine ran the session, or below a --mount.
    """
    from ctxmgr.surfaces.local_state import declared_mounts
    from ctxmgr.surfaces.views.changes import change_sets

    return await change_sets(
        await app.store(),
        session,
        object_id,
        change="activate",
        mounts=declared_mounts(app, session, mount),
    )


async def deactivate(app: "App", session: SessionName, object_id: MemberName) -> "Membership":
    """Show only an object's metadata line again; nothing is lost."""
    from ctxmgr.surfaces.views.changes import change_sets

    return await change_sets(await app.store(), session, object_id, change="deactivate")


async def pin(app: "App", session: SessionName, object_id: MemberName) -> "Membership":
    """Exempt an object from automatic collapse.

    This does not activate it.
    """
    from ctxmgr.surfaces.views.changes import change_sets

    return await change_sets(await app.store(), session, object_id, change="pin")


async def unpin(app: "App", session: SessionName, object_id: MemberName) -> "Membership":
    """Let automatic collapse apply to an object again."""
    from ctxmgr.surfaces.views.changes import change_sets

    return await change_sets(await app.store(), session, object_id, change="unpin")


async def comment(
    app: "App",
    session: SessionName,
    turn: Annotated[int, Param("The turn.", metavar="TURN")],
    text: Annotated[str, Param("The comment; an empty one removes it.", metavar="TEXT")],
) -> "CommentedTurn":
    """Write a comment on a turn, for the timeline and the inspector.

    It replaces an earlier one. Models never see it, and bundles do not contain it.
    """
    from ctxmgr.surfaces.views.changes import comment_on

    return await comment_on(await app.store(), session, turn, text)


async def compact(app: "App", session: SessionName) -> "CompactedSession":
    """Show the oldest half of a session's prompt as a summary.

    This happens by itself when the window is full, and concerns only how prompts look: the turns
    and their objects stay stored whole. The session must have the economy policy.
    """
    from ctxmgr.surfaces.views.changes import compact_session
    from ctxmgr.surfaces.views.lookup import require_session

    store = await app.store()
    stored = await require_session(store, session)
    return await compact_session(store, stored.session_id)


async def fork(
    app: "App",
    session: SessionName,
    new_session: Annotated[str, Param("The new session's id.", metavar="NEW")],
    *,
    turn: Annotated[
        int | None, Param("The last turn it keeps; default: the session's last.")
    ] = None,
) -> "Fork":
    """Start a new session from an earlier turn of another.

    It has the turns up to that one, the sets as they were then, and the same objects; the other
    session is unchanged. The new session is paused until it is resumed.
    """
    from ctxmgr.surfaces.views.changes import fork_session
    from ctxmgr.surfaces.views.lookup import require_session

    store = await app.store()
    stored = await require_session(store, session)
    return await fork_session(store, stored.session_id, new_session, turn=turn)


async def export_bundle(
    app: "App",
    session: SessionName,
    path: Annotated[Path, Param("The bundle; must not exist yet.", metavar="FILE")],
) -> "ExportedBundle":
    """Write a session and its whole history to one file.

    The bundle can be verified, and imported into another store.
    """
    from ctxmgr.surfaces.views.bundles import export_to
    from ctxmgr.surfaces.views.lookup import require_session

    store = await app.store()
    stored = await require_session(store, session)
    app.say("collecting the versions")
    progress = count_progress(app, "exporting objects")
    return await export_to(store, stored.session_id, path, progress=progress)


async def import_bundle(
    app: "App", path: Annotated[Path, Param("A bundle that export wrote.", metavar="FILE")]
) -> "ImportedBundle":
    """Import a session from a bundle, to inspect or resume it.

    The whole bundle is checked before the first write. Importing it again writes nothing; if a
    session of the same id with another history exists, the bundle is rejected.
    """
    from ctxmgr.surfaces.views.bundles import import_from

    app.say("checking the bundle")
    return await import_from(path, app.store, progress=count_progress(app, "storing versions"))
