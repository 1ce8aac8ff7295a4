"""Walking to a file as the sandbox's kernel would, by file descriptor. Opens folders, reads links.

The client stands outside the sandbox, so it may not let its own kernel follow a link: ``/etc`` is
another folder there. Every part of a path is opened by itself, below the folder before it, and no
link is ever followed by the call that opens:

    name        opened below the folder where the walk stands
    a mount     the walk goes on in the folder that ``mount_roots`` holds open
    a link      its text is read; if absolute it is an agent path, and the walk starts again
    ..          back to where the walk came from; above a mount, to what the agent has there
    the rest    the sandbox's own filesystem: refused, for the host has nothing to say about it

So whoever swaps a folder for a link between two steps changes where a walk ends, and never leaves
the mounts. What the host itself has mounted inside a mount is a part of it. A path without links
is opened in one call, in which the kernel makes sure that there are none.
"""

import errno
import os
import re
import stat
from dataclasses import dataclass
from typing import Final, NamedTuple

from ctxmgr.core.file_outcomes import Gone, Refusal, Refused, Unreachable, Unread
from ctxmgr.core.mount_roots import OPEN_WITHOUT_READING, MountRoots, Root, is_reachable
from ctxmgr.core.openat2 import open_straight

LINKS_MAX: Final = 40
"""Links on one walk: what Linux follows before it calls a path a loop."""

DEPTH_MAX: Final = 256
"""Folders below each other: each is open while the walk lasts, and a process has 1,024 files."""

_NO_LINK: Final = OPEN_WITHOUT_READING | os.O_NOFOLLOW
_TAKES_STEPS: Final = re.compile(rb"/\.{0,2}(?:/|\Z)")
"""An empty part, ``.`` or ``..``: then the path is not yet what it leads to."""
_NOT_THERE: Final = frozenset({errno.ENOENT, errno.ENOTDIR})
_MAYBE_A_LINK: Final = frozenset({errno.ENOTDIR, errno.ELOOP})


class WalkError(Exception):
    """The walk did not reach a file; ``outcome`` says why."""

    def __init__(self, outcome: Unread) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome


class Reached(NamedTuple):
    """The end of a walk: something that is no link. Open until the walk is left."""

    folder: int | None
    """Where its name is; None: it needs none, for it is open."""
    name: bytes
    fd: int | None
    """None: the platform cannot open without reading, and it is opened by its name."""
    status: os.stat_result
    agent_path: bytes


class Walk:
    """A walk to an agent's absolute path. What it opened is open until it is left."""

    __slots__ = ("_fd", "_path", "_roots", "_steps")

    def __init__(self, roots: MountRoots, path: bytes) -> None:
        self._roots = roots
        self._path = path
        self._steps: _Steps | None = None
        self._fd: int | None = None

    def __enter__(self) -> Reached:
        """Go; ``WalkError`` where that does not end at a name."""
        straight = self._straight()
        if straight is not None:
            return straight
        self._steps = _Steps(self._roots, self._path)
        try:
            return self._steps.to_the_end()
        except WalkError:
            self._steps.close()
            raise

    def __exit__(self, *_: object) -> None:
        if self._fd is not None:
            os.close(self._fd)
        if self._steps is not None:
            self._steps.close()

    def _straight(self) -> Reached | None:
        if _TAKES_STEPS.search(self._path):
            return None
        root, rest = self._roots.below(self._path)
        if not isinstance(root, int) or not rest:
            return None
        self._fd = open_straight(root, rest)
        if self._fd is None:
            return None
        return Reached(None, rest, self._fd, os.fstat(self._fd), self._path)


def failed(error: OSError, *, root: int) -> Unread:
    """Say what an error at a path means for the file there."""
    reason = error.strerror or str(error)
    if error.errno in _NOT_THERE:
        return Gone(reason) if is_reachable(root) else Unreachable("the mount itself is gone")
    if error.errno == errno.ENAMETOOLONG:
        return Refused(Refusal.NAME, reason)
    if error.errno == errno.ELOOP:
        return Refused(Refusal.LOOP, reason)
    return Unreachable(reason)


@dataclass(frozen=True, slots=True)
class _Folder:
    fd: int | None
    """None: in the sandbox's own filesystem, on the way to a mount."""
    root: int | None
    """Of the mount that it is in."""


class _Steps:
    def __init__(self, roots: MountRoots, path: bytes) -> None:
        self._roots = roots
        self._pending = path.split(b"/")[::-1]
        """The next part is the last."""
        self._names: list[bytes] = []
        self._folders = [_start(roots.at(()))]
        """One more than names: the first is where an absolute path starts."""
        self._reached: int | None = None
        self._links = 0

    def to_the_end(self) -> Reached:
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
        raise WalkError(Refused(Refusal.NOT_A_FILE, "a folder"))

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
            raise WalkError(Refused(Refusal.NAME, f"more than {DEPTH_MAX} folders deep"))
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
                raise WalkError(Gone("a part of the path is no folder")) from error
            raise self._failed(error) from error

    def _follow(self, text: bytes) -> None:
        self._links += 1
        if self._links > LINKS_MAX:
            raise WalkError(Refused(Refusal.LOOP, f"more than {LINKS_MAX} links"))
        if text.startswith(b"/"):
            while self._names:
                self._back()
        self._pending.extend(text.split(b"/")[::-1])

    def _failed(self, error: OSError) -> WalkError:
        root = self._folders[-1].root
        assert root is not None, "only inside a mount is anything opened"
        return WalkError(failed(error, root=root))

    def _outside(self, *names: bytes) -> Refused:
        rest = [part for part in self._pending[::-1] if part]
        path = b"/" + b"/".join([*self._names, *names, *rest])
        shown = path.decode("utf-8", "backslashreplace")
        return Refused(Refusal.OUTSIDE, f"{shown:.200} is in the sandbox's own filesystem")

    def _agent_path(self, name: bytes) -> bytes:
        return b"/" + b"/".join([*self._names, name])


def _start(root: Root | None) -> _Folder:
    if root is not None and not isinstance(root, int):
        raise WalkError(root)
    return _Folder(root, root)
