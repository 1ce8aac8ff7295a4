"""Resolve an agent path as the sandbox's kernel would, by file descriptor. Opens folders on disk.

The client runs outside the sandbox, where ``/etc`` is another folder, so its own kernel must not
follow the sandbox's symbolic links. Each part of a path is opened below the folder before it, with
a call that never follows a link:

    name        opened below the current folder
    a mount     the walk continues in the folder that ``mount_roots`` keeps open
    a link      its target is read; an absolute target is an agent path, and the walk starts over
    ..          back to the previous folder; above a mount, to the agent's folder there
    the rest    in the sandbox's own filesystem: refused, because the host cannot read it

So if a folder is replaced by a link during a walk, the walk may end somewhere else, but never
outside the mounts. Whatever the host has mounted inside a mount is a part of it.

Most paths have no links. Linux opens such a path in one call, ``openat2``, which fails at the first
link; only paths for which it fails are walked part by part.
"""

import ctypes
import errno
import os
import re
import stat
import sys
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

from ctxmgr.core.files.mount_roots import OPEN_WITHOUT_READING, MountRoots, Root, is_reachable
from ctxmgr.core.files.outcomes import (
    FOLDER,
    MissingFile,
    Refusal,
    RefusedFile,
    Unreachable,
    Unread,
)

LINKS_MAX: Final = 40
"""Links followed in one walk; Linux reports a loop after as many."""

DEPTH_MAX: Final = 256
"""Depth of a path. Each folder is open during the walk, and a process may have 1,024 open files."""

_NO_LINK: Final = OPEN_WITHOUT_READING | os.O_NOFOLLOW
_NOT_NORMALISED: Final = re.compile(rb"/\.{0,2}(?:/|\Z)")
"""An empty part, ``.`` or ``..``."""
_VOLUMES: Final = re.compile(r"/(?:(?:run/)?media(?:/[^/]+)?|mnt|Volumes)")
"""Folders in which systems create a mount point with a volume, and remove it with the volume."""
_NOT_THERE: Final = frozenset({errno.ENOENT, errno.ENOTDIR})
_MAYBE_A_LINK: Final = frozenset({errno.ENOTDIR, errno.ELOOP})

_OPENAT2: Final = 437
"""The number of the system call, on every architecture."""

_NO_MAGIC_LINKS, _NO_LINKS, _BENEATH = 0x02, 0x04, 0x08


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


_HOW: Final = _OpenHow(
    getattr(os, "O_PATH", 0) | os.O_CLOEXEC, 0, _NO_MAGIC_LINKS | _NO_LINKS | _BENEATH
)
_HOW_REFERENCE: Final = ctypes.byref(_HOW)
_HOW_BYTES: Final = ctypes.sizeof(_OpenHow)


class WalkError(Exception):
    """The walk did not reach a file; ``outcome`` says why."""

    def __init__(self, outcome: Unread) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome


class Reached(NamedTuple):
    """What a walk ended at, which is not a link. Open until the walk is closed."""

    folder: int | None
    """The folder that contains it; None if ``fd`` is enough."""
    name: bytes
    fd: int | None
    """None if the platform has no O_PATH; then it is opened by its name."""
    status: os.stat_result
    agent_path: bytes


class Walk:
    """A context manager that resolves an absolute agent path and closes what it opened."""

    __slots__ = ("_fd", "_path", "_roots", "_steps")

    def __init__(self, roots: MountRoots, path: bytes) -> None:
        self._roots = roots
        self._path = path
        self._steps: _Steps | None = None
        self._fd: int | None = None

    def __enter__(self) -> Reached:
        """Resolve the path; raise ``WalkError`` if it does not lead to a file."""
        reached = self._open_directly()
        if reached is not None:
            return reached
        self._steps = _Steps(self._roots, self._path)
        try:
            return self._steps.run()
        except WalkError:
            self._steps.close()
            raise

    def __exit__(self, *_: object) -> None:
        if self._fd is not None:
            os.close(self._fd)
        if self._steps is not None:
            self._steps.close()

    def _open_directly(self) -> Reached | None:
        if _NOT_NORMALISED.search(self._path):
            return None
        root, rest = self._roots.containing(self._path)
        if not isinstance(root, int) or not rest:
            return None
        self._fd = _open_without_links(root, rest)
        if self._fd is None:
            return None
        return Reached(None, rest, self._fd, os.fstat(self._fd), self._path)


@dataclass(frozen=True, slots=True)
class _Folder:
    fd: int | None
    """None for a folder of the sandbox's own filesystem that is above a mount."""
    root: int | None
    """The root of the mount that contains it."""


