"""Read the agent's files from outside its sandbox. Reads the host's disk.

    agent path ─► walk through the mounts ─► a regular file ─► its bytes

Nothing outside the mounts is read, and none of ctxmgr's own files. Anything but a regular file is
not opened for reading, and a file larger than ``FILE_BYTES_MAX`` is not read. Every method may
block: call it in a thread.

Files on virtual filesystems are refused. The kernel generates them when they are read; they claim
to be regular, of size 0, and describe the process that reads them: if the client read
``/proc/self/environ``, the result would be the client's environment with its API keys.
"""

import ctypes
import os
import stat
import sys
from functools import cache
from types import TracebackType
from typing import Final, Self

from ctxmgr.core.files.mount_roots import MountRoots
from ctxmgr.core.files.mounts import FileLocation, Mounts
from ctxmgr.core.files.outcomes import (
    FOLDER,
    Fingerprint,
    ReadFile,
    Refusal,
    RefusedFile,
    SeenFile,
    Unreachable,
    Unread,
)
from ctxmgr.core.files.own_files import OwnFiles
from ctxmgr.core.files.path_walk import Reached, Walk, WalkError
from ctxmgr.core.store.documents import DOCUMENT_BYTES_MAX

VIRTUAL_FILESYSTEMS: Final = frozenset(
    {
        0x9FA0,  # proc
        0x62656572,  # sysfs
        0x27E0EB,  # cgroup
        0x63677270,  # cgroup2
        0x64626720,  # debugfs
        0x74726163,  # tracefs
        0x73636673,  # securityfs
        0x62656570,  # configfs
        0xCAFE4A11,  # bpf
        0x6E736673,  # nsfs
        0xF97CFF8C,  # selinuxfs
        0x6165676C,  # pstore
        0xDE5E81E4,  # efivarfs
        0x42494E4D,  # binfmt_misc
        0x65735543,  # fusectl
    }
)
"""The magic numbers of virtual filesystems, from <linux/magic.h>."""

FILE_BYTES_MAX: Final = 2_560 * 1024
"""A byte takes at most six bytes in a stored document (a control character in JSON), so every file
up to this size fits into one."""

READS_MAX: Final = 3
"""Attempts to read a file that changes while it is read."""

PATH_BYTES_MAX: Final = 4_095
"""Linux's PATH_MAX without the terminating NUL; the kernel accepts no longer path."""

_Statfs: Final = ctypes.c_char * 256
"""Larger than struct statfs on any Linux; its first word is the magic number."""

_WORD_MASK: Final = 0xFFFF_FFFF
_OPENS_BY_DESCRIPTOR: Final = hasattr(os, "O_PATH")
_READ_ONLY: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

assert FILE_BYTES_MAX * 6 <= DOCUMENT_BYTES_MAX


class HostFiles:
    """The host's files that one sandboxed agent may see. Holds the mounts open until closed."""

    def __init__(self, mounts: Mounts, *, own: OwnFiles | None = None) -> None:
        """``own`` are the files of ctxmgr itself; by default, those in its own folders."""
        self._roots = MountRoots(mounts)
        self._own = own or OwnFiles()
        self._disk_devices: set[int] = set()
        """Devices that a mount's open folder is on and that are not virtual filesystems."""

    @property
    def mounts(self) -> Mounts:
        """The mounts with resolved canonical prefixes; translate paths with these."""
        return self._roots.mounts

    def close(self) -> None:
        """Close the mounts."""
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

    def look(self, path: str) -> SeenFile | Unread:
        """Return what is at an agent path, without reading it."""
        name = encode_path(path)
        if isinstance(name, RefusedFile):
            return name
        try:
            with Walk(self._roots, name) as reached:
                identity = self._identify(reached)
                if isinstance(identity, RefusedFile):
                    return identity
                return SeenFile(
                    location=identity[0],
                    agent_path=identity[1],
                    fingerprint=_fingerprint(reached.status),
                )
        except WalkError as error:
            return error.outcome

    def read(self, path: str, *, bytes_max: int = FILE_BYTES_MAX) -> ReadFile | Unread:
        """Read the file at an agent path, again if it changes while it is read."""
        name = encode_path(path)
        if isinstance(name, RefusedFile):
            return name
        outcome: ReadFile | Unread = Unreachable("never read")
        for _ in range(READS_MAX):
            outcome = self._read_once(name, bytes_max)
            if not isinstance(outcome, ReadFile) or outcome.whole:
                break
        return outcome

    def _read_once(self, name: bytes, bytes_max: int) -> ReadFile | Unread:
        try:
            with Walk(self._roots, name) as reached:
                identity = self._identify(reached)
                if isinstance(identity, RefusedFile):
                    return identity
                if reached.status.st_size > bytes_max:
                    return _too_large(reached.status.st_size, bytes_max)
                return self._read_reached(reached, identity, bytes_max)
        except WalkError as error:
            return error.outcome

    def _identify(self, reached: Reached) -> tuple[FileLocation, str] | RefusedFile:
        if not stat.S_ISREG(reached.status.st_mode):
            return RefusedFile(Refusal.NOT_A_FILE, _kind_name(reached.status.st_mode))
        try:
            agent_path = reached.agent_path.decode()
        except UnicodeDecodeError:
            return RefusedFile(Refusal.NAME, "the file's name is not valid UTF-8")
        location = self.mounts.location_of(agent_path)
        if self._own.contain(location.path, reached.status):
            return RefusedFile(Refusal.OWN, "a file of ctxmgr itself, which no agent may see")
        return location, agent_path

    def _read_reached(
        self, reached: Reached, identity: tuple[FileLocation, str], bytes_max: int
    ) -> ReadFile | Unread:
        try:
            fd = _open_to_read(reached)
        except OSError as error:
            return Unreachable(error.strerror or str(error))
        try:
            # A file opened by its descriptor is the one whose status was read, and changes since
            # then count.
            before = reached.status if reached.fd is not None else os.fstat(fd)
            return self._read_open(fd, before, identity, bytes_max)
        except OSError as error:
            return Unreachable(error.strerror or str(error))
        finally:
            os.close(fd)

    def _read_open(
        self, fd: int, before: os.stat_result, identity: tuple[FileLocation, str], bytes_max: int
    ) -> ReadFile | RefusedFile:
        if not stat.S_ISREG(before.st_mode):
            return RefusedFile(Refusal.NOT_A_FILE, _kind_name(before.st_mode))
        if before.st_dev not in self._disk_devices and self._is_virtual(fd, before.st_dev):
            return RefusedFile(Refusal.NOT_A_FILE, "a file that the kernel generates")
        data = _bytes(fd, size=min(before.st_size, bytes_max) + 1)
        after, size = os.fstat(fd), len(data)
        if size > bytes_max or after.st_size > bytes_max:
            return _too_large(max(after.st_size, size), bytes_max)
        seen = _fingerprint(after)
        return ReadFile(
            location=identity[0],
            agent_path=identity[1],
            fingerprint=seen,
            data=data,
            whole=size == seen.size
            and before.st_mtime_ns == seen.mtime_ns
            and before.st_ctime_ns == seen.ctime_ns,
        )

    def _is_virtual(self, fd: int, device: int) -> bool:
        """Check a file's filesystem; the result is cached while a mount keeps the device in use."""
        if is_virtual(fd):
            return True
        if self._roots.holds(device):
            self._disk_devices.add(device)
        return False


def is_virtual(fd: int) -> bool:
    """Return whether an open file is on a virtual filesystem. Always False except on Linux."""
    if sys.platform != "linux":
        return False
    status = _Statfs()
    if _libc().fstatfs(fd, status) != 0:
        number = ctypes.get_errno()
        raise OSError(number, "fstatfs")
    return ctypes.c_long.from_buffer(status).value & _WORD_MASK in VIRTUAL_FILESYSTEMS


def encode_path(path: str) -> bytes | RefusedFile:
    """Return the bytes of an absolute path, or why it is invalid."""
    if not path.startswith("/"):
        return RefusedFile(Refusal.NAME, "the path is not absolute")
    if "\0" in path:
        return RefusedFile(Refusal.NAME, "the path contains NUL")
    try:
        name = path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return RefusedFile(Refusal.NAME, "the path contains a lone surrogate")
    if len(name) > PATH_BYTES_MAX:
        return RefusedFile(Refusal.NAME, f"{len(name)} bytes of path; {PATH_BYTES_MAX} at most")
    return name


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _open_to_read(reached: Reached) -> int:
    # Opening by descriptor gives exactly the file whose type was checked. Opening by name could
    # open a device that has replaced it since.
    if reached.fd is not None and _OPENS_BY_DESCRIPTOR:
        return os.open(f"/proc/self/fd/{reached.fd}", _READ_ONLY)
    if reached.folder is None:
        assert reached.fd is not None, "a mount is open"
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


def _fingerprint(status: os.stat_result) -> Fingerprint:
    return Fingerprint(
        mtime_ns=status.st_mtime_ns,
        ctime_ns=status.st_ctime_ns,
        size=status.st_size,
        inode=status.st_ino,
    )


def _too_large(size: int, bytes_max: int) -> RefusedFile:
    return RefusedFile(Refusal.TOO_LARGE, f"{size:,} bytes; {bytes_max:,} at most are read")


def _kind_name(mode: int) -> str:
    kinds = {
        stat.S_IFDIR: FOLDER,
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFBLK: "a block device",
        stat.S_IFCHR: "a character device",
    }
    return kinds.get(stat.S_IFMT(mode), "not a regular file")
