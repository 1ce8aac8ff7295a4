"""Operations on recorded sessions: take them in, and ask what their cache did."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.catalogue import Param

if TYPE_CHECKING:
    from ctxmgr.app import App
    from ctxmgr.core.cache_reading import CacheReport
    from ctxmgr.messages.importing import Imported
    from ctxmgr.messages.recorded import Recording

RecordedBy = Annotated[
    Literal["pi", "claude-code", "codex", "openhands", "anthropic", "openai"] | None,
    Param("Its format; told by what is in it, if left out."),
]
Recorded = Annotated[Path, Param("The recorded session.", metavar="FILE")]


async def import_recorded(
    app: "App",
    path: Recorded,
    *,
    session: Annotated[str | None, Param("Its name here, if not the recorded one.")] = None,
    recorded_by: RecordedBy = None,
) -> "Imported":
    """Store a session that another harness recorded, as a paused session.

    Reads files of pi, Claude Code, Codex and OpenHands, and arrays of Anthropic or OpenAI messages.
    """
    from ctxmgr.app import connect
    from ctxmgr.messages.importing import import_recording

    recording = read_file(path, recorded_by)
    name = session or recording.recorded_id
    if name is None:
        raise Incorrect(f"{path} does not say what its session is called: give it a --session")
    async with connect(store=await app.store(), tracking=False) as client:
        app.say(f"storing {len(recording.turns)} turns")
        return await import_recording(client, recording, session_id=name)


async def cache(
    app: "App",
    session: Annotated[str, Param("The session.", metavar="SESSION")],
    *,
    recorded: Annotated[bool, Param("By the usage that the provider reported.")] = False,
    last: Annotated[int, Param("How many calls, the last ones.")] = 100,
) -> "CacheReport":
    """Tell why a session's cached prefix broke, call by call.

    Names the first byte that differs from the prompt before, the object and field it belongs to,
    and what writing the rest again cost. Prompts are made again from their records. With --recorded
    it is told by the usage stored with the turns, as for a session that was imported.
    """
    from ctxmgr.core.cache_reading import cache_report, recorded_cache_report

    if last < 1:
        raise Incorrect(f"--last is a number of calls, from 1, not {last}")
    store = await app.store()
    if recorded:
        return await recorded_cache_report(store, session, last=last)
    return await cache_report(store, session, last=last, say=app.say)


def read_file(path: Path, recorded_by: str | None) -> "Recording":
    """Read a recording; what is wrong with it is told with the file's name."""
    from ctxmgr.messages.recordings import RECORDING_BYTES_MAX, read_recording

    try:
        with path.open("rb") as file:
            data = file.read(RECORDING_BYTES_MAX + 1)
    except OSError as error:
        raise Incorrect(f"{path} cannot be read: {error.strerror}") from error
    try:
        return read_recording(data, form=recorded_by)
    except Incorrect as error:
        raise Incorrect(f"{path}: {error}") from error
