"""Fingerprints of files that were read: what lets a file go unread. A local cache in one file.

    object id ─► how the file looked when it was read, and the object_hash of what was read

It belongs to this machine and says nothing about any store: an entry counts only beside a stored
version with the same object_hash. Losing it costs a reading of every file, never a wrong answer,
so a file of it that cannot be read is an empty one.
"""

import logging
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

import orjson

from ctxmgr.core.file_outcomes import Fingerprint

FINGERPRINTS_MAX: Final = 200_000
"""Entries kept, the newest: twice the largest session, and about 40 MB in the file."""

CACHE_FORMAT: Final = 1

Entry: TypeAlias = tuple[int, int, int, int, str]
"""mtime_ns, ctime_ns, size, inode, object_hash."""

_ENTRY_LENGTH: Final = 5

_log = logging.getLogger(__name__)


class Fingerprints:
    """The cache. Safe for threads: each step is one operation on a dict."""

    def __init__(self, file: Path | None = None) -> None:
        """None: for this process only."""
        self._file = file
        self._entries: dict[str, Entry] = {}
        self._changed = False

    @property
    def count(self) -> int:
        return len(self._entries)

    def load(self) -> None:
        """Take in what an earlier process saved. Blocks."""
        if self._file is not None:
            self._entries = {**_loaded(self._file), **self._entries}

    def save(self) -> None:
        """Keep it for the next process, whole or not at all; of two writers the last wins. Blocks.

        A disk that does not take it is only reported: it is a cache.
        """
        if self._file is None or not self._changed:
            return
        try:
            _save(self._file, self._entries)
            self._changed = False
        except OSError as error:
            _log.warning("%s: fingerprints were not saved: %s", self._file, error.strerror)

    def learn(
        self, object_id: str, fingerprint: Fingerprint, *, object_hash: str, looked_at_ns: int
    ) -> None:
        """Remember a file that was read, unless it may still change and look the same."""
        self._changed = True
        self._entries.pop(object_id, None)
        if not fingerprint.is_settled(looked_at_ns=looked_at_ns):
            return
        seen = fingerprint
        self._entries[object_id] = (
            seen.mtime_ns,
            seen.ctime_ns,
            seen.size,
            seen.inode,
            object_hash,
        )
        while len(self._entries) > FINGERPRINTS_MAX:
            with suppress(KeyError, StopIteration, RuntimeError):  # another thread was faster
                del self._entries[next(iter(self._entries))]

    def prove(self, object_id: str, status: os.stat_result, *, object_hash: str) -> bool:
        """Tell whether a file that looks so still holds what the version of that hash says."""
        entry = self._entries.get(object_id)
        return entry is not None and entry == (
            status.st_mtime_ns,
            status.st_ctime_ns,
            status.st_size,
            status.st_ino,
            object_hash,
        )

    def knows(self, object_id: str) -> bool:
        """Tell whether looking at the file could prove anything."""
        return object_id in self._entries


def _loaded(file: Path) -> dict[str, Entry]:
    try:
        value = orjson.loads(file.read_bytes())
        if value["format"] != CACHE_FORMAT:
            return {}
        return {str(key): _entry(row) for key, row in value["files"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        _log.warning("%s: fingerprints cannot be read, every file will be: %s", file, error)
        return {}


def _entry(row: Any) -> Entry:
    if not isinstance(row, list) or len(row) != _ENTRY_LENGTH:
        raise ValueError(f"{row!r:.80} is no fingerprint")
    return (row[0], row[1], row[2], row[3], row[4])


def _save(file: Path, entries: dict[str, Entry]) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    data = orjson.dumps({"format": CACHE_FORMAT, "files": entries})
    fd, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
    try:
        with os.fdopen(fd, "wb") as out:
            out.write(data)
        Path(temporary).replace(file)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise
