"""Files that the agent names, read for it from outside its sandbox. Reads the host's disk.

    path of the agent ─► walking, through the mounts ─► a regular file ─► its bytes

Not one byte outside the mounts is read. What is no regular file is not even opened for reading; a
file above ``FILE_BYTES_MAX`` is looked at and not read. All of it may block: call it in a thread.
"""

import os
import stat
from types import TracebackType
from typing import Final, Self

from ctxmgr.core.documents import DOCUMENT_BYTES_MAX
from ctxmgr.core.file_outcomes import (
    Fingerprint,
    Read,
    Refusal,
    Refused,
    Seen,
    Unreachable,
    Unread,
)
from ctxmgr.core.kernel_filesystems import is_made_up
from ctxmgr.core.mount_roots import MountRoots
from ctxmgr.core.mounts import Mounts, Place
from ctxmgr.core.walking import Reached, Walk, WalkError

FILE_BYTES_MAX: Final = 2_560 * 1024
"""A byte becomes six at most in a stored document (a control character in JSON), so that every
file up to here fits into one."""

READS_MAX: Final = 3
"""How often a file is read that changes meanwhile: more than twice is a file being written."""

PATH_BYTES_MAX: Final = 4_095
"""Linux's PATH_MAX without the NUL at its end: the sandbox's kernel takes no longer one."""

_OPENS_BY_DESCRIPTOR: Final = hasattr(os, "O_PATH")
_READ_ONLY: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

assert FILE_BYTES_MAX * 6 <= DOCUMENT_BYTES_MAX


class HostFiles:
    """The host's disk as one sandboxed agent may see it. Holds the mounts open until closed."""

    def __init__(self, mounts: Mounts) -> None:
        self._roots = MountRoots(mounts)
        self._real_devices: set[int] = set()
        """Of filesystems that a mount's open folder is on, and that do not make up files."""

    @property
    def mounts(self) -> Mounts:
        """The mounts with canonical prefixes as the host resolves them: translate with these."""
        return self._roots.mounts

    def close(self) -> None:
        """Let go of the mounts."""
        self._roots.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def look(self, path: str) -> Seen | Unread:
        """Tell what is at the agent's path, without reading it."""
        name = _encoded(path)
        if isinstance(name, Refused):
            return name
        try:
            with Walk(self._roots, name) as reached:
                return self._seen(reached)
        except WalkError as error:
            return error.outcome

    def read(self, path: str, *, bytes_max: int = FILE_BYTES_MAX) -> Read | Unread:
        """Read the file at the agent's path, again if it changes meanwhile."""
        name = _encoded(path)
        if isinstance(name, Refused):
            return name
        outcome: Read | Unread = Unreachable("never read")
        for _ in range(READS_MAX):
            outcome = self._read_once(name, bytes_max)
            if not isinstance(outcome, Read) or outcome.whole:
                break
        return outcome

    def _read_once(self, name: bytes, bytes_max: int) -> Read | Unread:
        try:
            with Walk(self._roots, name) as reached:
                found = self._identified(reached)
                if isinstance(found, Refused):
                    return found
                if reached.status.st_size > bytes_max:
                    return _too_large(reached.status.st_size, bytes_max)
                return self._read_reached(reached, found, bytes_max)
        except WalkError as error:
            return error.outcome

    def _seen(self, reached: Reached) -> Seen | Refused:
        found = self._identified(reached)
        if isinstance(found, Refused):
            return found
        place, agent_path = found
        return Seen(place=place, agent_path=agent_path, fingerprint=_fingerprint(reached.status))

    def _identified(self, reached: Reached) -> tuple[Place, str] | Refused:
        if not stat.S_ISREG(reached.status.st_mode):
            return Refused(Refusal.NOT_A_FILE, _kind(reached.status.st_mode))
        try:
            agent_path = reached.agent_path.decode()
        except UnicodeDecodeError:
            return Refused(Refusal.NAME, "the file's name is no UTF-8")
        return self.mounts.place_of(agent_path), agent_path

    def _read_reached(
        self, reached: Reached, found: tuple[Place, str], bytes_max: int
    ) -> Read | Unread:
        try:
            fd = _open_to_read(reached)
        except OSError as error:
            return Unreachable(error.strerror or str(error))
        try:
            # What was opened by its descriptor is what was looked at, and changes since then count.
            before = reached.status if reached.fd is not None else os.fstat(fd)
            return self._read_open(fd, before, found, bytes_max)
        except OSError as error:
            return Unreachable(error.strerror or str(error))
        finally:
            os.close(fd)

    def _read_open(
        self, fd: int, before: os.stat_result, found: tuple[Place, str], bytes_max: int
    ) -> Read | Refused:
        if not stat.S_ISREG(before.st_mode):
            return Refused(Refusal.NOT_A_FILE, _kind(before.st_mode))
        if before.st_dev not in self._real_devices and self._is_made_up(fd, before.st_dev):
            return Refused(Refusal.NOT_A_FILE, "a file that the kernel makes up")
        data = _bytes(fd, size=min(before.st_size, bytes_max) + 1)
        after, size = os.fstat(fd), len(data)
        if size > bytes_max or after.st_size > bytes_max:
            return _too_large(max(after.st_size, size), bytes_max)
        seen = _fingerprint(after)
        return Read(
            place=found[0],
            agent_path=found[1],
            fingerprint=seen,
            data=data,
            whole=size == seen.size
            and before.st_mtime_ns == seen.mtime_ns
            and before.st_ctime_ns == seen.ctime_ns,
        )

    def _is_made_up(self, fd: int, device: int) -> bool:
        """Ask the kernel once for each filesystem that cannot be replaced by another meanwhile."""
        if is_made_up(fd):
            return True
        if self._roots.holds(device):
            self._real_devices.add(device)
        return False


