"""The folder of an audit log: its files, permissions, lock and head. Reads and writes them.

    audit.json                 what the log is: its id and its public key
    segment-00000001.jsonl     records, one per line; the last segment is appended to
    head.json                  the end of the chain, rewritten in place after every append
    checkpoints.jsonl          signed checkpoints, one per line
    signing.key                the private key, unless it is kept elsewhere
    lock                       held by the process that appends

The head is written after the records are on disk. It can be behind them after a crash, never ahead:
a segment that is shorter than the head says was cut.
"""

import fcntl
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Self

import orjson

from ctxmgr.audit.records import GENESIS, Link
from ctxmgr.errors import ChainBroken, Denied, Incorrect, NewerFormat, NotFound, Unavailable

FOLDER_FORMAT: Final = 1
CONFIGURATION: Final = "audit.json"
HEAD: Final = "head.json"
CHECKPOINTS: Final = "checkpoints.jsonl"
SIGNING_KEY: Final = "signing.key"
LOCK: Final = "lock"

HEAD_BYTES: Final = 1_024
"""The head is padded to this size, so that one write replaces all of it."""

LOCK_SECONDS_MAX: Final = 30.0
"""How long a process waits for the others. A batch takes milliseconds; a disk can stall."""

LOCK_WAIT_SECONDS: Final = (0.0002, 0.01)
"""The first and the longest pause between two attempts."""

