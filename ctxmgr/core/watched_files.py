"""Files whose every change is told, by watching their folders. Starts threads.

    /project            watched: the root, as far up as anybody is interested
    ├── src             watched: it holds the folder of a file
    │   └── core        watched: it holds files
    │       ├── a.py    told by its folder
    │       └── b.py    told by its folder

One watch serves all files of a folder. The folders above are watched for folders that go, come back
or are exchanged (a checkout, a clean build): then everything below is watched anew and told as
changed, for nobody knows what was missed. What cannot be watched is polled.
"""

import errno
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from ctxmgr.core.folder_watches import FolderWatches, Happened, Lost
from ctxmgr.core.network_filesystems import is_network
from ctxmgr.core.polled_files import PolledFiles

_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""The folder above will tell when it is there."""

_EXHAUSTED: Final = {
    errno.ENOSPC: "fs.inotify.max_user_watches",
    errno.EMFILE: "fs.inotify.max_user_instances",
}

_log = logging.getLogger(__name__)


def open_folder_watches(happened: Happened, lost: Lost) -> FolderWatches:
    """Open the best there is here; ``OSError`` when the system has no more of it."""
    if sys.platform == "linux":  # each is there only where its system is
        from ctxmgr.core.inotify_folders import InotifyFolders  # noqa: PLC0415

        return InotifyFolders(happened, lost)
    from ctxmgr.core.observed_folders import ObservedFolders  # noqa: PLC0415

    return ObservedFolders(happened)


@dataclass(slots=True)
class _Folder:
    files: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    is_root: bool = False
    polled: bool = False


class WatchedFiles:
    """The files that one client follows. Safe for threads."""

    def __init__(
        self,
        changed: Callable[[list[str]], None],
        *,
        poll_seconds: float,
        open_watches: Callable[[Happened, Lost], FolderWatches] = open_folder_watches,
        on_network: Callable[[str], bool] = is_network,
    ) -> None:
        """``changed`` is called from threads of this object, until it is closed."""
        self._changed = changed
        self._on_network = on_network
        self._lock = threading.RLock()
        self._folders: dict[str, _Folder] = {}
        self._notices: dict[str, None] = {}
        self._polled = PolledFiles(changed, seconds=poll_seconds)
        self._poll_seconds = poll_seconds
        self._watches: FolderWatches | None = None
        try:
            self._watches = open_watches(self._happened, self._lost)
        except OSError as error:
            self._notice(error)

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know: limits that were met, each once."""
        return tuple(self._notices)

    def add(self, path: str, *, root: str) -> None:
        """Follow a file below a root; both are canonical. Blocks."""
        folder, name = os.path.split(path)
        with self._lock:
            node = self._grown(folder, root if path != root else folder)
            node.files.add(name)
            if node.polled:
                self._polled.add(path)

    def remove(self, path: str) -> None:
        """Follow a file no longer, nor folders that held nothing else."""
        folder, name = os.path.split(path)
        with self._lock:
            self._polled.remove(path)
            node = self._folders.get(folder)
            if node is not None:
                node.files.discard(name)
                self._prune(folder, node)

    def close(self) -> None:
        """Stop, and wait for all threads. Nothing is told afterwards."""
        with self._lock:
            self._folders.clear()
        if self._watches is not None:
            self._watches.close()
        self._polled.close()

    def _grown(self, folder: str, root: str) -> _Folder:
        missing = []
        while folder not in self._folders:
            missing.append(folder)
            if folder in {root, "/"}:
                self._folders[folder] = _Folder(is_root=True)
                break
            folder = os.path.split(folder)[0]
        for each in reversed(missing):
            self._folders.setdefault(each, _Folder())
            above, name = os.path.split(each)
            if above in self._folders and not self._folders[each].is_root:
                self._folders[above].folders.add(name)
            self._watch(each)
        return self._folders[missing[0] if missing else folder]

    def _prune(self, folder: str, node: _Folder) -> None:
        while not node.files and not node.folders:
            del self._folders[folder]
            if self._watches is not None:
                self._watches.remove(folder)
            folder, name = os.path.split(folder)
            above = self._folders.get(folder)
            if node.is_root or above is None:
                return
            above.folders.discard(name)
            node = above

    def _watch(self, folder: str) -> None:
        if self._watches is None or self._on_network(folder):
            self._poll(folder)
            return
        try:
            self._watches.add(folder)
        except OSError as error:
            if error.errno not in _ABSENT:
                self._notice(error)
                self._poll(folder)

    def _poll(self, folder: str) -> None:
        node = self._folders[folder]
        node.polled = True
        for name in node.files:
            self._polled.add(_joined(folder, name))

    def _happened(self, folder: str, name: str | None) -> None:
        with self._lock:
            told = list(self._concerned(folder, name))
        if told:
            self._changed(told)

    def _concerned(self, folder: str, name: str | None) -> Iterable[str]:
        node = self._folders.get(folder)
        if node is None:
            return []
        if name is None:
            # Whoever reads a root holds it open: one that was moved stays the one to watch.
            return self._files_below(folder) if node.is_root else self._renew(folder)
        told = [_joined(folder, name)] if name in node.files else []
        if name in node.folders:
            told += self._renew(_joined(folder, name))
        return told

    def _lost(self) -> None:
        with self._lock:
            roots = [folder for folder, node in self._folders.items() if node.is_root]
            told = [path for root in roots for path in self._renew(root)]
        _log.warning("events of files were lost; all %d are looked at", len(told))
        self._changed(told)

    def _renew(self, top: str) -> list[str]:
        for folder in list(self._below(top)):
            if self._watches is not None:
                self._watches.remove(folder)
            self._watch(folder)
        return self._files_below(top)

    def _files_below(self, top: str) -> list[str]:
        return [
            _joined(folder, name)
            for folder in self._below(top)
            for name in self._folders[folder].files
        ]

    def _below(self, folder: str) -> Iterator[str]:
        yield folder
        for name in self._folders[folder].folders:
            yield from self._below(_joined(folder, name))

    def _notice(self, error: OSError) -> None:
        limit = _EXHAUSTED.get(error.errno or 0)
        reason = f"{error.strerror}; raise {limit} with sysctl" if limit else str(error)
        notice = f"files are polled every {self._poll_seconds:g} s instead of watched: {reason}"
        if notice not in self._notices:
            self._notices[notice] = None
            _log.warning(notice)


def _joined(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}"
