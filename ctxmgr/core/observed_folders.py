"""Folders watched by watchdog's observer, where there is no inotify. Starts threads.

Such an observer does not tell when it lost events.
"""

import contextlib
import os
from typing import TYPE_CHECKING, Final

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

from ctxmgr.core.folder_watches import Happened

if TYPE_CHECKING:
    from watchdog.observers.api import ObservedWatch

_GONE: Final = frozenset({"deleted", "moved"})


class ObservedFolders:
    """Folders watched by watchdog's observer for this system."""

    def __init__(self, happened: Happened) -> None:
        self._happened = happened
        self._watches: dict[str, ObservedWatch] = {}
        self._observer = Observer()
        self._observer.start()

    def add(self, folder: str) -> None:
        if folder not in self._watches:
            handler = _Handler(folder, self._happened)
            self._watches[folder] = self._observer.schedule(handler, folder)

    def remove(self, folder: str) -> None:
        watch = self._watches.pop(folder, None)
        if watch is not None:
            with contextlib.suppress(KeyError):  # the folder was deleted, and its watch with it
                self._observer.unschedule(watch)

    def close(self) -> None:
        self._observer.stop()
        self._observer.join()


class _Handler(FileSystemEventHandler):
    def __init__(self, folder: str, happened: Happened) -> None:
        self._folder = folder
        self._happened = happened

    def on_any_event(self, event: FileSystemEvent) -> None:
        for path in filter(None, map(os.fsdecode, (event.src_path, event.dest_path))):
            parent, name = os.path.split(path)
            if parent == self._folder:
                self._happened(self._folder, name)
            elif path == self._folder and event.event_type in _GONE:
                self._happened(self._folder, None)
