"""Events of hooks, in files until they are stored. Owns a folder per store.

    NAME/origin     the store's URL, and the folder that it is relative to
    NAME/events     hooks append to it; each record is synced to disk
    NAME/batch-N    taken from the hooks to be stored, or full; after a crash it is read again from
                    its start
    NAME/refused    records that cannot be stored, each with the reason

A record is a line of numbers, the context of the hook, and the event as it was received:

    ctxmgr-event 1 MILLISECONDS CONTEXT-BYTES EVENT-BYTES CRC32
    PROJECT NUL CLAUDE-CODE-FOLDER NUL CODEX-FOLDER
    {"hook_event_name": …}

Importing this module is cheap: a hook has 50 ms of processor time, and half of that is the start of
Python. For the same reason a hook does not parse its event.
"""

from __future__ import annotations

import fcntl
import os
import time
import zlib

from ctxmgr.core.private_files import make_private_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Final, Self

SPOOL: Final = "spool"
"""The folder of all spools, in the state folder."""

EVENT_BYTES_MAX: Final = 16 * 1024 * 1024
"""Size of one event: the limit of one document."""

SPOOL_BYTES_MAX: Final = 512 * 1024 * 1024
"""Events that wait for one store; more are refused."""

BATCH_BYTES_MAX: Final = 32 * 1024 * 1024
"""Of one file, with the event that exceeds it: a whole file is in memory while it is stored."""

REFUSED_BYTES_MAX: Final = 32 * 1024 * 1024
"""Of the file with what could not be stored; a full one is kept beside the next."""

LOCK_SECONDS: Final = 5.0
"""How long an append may wait for others, each of which takes milliseconds."""

DRAIN: Final = "drain.lock"
"""Held while the events of a spool are stored."""

DRAINER: Final = "drainer.lock"
"""Held by the process that a hook started, as long as it runs."""

_APPEND: Final = "append.lock"
_LAST: Final = _APPEND
"""Its time is that of the last event."""
_LOCK_POLL_SECONDS: Final = 0.005
_MAGIC: Final = b"ctxmgr-event 1 "
_DIGITS_MAX: Final = 19
"""Of a number in a record; Python refuses to read one of thousands of digits."""
_EVENTS: Final = "events"
_BATCH: Final = "batch-"
_REFUSED: Final = "refused"
_ORIGIN: Final = "origin"
_ABSOLUTE: Final = ("sqlite:////", "sqlite://:memory:", "xtdb+", "/")


class SpoolError(Exception):
    """An event cannot be appended; the message says why."""


class SpooledEvent:
    """One record of a spool."""

    __slots__ = ("at", "client_folder", "codex_folder", "data", "project")

    def __init__(
        self, *, at: int, project: str, client_folder: str, data: bytes, codex_folder: str = ""
    ) -> None:
        self.at = at
        """When the hook ran, in UTC milliseconds."""
        self.project = project
        """The project's folder as the client names it; empty: it does not."""
        self.client_folder = client_folder
        """The folder in which Claude Code keeps its own files."""
        self.codex_folder = codex_folder
        """The same for Codex; empty: an earlier version has written the record."""
        self.data = data
        """The event as it was received: JSON, if the client is right."""


def spool_folder(state: str, url: str, *, base: str) -> str:
    """Return the folder of a store's events. ``base`` is what a relative path is relative to."""
    where = "" if url.startswith(_ABSOLUTE) else base
    key = os.fsencode(f"{url}\0{where}")
    # Importing hashlib would load OpenSSL; ``append`` notices a collision.
    name = f"{zlib.crc32(key):08x}{zlib.adler32(key):08x}-{len(key)}"
    return os.path.join(state, SPOOL, name)


def spool_origins(state: str) -> list[tuple[str, str, str]]:
    """Return every spool on this machine: its folder, its store's URL, and the base of that."""
    root, found = os.path.join(state, SPOOL), []
    try:
        names = sorted(os.listdir(root))
    except FileNotFoundError:
        return []
    for name in names:
        folder = os.path.join(root, name)
        origin = _read_origin(folder)
        if origin is not None:
            found.append((folder, *origin))
    return found


def append(folder: str, event: SpooledEvent, *, url: str, base: str) -> None:
    """Append an event and sync it to disk; ``SpoolError`` if that fails or the spool is full."""
    try:
        make_private_folder(folder)
        with SpoolLock(folder, _APPEND) as lock:
            if not lock.acquire(LOCK_SECONDS):
                raise SpoolError(f"{folder} is locked by another process")
            _claim(folder, url=url, base=base)
            record = _record(event)
            if _size(folder) + len(record) > SPOOL_BYTES_MAX:
                raise SpoolError(
                    f"{SPOOL_BYTES_MAX} bytes of events wait in {folder}: "
                    "run `ctxmgr hook --drain` to see why they are not stored"
                )
            _append(os.path.join(folder, _EVENTS), record)
            if os.path.getsize(os.path.join(folder, _EVENTS)) > BATCH_BYTES_MAX:
                _take_events(folder)
            os.utime(os.path.join(folder, _LAST))
    except OSError as error:
        raise SpoolError(f"{error.filename or folder}: {error.strerror}") from error


def is_pending(folder: str) -> bool:
    """Return whether events wait in a spool."""
    try:
        return any(name == _EVENTS or name.startswith(_BATCH) for name in os.listdir(folder))
    except FileNotFoundError:
        return False


def take_batches(folder: str) -> list[str]:
    """Return the files of all events that wait, oldest first. The caller holds ``DRAIN``."""
    with SpoolLock(folder, _APPEND) as lock:
        if not lock.acquire(LOCK_SECONDS):
            return []
        return [os.path.join(folder, name) for name in _take_events(folder)]


def _take_events(folder: str) -> list[str]:
    """Turn what hooks have appended into a file to be stored; return all of these, in order."""
    batches = sorted(name for name in os.listdir(folder) if name.startswith(_BATCH))
    events = os.path.join(folder, _EVENTS)
    if os.path.exists(events):
        last = int(batches[-1].removeprefix(_BATCH)) if batches else 0
        batches.append(f"{_BATCH}{max(time.time_ns(), last + 1):020}")
        os.rename(events, os.path.join(folder, batches[-1]))
        _sync_folder(folder)
    return batches


def read_batch(path: str) -> Iterator[SpooledEvent]:
    """Yield the records of a file in order. What a crash has cut off is skipped."""
    with open(path, "rb") as file:
        data = file.read()
    position = data.find(_MAGIC)
    while position >= 0:
        event, end = _parse(data, position)
        if event is not None:
            yield event
        position = data.find(_MAGIC, end)


def delete_batch(path: str) -> None:
    """Delete a file of events, all of which are stored."""
    os.unlink(path)


def refuse(folder: str, event: SpooledEvent, reason: str) -> None:
    """Keep an event that cannot be stored, with the reason."""
    path = os.path.join(folder, _REFUSED)
    if os.path.exists(path) and os.path.getsize(path) > REFUSED_BYTES_MAX:
        os.replace(path, f"{path}.old")
    _append(path, os.fsencode(" ".join(reason.split())) + b"\n" + _record(event))


def refused_count(folder: str) -> int:
    """Return how many events could not be stored."""
    try:
        return sum(1 for _ in read_batch(os.path.join(folder, _REFUSED)))
    except FileNotFoundError:
        return 0


def event_times(folder: str) -> list[float]:
    """Return when a spool last took an event, in seconds since 1970; empty if it never did."""
    try:
        return [os.stat(os.path.join(folder, _LAST)).st_mtime]
    except FileNotFoundError:
        return []


def try_lock(folder: str, name: str) -> SpoolLock | None:
    """Return a lock, ``DRAIN`` or ``DRAINER``; None if another process has it."""
    lock = SpoolLock(folder, name)
    if lock.acquire(0):
        return lock
    lock.close()
    return None


class SpoolLock:
    """A lock between processes; it ends with its process."""

    def __init__(self, folder: str, name: str) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._handle = os.open(os.path.join(folder, name), flags, 0o600)

    def acquire(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    return False
                time.sleep(_LOCK_POLL_SECONDS)
            else:
                return True

    def close(self) -> None:
        os.close(self._handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _record(event: SpooledEvent) -> bytes:
    context = os.fsencode(f"{event.project}\0{event.client_folder}\0{event.codex_folder}")
    crc = zlib.crc32(event.data, zlib.crc32(context))
    header = b"%s%d %d %d %d\n" % (_MAGIC, event.at, len(context), len(event.data), crc)
    return b"".join((header, context, b"\n", event.data, b"\n"))


def _parse(data: bytes, position: int) -> tuple[SpooledEvent | None, int]:
    """Return the record at a position, and where to look for the next one."""
    after = position + len(_MAGIC)
    line_end = data.find(b"\n", after)
    fields = data[after:line_end].split() if line_end > 0 else []
    are_numbers = all(field.isdigit() and len(field) <= _DIGITS_MAX for field in fields)
    if len(fields) != 4 or not are_numbers:  # noqa: PLR2004
        return None, after
    at, context_size, event_size, crc = map(int, fields)
    context_end = line_end + 1 + context_size
    end = context_end + 1 + event_size
    context, event = data[line_end + 1 : context_end], data[context_end + 1 : end]
    if zlib.crc32(event, zlib.crc32(context)) != crc:
        return None, after
    project, folder, codex, *_ = (*os.fsdecode(context).split("\0"), "", "")
    found = SpooledEvent(
        at=at, project=project, client_folder=folder, codex_folder=codex, data=event
    )
    return found, end


def _append(path: str, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    is_new = not os.path.exists(path)
    handle = os.open(path, flags, 0o600)
    try:
        start = os.fstat(handle).st_size
        try:
            _write(handle, data)
            os.fsync(handle)
        except OSError:
            os.ftruncate(handle, start)
            raise
    finally:
        os.close(handle)
    if is_new:
        _sync_folder(os.path.dirname(path))


def _write(handle: int, data: bytes) -> None:
    written = 0
    while written < len(data):
        written += os.write(handle, data[written:])


def _replace(folder: str, name: str, data: bytes) -> None:
    temporary = os.path.join(folder, f"{name}.{os.getpid()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        _write(handle, data)
        os.fsync(handle)
    finally:
        os.close(handle)
    os.rename(temporary, os.path.join(folder, name))


def _claim(folder: str, *, url: str, base: str) -> None:
    """Write down which store a folder is for; ``SpoolError`` if it is for another one."""
    origin = _read_origin(folder)
    if origin is None:
        _replace(folder, _ORIGIN, os.fsencode(f"{url}\0{base}"))
    elif origin[0] != url:
        raise SpoolError(f"{folder} holds the events of another store")


def _read_origin(folder: str) -> tuple[str, str] | None:
    try:
        with open(os.path.join(folder, _ORIGIN), "rb") as file:
            url, _, base = os.fsdecode(file.read()).partition("\0")
    except (FileNotFoundError, NotADirectoryError):
        return None
    return url, base


def _size(folder: str) -> int:
    names: Sequence[str] = os.listdir(folder)
    waiting = (name for name in names if name == _EVENTS or name.startswith(_BATCH))
    return sum(os.path.getsize(os.path.join(folder, name)) for name in waiting)


def _sync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
