"""Operations on recorded sessions: import them, and report their cache use."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.operation import Param
from ctxmgr.surfaces.operations.store import count_progress

if TYPE_CHECKING:
    from ctxmgr.app import App
    from ctxmgr.core.history.cache_report import CacheReport
    from ctxmgr.recordings.folders import ImportedFolder
    from ctxmgr.recordings.import_session import ImportedRecording


RecordingFormat = Annotated[
    Literal[
        "pi",
        "claude-code",
        "codex",
        "openhands",
        "gemini",
        "opencode",
        "anthropic",
        "openai",
    ]
    | None,
    Param("The format; default: detected from the content."),
]
RecordingFile = Annotated[
    Path,
    Param("The recorded session, a folder of them, or opencode's database.", metavar="FILE"),
]


async def import_recorded(
    app: "App",
    path: RecordingFile,
    *,
    session: Annotated[str | None, Param("The session's id; default: the recorded one.")] = None,
    recorded_by: RecordingFormat = None,
) -> "ImportedRecording | ImportedFolder":
    """Import sessions that other harnesses recorded.

    Reads files of Claude Code, Codex, Gemini CLI, opencode, OpenHands and pi, and arrays of
    Anthropic or OpenAI messages. New sessions are paused. If a session was imported before, only
    its new turns are added; to one that hooks have captured, tokens, model and system prompt as
    well. Files of a folder that cannot be imported are listed.
    """
    from ctxmgr.app import connect
    from ctxmgr.core.store.batched import in_batches
    from ctxmgr.recordings.folders import import_file, import_folder, is_one_recording

    is_folder = not is_one_recording(path)
    if is_folder and session is not None:
        raise Incorrect(f"{path} has several sessions: they keep their recorded names")
    async with (
        in_batches(await app.store()) as store,
        connect(store=store, tracking=False) as client,
    ):
        if is_folder:
            progress = count_progress(app, "importing files")
            return await import_folder(client, path, form=recorded_by, progress=progress)
        progress = count_progress(app, "storing turns")
        return await import_file(
            client, path, form=recorded_by, session_id=session, progress=progress
        )


async def cache(
    app: "App",
    session: Annotated[str, Param("The session.", metavar="SESSION")],
    *,
    recorded: Annotated[bool, Param("Use the token usage that the provider reported.")] = False,
    last: Annotated[int, Param("Only this many calls, the last ones.")] = 100,
) -> "CacheReport":
    """Show why a session's cached prefix broke, call by call.

    Names the first byte that differs from the previous prompt, the object and field it belongs to,
    and the cost of writing the rest again. Prompts are rebuilt from their records. With --recorded
    the report uses the usage stored with the turns, as for an imported session.
    """
    from ctxmgr.core.history.cache_report import cache_report, recorded_cache_report

    if last < 1:
        raise Incorrect(f"--last must be at least 1, not {last}")
    store = await app.store()
    if recorded:
        return await recorded_cache_report(store, session, last=last)
    return await cache_report(store, session, last=last, say=app.say)
