"""Watch folders with watchdog's observer, on systems without inotify. Starts threads.

The observer does not report lost events.
"""

import contextlib
import os
from typing import TYPE_CHECKING, Final

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

from ctxmgr.core.tracking.folder_watches import OnChange

if TYPE_CHECKING:
    from watchdog.observers.api import ObservedWatch


_GONE: Final = frozenset({"deleted", "moved"})


class ObservedFolders:
    """Folders watched by watchdog's observer for this system."""

    def __init__(self, on_change: OnChange) -> None:
        self._on_change = on_change
        self._watches: dict[str, ObservedWatch] = {}
        self._observer = Observer()
        self._observer.start()

    def add(self, folder: str) -> None:
        if folder not in self._watches:
            handler = _Handler(folder, self._on_change)
            self._watches[folder] = self._observer.schedule(handler, folder)

    def remove(self, folder: str) -> None:
        watch = self._watches.pop(folder, None)
        if watch is not None:
            with contextlib.suppress(KeyError):  # the watch of a deleted folder is gone already
                self._observer.unschedule(watch)

    def close(self) -> None:
        self._observer.stop()
        self._observer.join()


class _Handler(FileSystemEventHandler):
    def __init__(self, folder: str, on_change: OnChange) -> None:
        self._folder = folder
        self._on_change = on_change

    def on_any_event(self, event: FileSystemEvent) -> None:
        for path in filter(None, map(os.fsdecode, (event.src_path, event.dest_path))):
            parent, name = os.path.split(path)
            if parent == self._folder:
                self._on_change(self._folder, name)
            elif path == self._folder and event.event_type in _GONE:
                self._on_change(self._folder, None)