class _Steps:
    def __init__(self, roots: MountRoots, path: bytes) -> None:
        self._roots = roots
        self._pending = path.split(b"/")[::-1]
        """The parts still to walk, in reverse order."""
        self._names: list[bytes] = []
        root = roots.at(())
        if root is not None and not isinstance(root, int):
            raise WalkError(root)
        self._folders = [_Folder(root, root)]
        """One more than ``_names``: the first is the root of the agent's paths."""
        self._reached: int | None = None
        self._links = 0

    def run(self) -> Reached:
        while self._pending:
            name = self._pending.pop()
            if name == b"..":
                self._back()
            elif name not in {b"", b"."}:
                reached = self._step(name)
                if reached is not None:
                    return reached
        if self._folders[-1].fd is None:
            raise WalkError(self._outside())
        raise WalkError(RefusedFile(Refusal.NOT_A_FILE, FOLDER))

    def close(self) -> None:
        if self._reached is not None:
            os.close(self._reached)
        while self._names:
            self._back()

    def _back(self) -> None:
        if not self._names:
            return
        self._names.pop()
        left = self._folders.pop()
        if left.fd is not None and left.fd != left.root:
            os.close(left.fd)

    def _step(self, name: bytes) -> Reached | None:
        here, parts = self._folders[-1], (*self._names, name)
        mount = self._roots.at(parts)
        if mount is not None:
            return self._cross(name, mount)
        if here.fd is None:
            if not self._roots.is_above_a_mount(parts):
                raise WalkError(self._outside(name))
            self._enter(name, here)
        elif self._pending:
            self._descend(name, here, here.fd)
        else:
            return self._arrive(name, here.fd)
        return None

    def _cross(self, name: bytes, mount: Root) -> Reached | None:
        if not isinstance(mount, int):
            raise WalkError(mount)
        if self._pending:
            self._enter(name, _Folder(mount, mount))
            return None
        return Reached(None, name, mount, os.fstat(mount), self._agent_path(name))

    def _enter(self, name: bytes, folder: _Folder) -> None:
        if len(self._names) >= DEPTH_MAX:
            raise WalkError(RefusedFile(Refusal.NAME, f"more than {DEPTH_MAX} folders deep"))
        self._names.append(name)
        self._folders.append(folder)

    def _descend(self, name: bytes, here: _Folder, fd: int) -> None:
        try:
            entered = os.open(name, _NO_LINK | os.O_DIRECTORY, dir_fd=fd)
        except OSError as error:
            if error.errno not in _MAYBE_A_LINK:
                raise self._failed(error) from error
            self._follow(self._link_text(name, fd))
            return
        try:
            self._enter(name, _Folder(entered, here.root))
        except WalkError:
            os.close(entered)
            raise

    def _arrive(self, name: bytes, fd: int) -> Reached | None:
        try:
            if hasattr(os, "O_PATH"):
                self._reached = os.open(name, _NO_LINK, dir_fd=fd)
                status = os.fstat(self._reached)
            else:
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except OSError as error:
            raise self._failed(error) from error
        if not stat.S_ISLNK(status.st_mode):
            return Reached(fd, name, self._reached, status, self._agent_path(name))
        if self._reached is not None:
            reached, self._reached = self._reached, None
            os.close(reached)
        self._follow(self._link_text(name, fd))
        return None

    def _link_text(self, name: bytes, fd: int) -> bytes:
        try:
            return os.readlink(name, dir_fd=fd)
        except OSError as error:
            if error.errno == errno.EINVAL:
                raise WalkError(self._missing("a part of the path is not a folder")) from error
            raise self._failed(error) from error

    def _follow(self, text: bytes) -> None:
        self._links += 1
        if self._links > LINKS_MAX:
            raise WalkError(RefusedFile(Refusal.LOOP, f"more than {LINKS_MAX} links"))
        if text.startswith(b"/"):
            while self._names:
                self._back()
        self._pending.extend(text.split(b"/")[::-1])

    def _failed(self, error: OSError) -> WalkError:
        reason = error.strerror or str(error)
        if error.errno in _NOT_THERE:
            return WalkError(self._missing(reason))
        if error.errno == errno.ENAMETOOLONG:
            return WalkError(RefusedFile(Refusal.NAME, reason))
        if error.errno == errno.ELOOP:
            return WalkError(RefusedFile(Refusal.LOOP, reason))
        return WalkError(Unreachable(reason))

    def _missing(self, reason: str) -> MissingFile | Unreachable:
        """Return the outcome for a name that is not in the current folder."""
        here = self._folders[-1]
        assert here.root is not None, "files are opened only inside a mount"
        assert here.fd is not None, "files are opened only inside a mount"
        if not is_reachable(here.root):
            return Unreachable("the mount itself is missing")
        path = b"/" + b"/".join(self._names)
        folder = self._roots.mounts.location_of(path.decode("utf-8", "surrogateescape")).path
        if self._pending and _VOLUMES.fullmatch(folder) and not os.path.ismount(folder):
            return Unreachable("the volume is not mounted")
        return MissingFile(reason, os.fstat(here.fd).st_ctime_ns)

    def _outside(self, *names: bytes) -> RefusedFile:
        rest = [part for part in self._pending[::-1] if part]
        path = b"/" + b"/".join([*self._names, *names, *rest])
        text = path.decode("utf-8", "backslashreplace")
        return RefusedFile(Refusal.OUTSIDE, f"{text:.200} is in the sandbox's own filesystem")

    def _agent_path(self, name: bytes) -> bytes:
        return b"/" + b"/".join([*self._names, name])


def _open_without_links(folder: int, path: bytes) -> int | None:
    """Open a path in one call, without reading it; None if it has to be walked."""
    call = _syscall()
    if call is None:
        return None
    fd: int = call(_OPENAT2, folder, path, _HOW_REFERENCE, _HOW_BYTES)
    return None if fd < 0 else fd


@cache
def _syscall() -> "ctypes._NamedFuncPointer | None":
    # Before Linux 5.6 and under some system call filters the call fails, and all paths are walked.
    if sys.platform != "linux":
        return None
    call = ctypes.CDLL(None).syscall
    call.argtypes = (
        ctypes.c_long,
        ctypes.c_long,
        ctypes.c_char_p,
        ctypes.c_void_p,
        ctypes.c_size_t,
    )
    call.restype = ctypes.c_long
    return call