_SEGMENT: Final = re.compile(r"segment-(\d{8,})\.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The end of the chain, and of the checkpoints."""

    segment: int = 1
    offset: int = 0
    """Bytes of that segment."""
    number: int = 0
    record_hash: str = GENESIS
    full_hash: str = GENESIS
    checkpoint: int = 0
    """The number of the last checkpoint; 0: there is none."""
    checkpoint_hash: str = GENESIS
    checkpoint_record: int = 0
    """The number of the last record that a checkpoint covers."""

    @property
    def link(self) -> Link:
        return Link(self.number, self.record_hash, self.full_hash)


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What never changes in the life of a log."""

    log_id: str
    public_key: str
    """Ed25519, 32 bytes in hex."""
    created: int


class AuditFolder:
    """The files of one audit log."""

    def __init__(self, root: Path) -> None:
        self.root: Final = root

    @classmethod
    def create(cls, root: Path, configuration: Configuration) -> Self:
        """Create an empty log; ``Incorrect`` if the folder is used already."""
        with _translated(root):
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder = cls(root)
            folder.check_access()
            used = {path.name for path in root.iterdir()} - {SIGNING_KEY}
            if used:
                raise Incorrect(f"{root} is not empty: choose another folder for the audit log")
            for name in (folder.segment(1).name, CHECKPOINTS, LOCK):
                os.close(folder.create_file(name))
            folder.replace(HEAD, _padded(Head()))
            # The configuration comes last: a folder without it is not a log.
            values = {"format": FOLDER_FORMAT, **asdict(configuration)}
            folder.replace(CONFIGURATION, orjson.dumps(values))
        return folder

    def check_access(self) -> None:
        """Raise ``Denied`` unless the folder belongs to this user alone."""
        with _translated(self.root):
            status = self.root.stat()
        if status.st_uid != os.geteuid():
            raise Denied(f"{self.root} belongs to another user")
        if status.st_mode & 0o077:
            raise Denied(f"{self.root} is open to other users: chmod 700 it")

    def configuration(self) -> Configuration:
        """Read what the log is; ``NotFound`` if the folder holds none."""
        try:
            values = orjson.loads(self.read(CONFIGURATION))
        except NotFound:
            raise NotFound(
                f"{self.root} holds no audit log: create one with `ctxmgr audit init`"
            ) from None
        except orjson.JSONDecodeError as error:
            raise ChainBroken(f"{self.root / CONFIGURATION} was altered: {error}") from error
        if not isinstance(values, dict) or not isinstance(values.get("format"), int):
            raise ChainBroken(f"{self.root / CONFIGURATION} was altered: it has no format")
        found = values.pop("format")
        if found > FOLDER_FORMAT:
            raise NewerFormat(str(self.root), found, FOLDER_FORMAT)
        try:
            return Configuration(**values)
        except TypeError as error:
            raise ChainBroken(f"{self.root / CONFIGURATION} was altered: {error}") from error

    def segment(self, number: int) -> Path:
        return self.root / f"segment-{number:08}.jsonl"

    def segments(self) -> list[int]:
        """Return the numbers of the segments that exist."""
        with _translated(self.root):
            names = [path.name for path in self.root.iterdir()]
        return sorted(int(match[1]) for name in names if (match := _SEGMENT.fullmatch(name)))

    def head(self) -> Head:
        """Read the head; ``ChainBroken`` if it is missing or not readable."""
        altered = ChainBroken(
            f"{self.root / HEAD} was removed or altered: `ctxmgr audit verify` checks the records"
        )
        try:
            with self.opened(HEAD, os.O_RDONLY) as descriptor, _translated(self.root):
                content = os.read(descriptor, HEAD_BYTES + 1)
            values = orjson.loads(content)
            values.pop("hash")
            head = Head(**values)
        except (orjson.JSONDecodeError, TypeError, AttributeError, KeyError, NotFound) as error:
            raise altered from error
        if _padded(head) != content:
            raise altered
        return head

    def write_head(self, head: Head) -> None:
        """Replace the head, in one write. It need not be on disk: records after it are found."""
        with _translated(self.root), self.opened(HEAD, os.O_WRONLY) as descriptor:
            _write_all(descriptor, _padded(head))

    def read(self, name: str) -> bytes:
        """Read a small file."""
        with self.opened(name, os.O_RDONLY) as descriptor, _translated(self.root / name):
            parts = []
            while part := os.read(descriptor, 1 << 20):
                parts.append(part)
        return b"".join(parts)

    def replace(self, name: str, content: bytes) -> None:
        """Write a file under another name, flush it, and rename it."""
        draft = f".{name}-{secrets.token_hex(8)}"
        with _translated(self.root / name):
            descriptor = self.create_file(draft)
            try:
                _write_all(descriptor, content)
                os.fsync(descriptor)
            except BaseException:
                (self.root / draft).unlink()
                raise
            finally:
                os.close(descriptor)
            (self.root / draft).rename(self.root / name)
            self.flush_names()

    def create_file(self, name: str) -> int:
        """Create a file that only this user can read; return its descriptor."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with _translated(self.root / name):
            return os.open(self.root / name, flags, 0o600)

    def flush_names(self) -> None:
        """Make created, renamed and removed files durable."""
        with _translated(self.root):
            descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    @contextmanager
    def opened(self, name: str, flags: int) -> Iterator[int]:
        """Open a file of the folder; ``Denied`` if it is a link, or open to other users."""
        path = f"{self.root}/{name}"  # a Path takes as long as opening the file
        with _translated(path):
            descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise Denied(f"{path} is not a file")
            if status.st_mode & 0o077:
                raise Denied(f"{path} is open to other users: chmod 600 it")
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the log, against other processes and other writers of this one."""
        with self.opened(LOCK, os.O_RDWR) as descriptor:
            deadline = time.monotonic() + LOCK_SECONDS_MAX
            pause, longest = LOCK_WAIT_SECONDS
            while True:
                with suppress(BlockingIOError):
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                if time.monotonic() > deadline:
                    raise Unavailable(
                        f"another process has held {self.root / LOCK} for {LOCK_SECONDS_MAX:g} s"
                    )
                time.sleep(pause)
                pause = min(2 * pause, longest)
            yield


def _padded(head: Head) -> bytes:
    values = orjson.dumps(head)
    encoded = b'%b,"hash":"%b"}' % (values[:-1], sha256(values).hexdigest().encode())
    assert len(encoded) < HEAD_BYTES
    return encoded.ljust(HEAD_BYTES - 1) + b"\n"


def _write_all(descriptor: int, content: bytes) -> None:
    written = os.write(descriptor, content)
    while written < len(content):
        written += os.write(descriptor, content[written:])


@contextmanager
def _translated(path: Path | str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound(f"{path} does not exist") from error
    except PermissionError as error:
        raise Denied(f"{path}: {error.strerror}") from error
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror}") from error


def write_all(descriptor: int, content: bytes, path: Path) -> None:
    """Append bytes and flush them to disk; ``Unavailable`` if they could not be written whole."""
    with _translated(path):
        _write_all(descriptor, content)
        os.fdatasync(descriptor)


def cut_to(descriptor: int, size: int) -> None:
    """Remove what follows ``size``, and flush."""
    os.ftruncate(descriptor, size)
    os.fsync(descriptor)


def values_of(line: bytes) -> dict[str, Any] | None:
    """Read one line of JSON; None if it is not an object."""
    try:
        values = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return values if isinstance(values, dict) else None
