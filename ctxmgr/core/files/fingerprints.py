"""Fingerprints of files that were read, so that unchanged files need not be read again.

    object id ─► size, times and inode of the file when it was read, and the object_hash

Reads and writes one local cache file. It belongs to this machine and not to a store: an entry
counts only for a stored version with the same object_hash. Without the cache every file is read
again, and the results are the same, so a damaged cache file is treated as empty.
"""

import logging
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

import orjson

from ctxmgr.core.files.outcomes import Fingerprint
from ctxmgr.core.private_files import make_private_folder

FINGERPRINTS_MAX: Final = 200_000
"""Entries kept, newest first: twice the largest session, about 40 MB in the file."""

CACHE_FORMAT: Final = 1

Entry: TypeAlias = tuple[int, int, int, int, str]
"""mtime_ns, ctime_ns, size, inode, object_hash."""

_ENTRY_LENGTH: Final = 5

_log = logging.getLogger(__name__)


class Fingerprints:
    """The cache. Thread-safe: each step is one operation on a dict."""

    def __init__(self, file: Path | None = None) -> None:
        """Without a file, the cache lasts as long as the process."""
        self._file = file
        self._entries: dict[str, Entry] = {}
        self._changed = False

    @property
    def count(self) -> int:
        return len(self._entries)

    def load(self) -> None:
        """Load the entries that an earlier process saved. Blocks."""
        if self._file is not None:
            self._entries = {**_load(self._file), **self._entries}

    def save(self) -> None:
        """Save the cache atomically for the next process; the last writer wins. Blocks.

        A failure to write is logged and not raised.
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
        """Remember a file that was read, unless it could still change with equal times."""
        self._changed = True
        self._entries.pop(object_id, None)
        if not fingerprint.is_settled(looked_at_ns=looked_at_ns):
            return
        self._entries[object_id] = (
            fingerprint.mtime_ns,
            fingerprint.ctime_ns,
            fingerprint.size,
            fingerprint.inode,
            object_hash,
        )
        while len(self._entries) > FINGERPRINTS_MAX:
            with suppress(KeyError, StopIteration, RuntimeError):  # another thread removed it
                del self._entries[next(iter(self._entries))]

    def prove(self, object_id: str, status: os.stat_result, *, object_hash: str) -> bool:
        """Return whether a file with this status still has the content of the given version."""
        entry = self._entries.get(object_id)
        return entry is not None and entry == (
            status.st_mtime_ns,
            status.st_ctime_ns,
            status.st_size,
            status.st_ino,
            object_hash,
        )

    def knows(self, object_id: str) -> bool:
        """Return whether there is an entry for the object."""
        return object_id in self._entries


def _load(file: Path) -> dict[str, Entry]:
    try:
        value = orjson.loads(file.read_bytes())
        if value["format"] != CACHE_FORMAT:
            return {}
        return {str(key): _entry(row) for key, row in value["files"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        _log.warning("%s: cannot read fingerprints; all files are read again: %s", file, error)
        return {}


def _entry(row: Any) -> Entry:
    if not isinstance(row, list) or len(row) != _ENTRY_LENGTH:
        raise ValueError(f"{row!r:.80} is not a fingerprint")
    return (row[0], row[1], row[2], row[3], row[4])


def _save(file: Path, entries: dict[str, Entry]) -> None:
    make_private_folder(file.parent)
    data = orjson.dumps({"format": CACHE_FORMAT, "files": entries})
    fd, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
    try:
        with os.fdopen(fd, "wb") as out:
            out.write(data)
        Path(temporary).replace(file)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise
