"""Folders watched by one inotify instance. Linux only; one thread, by watchdog's inotify layer.

Each folder has a callback of its own, so that two paths of one folder (it was moved, and both are
watched for a moment) are told apart although the kernel has one watch for both.
"""

import errno
import os
from functools import reduce
from operator import or_
from typing import Final

from watchdog.observers.inotify_c import (
    CallbackId,
    InotifyConstants,
    InotifyEvent,
    InotifyFD,
    Mask,
    WatchDescriptor,
)

from ctxmgr.core.folder_watches import Happened, Lost

_MASK: Final = Mask(
    reduce(
        or_,
        (
            InotifyConstants.IN_MODIFY,
            InotifyConstants.IN_CLOSE_WRITE,
            InotifyConstants.IN_ATTRIB,  # permissions taken and given back
            InotifyConstants.IN_MOVE,
            InotifyConstants.IN_CREATE,
            InotifyConstants.IN_DELETE,
            InotifyConstants.IN_DELETE_SELF,
            InotifyConstants.IN_MOVE_SELF,
            InotifyConstants.IN_ONLYDIR,
            InotifyConstants.IN_DONT_FOLLOW,
            InotifyConstants.IN_EXCL_UNLINK,
        ),
    )
)


class InotifyFolders:
    """All folders that one client watches."""

    def __init__(self, happened: Happened, lost: Lost) -> None:
        """``OSError`` (EMFILE) when the user has no inotify instance left."""
        self._happened = happened
        self._lost = lost
        self._watches: dict[str, tuple[WatchDescriptor, _Folder]] = {}
        self._inotify = InotifyFD()
        self._inotify.start()

    def add(self, folder: str) -> None:
        if folder in self._watches:
            return
        told = _Folder(folder, self._happened, self._lost)
        wd = self._inotify.add_callback(os.fsencode(folder), _MASK, told, told.number)
        if wd == -1:  # how this layer says that the folder must not be read
            self._inotify.remove_callbacks([(wd, told.number)])
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), folder)
        self._watches[folder] = (wd, told)

    def remove(self, folder: str) -> None:
        watch = self._watches.pop(folder, None)
        if watch is None:
            return
        wd, told = watch
        if not told.is_dead:
            told.is_dead = True
            self._inotify.remove_callbacks([(wd, told.number)])

    def close(self) -> None:
        for _, told in self._watches.values():
            told.is_dead = True
        self._inotify.stop()
        self._inotify.join()


class _Folder:
    """What watchdog's inotify layer tells about one folder."""

    def __init__(self, folder: str, happened: Happened, lost: Lost) -> None:
        self._folder = folder
        self._happened = happened
        self._lost = lost
        self.number: Final = CallbackId(id(self))
        self.is_dead = False

    def on_event(self, event: InotifyEvent) -> None:
        if self.is_dead:
            return
        if event.name:
            self._happened(self._folder, os.fsdecode(event.name))
        elif event.is_move_self:
            self._happened(self._folder, None)

    def on_watch_deleted(self, wd: WatchDescriptor) -> None:  # noqa: ARG002 (there is one)
        if not self.is_dead:
            self.is_dead = True
            self._happened(self._folder, None)

    def on_queue_overflow(self) -> None:
        if not self.is_dead:
            self._lost()