def _open_to_read(reached: Reached) -> int:
    # Opened by its descriptor, so that it is the very thing whose kind was checked: a device put
    # there since would notice being opened by its name.
    if reached.fd is not None and _OPENS_BY_DESCRIPTOR:
        return os.open(f"/proc/self/fd/{reached.fd}", _READ_ONLY)
    if reached.folder is None:
        assert reached.fd is not None, "a mount is held open"
        return os.dup(reached.fd)
    return os.open(reached.name, _READ_ONLY | os.O_NOFOLLOW, dir_fd=reached.folder)


def _bytes(fd: int, *, size: int) -> bytes:
    first = os.read(fd, size)
    if len(first) == size - 1:
        return first
    parts, left = [first], size - len(first)
    while left and parts[-1]:
        parts.append(os.read(fd, left))
        left -= len(parts[-1])
    return b"".join(parts)


def _encoded(path: str) -> bytes | Refused:
    if not path.startswith("/"):
        return Refused(Refusal.NAME, "the path is not absolute")
    if "\0" in path:
        return Refused(Refusal.NAME, "the path holds NUL")
    try:
        name = path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return Refused(Refusal.NAME, "the path holds a lone surrogate")
    if len(name) > PATH_BYTES_MAX:
        return Refused(Refusal.NAME, f"{len(name)} bytes of path; {PATH_BYTES_MAX} at most")
    return name


def _fingerprint(status: os.stat_result) -> Fingerprint:
    return Fingerprint(
        mtime_ns=status.st_mtime_ns,
        ctime_ns=status.st_ctime_ns,
        size=status.st_size,
        inode=status.st_ino,
    )


def _too_large(size: int, bytes_max: int) -> Refused:
    return Refused(Refusal.TOO_LARGE, f"{size:,} bytes; {bytes_max:,} at most are read")


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFBLK: "a block device",
        stat.S_IFCHR: "a character device",
    }
    return kinds.get(stat.S_IFMT(mode), "no regular file")
