"""Watch folders with inotify. Linux only; starts one thread, through watchdog's inotify layer.

Each path has its own callback. A folder that was just moved can be watched under two paths for a
moment; the kernel has one watch for both, and the callbacks distinguish them.
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

from ctxmgr.core.tracking.folder_watches import OnChange, OnOverflow

_MASK: Final = Mask(
    reduce(
        or_,
        (
            InotifyConstants.IN_MODIFY,
            InotifyConstants.IN_CLOSE_WRITE,
            InotifyConstants.IN_ATTRIB,  # permissions were removed or restored
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

    def __init__(self, on_change: OnChange, on_overflow: OnOverflow) -> None:
        """Raise ``OSError`` (EMFILE) if the user has no inotify instance left."""
        self._on_change = on_change
        self._on_overflow = on_overflow
        self._watches: dict[str, tuple[WatchDescriptor, _Folder]] = {}
        self._inotify = InotifyFD()
        self._inotify.start()

    def add(self, folder: str) -> None:
        if folder in self._watches:
            return
        callback = _Folder(folder, self._on_change, self._on_overflow)
        wd = self._inotify.add_callback(os.fsencode(folder), _MASK, callback, callback.callback_id)
        if wd == -1:  # watchdog's inotify layer reports EACCES this way
            self._inotify.remove_callbacks([(wd, callback.callback_id)])
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), folder)
        self._watches[folder] = (wd, callback)

    def remove(self, folder: str) -> None:
        watch = self._watches.pop(folder, None)
        if watch is None:
            return
        wd, callback = watch
        if not callback.is_closed:
            callback.is_closed = True
            self._inotify.remove_callbacks([(wd, callback.callback_id)])

    def close(self) -> None:
        for _, callback in self._watches.values():
            callback.is_closed = True
        self._inotify.stop()
        self._inotify.join()


class _Folder:
    """Receives the events of one folder from watchdog's inotify layer."""

    def __init__(self, folder: str, on_change: OnChange, on_overflow: OnOverflow) -> None:
        self._folder = folder
        self._on_change = on_change
        self._on_overflow = on_overflow
        self.callback_id: Final = CallbackId(id(self))
        self.is_closed = False

    def on_event(self, event: InotifyEvent) -> None:
        if self.is_closed:
            return
        if event.name:
            self._on_change(self._folder, os.fsdecode(event.name))
        elif event.is_move_self:
            self._on_change(self._folder, None)

    def on_watch_deleted(self, wd: WatchDescriptor) -> None:  # noqa: ARG002 (one per callback)
        if not self.is_closed:
            self.is_closed = True
            self._on_change(self._folder, None)

    def on_queue_overflow(self) -> None:
        if not self.is_closed:
            self._on_overflow()
