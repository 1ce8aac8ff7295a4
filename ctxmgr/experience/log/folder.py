"""The folder of a log: its files, and the lock under which they are written. Touches files.

A file is written under a temporary name, flushed, renamed, and its name flushed, before the
catalogue lists it. A file that the catalogue does not list is never read, and ``sweep`` removes it.
"""

import fcntl
import hashlib
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from ctxmgr.errors import Corrupt, Unavailable

SEGMENTS: Final = "segments"
LOCK: Final = "fold.lock"
TIMESTEPS: Final = "timesteps"
ACTIVATIONS: Final = "activations"

LOCK_WAIT_SECONDS: Final = 60.0
"""How long an appender waits for another process that folds or merges, which takes seconds."""

LOCK_PAUSE_SECONDS: Final = 0.02

_HASHED_BYTES: Final = 1 << 20
_BUFFERED_BYTES: Final = 1 << 18


class WrittenFile(NamedTuple):
    """A file that is on disk."""

    sha256: str
    bytes: int


class NewFile:
    """A file that is being written. Has what pyarrow needs of a file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._bytes = 0
        self.closed = False

    def write(self, data: bytes) -> int:
        self._digest.update(data)
        self._bytes += len(data)
        return self._file.write(data)

    def flush(self) -> None:
        """Do nothing: the folder flushes the file when it is complete."""

    def close(self) -> None:
        self.closed = True

    @property
    def written(self) -> WrittenFile:
        return WrittenFile(self._digest.hexdigest(), self._bytes)


class LogFolder:
    """The folder of one log."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.segments = root / SEGMENTS

    def create(self) -> None:
        self.segments.mkdir(mode=0o700, parents=True, exist_ok=True)

    def timesteps(self, name: str) -> Path:
        return self.segments / f"{TIMESTEPS}-{name}.parquet"

    def activations(self, name: str) -> Path:
        return self.segments / f"{ACTIVATIONS}-{name}.parquet"

    @contextmanager
    def locked(self, *, wait: bool) -> Iterator[bool]:
        """Hold the lock for writing and removing segments; False if another process has it.

        With ``wait``, ``Unavailable`` if it has it for too long. A process that ends releases it.
        """
        descriptor = os.open(self.root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            yield _lock(descriptor, wait=wait, where=self.root)
        finally:
            os.close(descriptor)

    @contextmanager
    def new_file(self, path: Path) -> Iterator["NewFile"]:
        """Write a file that never changes; it is on disk when the block ends."""
        temporary = path.with_suffix(".tmp")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb", buffering=_BUFFERED_BYTES) as file:
                yield NewFile(file)
                file.flush()
                os.fsync(descriptor)
            temporary.rename(path)
            self._flush_names()
        except BaseException as error:
            temporary.unlink(missing_ok=True)  # or a full disk would stay full
            if isinstance(error, OSError):
                raise Unavailable(f"{path}: {error.strerror}; nothing was lost") from error
            raise

    def sweep(self, *, listed: Iterable[str]) -> int:
        """Remove the files of segments that are not listed; under the lock only."""
        kept = {path.name for name in listed for path in self._files(name)}
        removed = 0
        for path in self.segments.iterdir():
            if path.name not in kept and path.suffix in {".parquet", ".tmp"}:
                path.unlink(missing_ok=True)
                removed += 1
        return removed

    def check_file(self, path: Path, *, size: int, sha256: str | None = None) -> None:
        """Raise ``Corrupt`` if a file is missing, or is not the one that was written."""
        try:
            found = path.stat().st_size
        except FileNotFoundError as error:
            raise Corrupt(f"{path} is missing; restore it from a backup") from error
        if found != size:
            raise Corrupt(f"{path} has {found:,} bytes, not {size:,}; restore it from a backup")
        if sha256 is not None and _hash(path) != sha256:
            raise Corrupt(f"{path} was altered; restore it from a backup")

    def _files(self, name: str) -> tuple[Path, Path]:
        return self.timesteps(name), self.activations(name)

    def _flush_names(self) -> None:
        descriptor = os.open(self.segments, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _lock(descriptor: int, *, wait: bool, where: Path) -> bool:
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                return False
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"{where}: another process has been folding for {LOCK_WAIT_SECONDS:.0f} s;"
                    " nothing was written, retry later"
                ) from None
            time.sleep(LOCK_PAUSE_SECONDS)
        else:
            return True


def _hash(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_HASHED_BYTES):
            digest.update(block)
    return digest.hexdigest()
