"""Imports recorded sessions from files and folders. Reads files, commits.

    recordings_below   the recordings of a folder, or of opencode's database
    read_file          one file, one folder that the OpenHands SDK writes for a conversation, or
                       one session of opencode's database
    import_file        imports it, unless it is unchanged since its last import
    import_folder      imports every recording below a folder; what cannot be imported is listed

A folder is searched without following symbolic links. A file that is damaged, too large or no
recording does not prevent the others from being imported.
"""

import os
from collections import Counter
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Final

from ctxmgr.core.client.client import Client
from ctxmgr.core.history.recorded_usage import RECORDED
from ctxmgr.core.objects.envelope import chat_id
from ctxmgr.core.store.contract import Query, Store
from ctxmgr.errors import CtxmgrError, Incorrect, Unavailable
from ctxmgr.recordings.captured import captured_name
from ctxmgr.recordings.formats import RECORDING_BYTES_MAX, read_recording
from ctxmgr.recordings.import_session import (
    COMPLETED,
    CONTINUED,
    NEW,
    UNCHANGED,
    ImportedRecording,
    Progress,
    import_recording,
)
from ctxmgr.recordings.recorder import Recording
from ctxmgr.stores.opencode_database import read_session, session_ids

FILES_MAX: Final = 100_000
"""Recordings of one folder; years of daily work leave some ten thousand."""

DEPTH_MAX: Final = 16
"""Folders inside of folders; the harnesses use up to six."""

EVENTS_MAX: Final = 100_000
"""Events of a conversation of the OpenHands SDK, which has one file for each."""

_DIGEST_BYTES: Final = 32
_EVENTS: Final = "events"
_EVENT_FILES: Final = "event-*.json"
_SUFFIXES: Final = (".jsonl", ".json")
OPENCODE_DATABASE: Final = "opencode.db"
"""The name of the file in which opencode keeps its sessions."""

_NO_RECORDINGS: Final = (".meta.json", "history.jsonl", "settings.json", "package.json")
"""How files end that harnesses keep beside recordings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotImported:
    """A file of a folder that was not imported."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedFolder:
    """The result of importing a folder. Turns and calls are those that were added."""

    files: int
    """The files that were found, among them those that were not imported."""
    imported: int
    """Sessions that are new."""
    continued: int
    """Sessions that had been imported before, and have new turns."""
    completed: int
    """Sessions that hooks had captured, to which something was added that hooks do not know."""
    unchanged: int
    turns: int
    tool_calls: int
    captured_turns: int
    """Turns that hooks had captured, to which tokens and model were added."""
    not_imported: tuple[NotImported, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class RecordingSource:
    """Where a recording is."""

    path: Path
    session: str = ""
    """Which session of a database; empty: the file is one."""

    def __str__(self) -> str:
        return f"{self.path}: {self.session}" if self.session else str(self.path)


@dataclass(frozen=True, slots=True)
class RecordingFile:
    """The content of a recording."""

    data: bytes = field(repr=False)
    digest: str
    name: str | None = None
    """The session's id, if the content does not have it."""


async def import_file(
    client: Client,
    path: Path | RecordingSource,
    *,
    form: str | None = None,
    session_id: str | None = None,
    progress: Progress = lambda _done, _total: None,
) -> ImportedRecording:
    """Import one recording; ``Incorrect`` names the file."""
    file = read_file(path)
    known = await _known(client.store, file.digest, session_id)
    if known is not None:
        return known
    try:
        recording = read_recording(file.data, form=form)
    except Incorrect as error:
        raise Incorrect(f"{path}: {error}") from error
    name = session_id or await _session_of(client.store, recording) or file.name
    if name is None:
        raise Incorrect(f"{path} does not name its session: give --session")
    return await import_recording(
        client, recording, session_id=name, digest=file.digest, progress=progress
    )


async def import_folder(
    client: Client,
    folder: Path,
    *,
    form: str | None = None,
    progress: Progress = lambda _done, _total: None,
) -> ImportedFolder:
    """Import every recording below a folder. ``progress`` counts files."""
    sources = recordings_below(folder)
    counts: Counter[str] = Counter()
    failed: list[NotImported] = []
    for number, source in enumerate(sources, start=1):
        try:
            result = await import_file(client, source, form=form)
        except Unavailable:
            raise  # the store: the next file would fail as well
        except CtxmgrError as error:
            reason = str(error).removeprefix(f"{source}: ")
            failed.append(NotImported(path=_name_below(folder, source), reason=reason))
        else:
            counts[result.outcome] += 1
            counts["turns"] += result.turns
            counts["tool_calls"] += result.tool_calls
            counts["captured_turns"] += result.captured_turns
        progress(number, len(sources))
    return ImportedFolder(
        files=len(sources),
        imported=counts[NEW],
        continued=counts[CONTINUED],
        completed=counts[COMPLETED],
        unchanged=counts[UNCHANGED],
        turns=counts["turns"],
        tool_calls=counts["tool_calls"],
        captured_turns=counts["captured_turns"],
        not_imported=tuple(failed),
    )


def recordings_below(folder: Path) -> list[RecordingSource]:
    """Return what may be a recording in a folder, in order; or the sessions of a database."""
    found: list[RecordingSource] = []
    if folder.name == OPENCODE_DATABASE and folder.is_file():
        found += _in_database(folder)
    for directory, folders, files in os.walk(folder, followlinks=False):
        path = Path(directory)
        if _EVENTS in folders and _event_files(path):
            found.append(RecordingSource(path))
            folders.clear()
            continue
        if len(path.relative_to(folder).parts) >= DEPTH_MAX:
            folders.clear()
        folders.sort()
        found += (RecordingSource(path / name) for name in files if _may_be_recording(path / name))
        database = path / OPENCODE_DATABASE
        if OPENCODE_DATABASE in files and database.is_file() and not database.is_symlink():
            found += _in_database(database)
        if len(found) > FILES_MAX:
            break
    if len(found) > FILES_MAX:
        raise Incorrect(f"{folder} has more than {FILES_MAX:,} recordings: import its subfolders")
    return sorted(found)


def is_one_recording(path: Path) -> bool:
    """Whether a path is a single recording, and not a folder or a database of them."""
    if path.is_dir():
        return recordings_below(path) == [RecordingSource(path)]
    return path.name != OPENCODE_DATABASE


def read_file(source: Path | RecordingSource) -> RecordingFile:
    """Read a recording; ``Incorrect`` names the file."""
    at = source if isinstance(source, RecordingSource) else RecordingSource(source)
    try:
        if at.session:
            data = read_session(at.path, at.session, bytes_max=RECORDING_BYTES_MAX)
        else:
            data = _read_events(at.path) if at.path.is_dir() else _read_bytes(at.path)
    except OSError as error:
        raise Incorrect(f"{at.path} cannot be read: {error.strerror}") from error
    digest = blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()
    return RecordingFile(data, digest, at.path.name if at.path.is_dir() else None)


def _in_database(path: Path) -> list[RecordingSource]:
    """Return the sessions of a database; one that cannot be read is reported when it is."""
    try:
        return [RecordingSource(path, id_) for id_ in session_ids(path, limit=FILES_MAX + 1)]
    except Incorrect:
        return [RecordingSource(path, "?")]


def _name_below(folder: Path, source: RecordingSource) -> str:
    relative = source.path.relative_to(folder)
    if not source.session:
        return str(relative)
    return source.session if source.path == folder else f"{relative}: {source.session}"


def _may_be_recording(path: Path) -> bool:
    is_named_so = path.name.endswith(_SUFFIXES) and not path.name.endswith(_NO_RECORDINGS)
    return is_named_so and not path.is_symlink() and path.is_file()


def _read_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(RECORDING_BYTES_MAX + 1)


def _event_files(folder: Path) -> list[Path]:
    """Return the events of a conversation in order, without symbolic links."""
    events = folder / _EVENTS
    if events.is_symlink():
        return []
    found = events.glob(_EVENT_FILES)
    return sorted(path for path in found if not path.is_symlink() and path.is_file())


def _read_events(folder: Path) -> bytes:
    """Return the events of a conversation of the OpenHands SDK as one array."""
    paths = _event_files(folder)
    if not paths:
        raise Incorrect(f"{folder} has no {_EVENTS}/{_EVENT_FILES}")
    if len(paths) > EVENTS_MAX:
        raise Incorrect(f"{folder} has more than {EVENTS_MAX:,} events")
    parts: list[bytes] = []
    size = 0
    for path in paths:
        parts.append(_read_bytes(path))
        size += len(parts[-1])
        if size > RECORDING_BYTES_MAX:
            raise Incorrect(f"{folder} has more than {RECORDING_BYTES_MAX:,} bytes of events")
    return b"[" + b",".join(parts) + b"]"


async def _session_of(store: Store, recording: Recording) -> str | None:
    """Return the recorded name; of a subagent that hooks have captured, the name they gave it."""
    captured = captured_name(recording)
    if captured is not None and await store.get(chat_id(captured)) is not None:
        return captured
    return recording.recorded_id


async def _known(store: Store, digest: str, session_id: str | None) -> ImportedRecording | None:
    """Return the session that was imported from this content, if there is one."""
    where = {"digest": digest} if session_id is None else {"digest": digest, "session": session_id}
    page = await store.find(Query(RECORDED, where), limit=1)
    if not page.versions:
        return None
    mark = page.versions[0].document
    return ImportedRecording(
        session_id=mark["session"],
        format=mark["format"],
        outcome=UNCHANGED,
        turns=0,
        tool_calls=0,
    )
