"""Operations on recorded sessions: import them, and report their cache use."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.operation import Param
from ctxmgr.surfaces.operations.store import count_progress

if TYPE_CHECKING:
    from ctxmgr.app import App
    from ctxmgr.core.history.cache_report import CacheReport
    from ctxmgr.recordings.import_session import ImportedRecording
    from ctxmgr.recordings.recorder import Recording


RecordingFormat = Annotated[
    Literal["pi", "claude-code", "codex", "openhands", "anthropic", "openai"] | None,
    Param("The format; default: detected from the content."),
]
RecordingFile = Annotated[Path, Param("The recorded session.", metavar="FILE")]


async def import_recorded(
    app: "App",
    path: RecordingFile,
    *,
    session: Annotated[str | None, Param("The session's id; default: the recorded one.")] = None,
    recorded_by: RecordingFormat = None,
) -> "ImportedRecording":
    """Import a session that another harness recorded.

    Reads files of pi, Claude Code, Codex and OpenHands, and arrays of Anthropic or OpenAI messages.
    The new session is paused.
    """
    from ctxmgr.app import connect
    from ctxmgr.recordings.import_session import import_recording

    recording = read_file(path, recorded_by)
    name = session or recording.recorded_id
    if name is None:
        raise Incorrect(f"{path} does not name its session: give --session")
    async with connect(store=await app.store(), tracking=False) as client:
        return await import_recording(
            client, recording, session_id=name, progress=count_progress(app, "storing turns")
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


def read_file(path: Path, recorded_by: str | None) -> "Recording":
    """Read a recording; errors name the file."""
    from ctxmgr.recordings.formats import RECORDING_BYTES_MAX, read_recording

    try:
        with path.open("rb") as file:
            data = file.read(RECORDING_BYTES_MAX + 1)
    except OSError as error:
        raise Incorrect(f"{path} cannot be read: {error.strerror}") from error
    try:
        return read_recording(data, form=recorded_by)
    except Incorrect as error:
        raise Incorrect(f"{path}: {error}") from error
