"""Report changes of files by watching their folders. Starts threads and reads the mount table.

    /project            watched: the root of a mount
    ├── src             watched: contains the folder of a file
    │   └── core        watched: contains files
    │       ├── a.py    reported by its folder
    │       └── b.py    reported by its folder

One watch serves all files of a folder. The folders above are watched because they can be removed,
restored or replaced (a checkout, a clean build). Then everything below is watched again and
reported as changed, because events may have been missed.

Files that cannot be watched are polled. That includes network filesystems, where the kernel does
not report changes made by other machines. FUSE counts as one: it may be ``sshfs`` or a folder
shared with a virtual machine.
"""

import errno
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ctxmgr.core.tracking.folder_watches import FolderWatches, OnChange, OnOverflow
from ctxmgr.core.tracking.polling import PolledFiles

MOUNTINFO: Final = Path("/proc/self/mountinfo")

NETWORK_TYPES: Final = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4"}
    | {"ocfs2", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs"}
)

_FIELDS_MIN: Final = 3
"""Fields before the separator of a line: mount id, parent id, device."""

_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""Errors for a folder that does not exist; its parent reports when it is created."""

_EXHAUSTED: Final = {
    errno.ENOSPC: "fs.inotify.max_user_watches",
    errno.EMFILE: "fs.inotify.max_user_instances",
}

_log = logging.getLogger(__name__)


def is_network(folder: str, *, mountinfo: Path = MOUNTINFO) -> bool:
    """Return whether a folder is on a network filesystem; unknown ones count as local."""
    try:
        device = os.lstat(folder).st_dev
        table = mountinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    kind = filesystem_type(table, device=device)
    return kind is not None and (
        kind in NETWORK_TYPES or kind == "fuse" or kind.startswith("fuse.")
    )


def filesystem_type(table: str, *, device: int) -> str | None:
    """Return the type of the filesystem on a device, from a mount table."""
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in table.splitlines():
        mount, separator, filesystem = line.partition(" - ")
        fields = mount.split()
        if separator and len(fields) >= _FIELDS_MIN and fields[_FIELDS_MIN - 1] == number:
            return filesystem.split(maxsplit=1)[0]
    return None


def open_folder_watches(on_change: OnChange, on_overflow: OnOverflow) -> FolderWatches:
    """Open inotify on Linux, watchdog's observer elsewhere; ``OSError`` if none is left."""
    if sys.platform == "linux":  # each module can be imported on its system only
        from ctxmgr.core.tracking.inotify import InotifyFolders  # noqa: PLC0415

        return InotifyFolders(on_change, on_overflow)
    from ctxmgr.core.tracking.observer import ObservedFolders  # noqa: PLC0415

    return ObservedFolders(on_change)


@dataclass(slots=True)
class _Folder:
    files: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    is_root: bool = False
    polled: bool = False


class WatchedFiles:
    """The files that one client follows. Thread-safe."""

    def __init__(
        self,
        changed: Callable[[list[str]], None],
        *,
        poll_seconds: float,
        open_watches: Callable[[OnChange, OnOverflow], FolderWatches] = open_folder_watches,
        on_network: Callable[[str], bool] = is_network,
    ) -> None:
        """``changed`` is called with paths, from threads of this object, until it is closed."""
        self._changed = changed
        self._on_network = on_network
        self._lock = threading.RLock()
        self._folders: dict[str, _Folder] = {}
        self._notices: dict[str, None] = {}
        self._polled = PolledFiles(changed, seconds=poll_seconds)
        self._poll_seconds = poll_seconds
        self._watches: FolderWatches | None = None
        try:
            self._watches = open_watches(self._on_change, self._on_overflow)
        except OSError as error:
            self._notice(error)

    @property
    def notices(self) -> tuple[str, ...]:
        """Why some files are polled, for people to read; each reason once."""
        return tuple(self._notices)

    def add(self, path: str, *, root: str) -> None:
        """Follow a file below a root; both are canonical paths. Blocks."""
        folder, name = os.path.split(path)
        with self._lock:
            node = self._watch_up_to(folder, root if path != root else folder)
            node.files.add(name)
            if node.polled:
                self._polled.add(path)

    def remove(self, path: str) -> None:
        """Stop following a file, and stop watching folders that no other file needs. Blocks."""
        folder, name = os.path.split(path)
        with self._lock:
            node = self._folders.get(folder)
            if node is None:
                return
            node.files.discard(name)
            self._polled.remove(path)
            while node is not None and not node.files and not node.folders:
                del self._folders[folder]
                if self._watches is not None:
                    self._watches.remove(folder)
                if node.is_root:
                    break
                folder, name = os.path.split(folder)
                node = self._folders.get(folder)
                if node is not None:
                    node.folders.discard(name)

    def close(self) -> None:
        """Stop, and wait for all threads. Nothing is reported afterwards."""
        with self._lock:
            self._folders.clear()
        if self._watches is not None:
            self._watches.close()
        self._polled.close()

    def _watch_up_to(self, folder: str, root: str) -> _Folder:
        """Watch a folder and those above it, up to the root; return the node of the folder."""
        missing = []
        while folder not in self._folders:
            missing.append(folder)
            if folder in {root, "/"}:
                self._folders[folder] = _Folder(is_root=True)
                break
            folder = os.path.split(folder)[0]
        for path in reversed(missing):
            self._folders.setdefault(path, _Folder())
            above, name = os.path.split(path)
            if above in self._folders and not self._folders[path].is_root:
                self._folders[above].folders.add(name)
            self._watch(path)
        return self._folders[missing[0] if missing else folder]

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
            self._polled.add(_join(folder, name))

    def _on_change(self, folder: str, name: str | None) -> None:
        with self._lock:
            paths = self._affected(folder, name)
        if paths:
            self._changed(paths)

    def _affected(self, folder: str, name: str | None) -> list[str]:
        node = self._folders.get(folder)
        if node is None:
            return []
        if name is None:
            # HostFiles holds a root open, so a root that was moved is still the one to watch.
            return self._files_below(folder) if node.is_root else self._watch_again(folder)
        paths = [_join(folder, name)] if name in node.files else []
        if name in node.folders:
            paths += self._watch_again(_join(folder, name))
        return paths

    def _on_overflow(self) -> None:
        with self._lock:
            roots = [folder for folder, node in self._folders.items() if node.is_root]
            paths = [path for root in roots for path in self._watch_again(root)]
        _log.warning("file events were lost; all %d files are checked", len(paths))
        self._changed(paths)

    def _watch_again(self, top: str) -> list[str]:
        for folder in list(self._below(top)):
            if self._watches is not None:
                self._watches.remove(folder)
            self._watch(folder)
        return self._files_below(top)

    def _files_below(self, top: str) -> list[str]:
        return [
            _join(folder, name)
            for folder in self._below(top)
            for name in self._folders[folder].files
        ]

    def _below(self, folder: str) -> Iterator[str]:
        yield folder
        for name in self._folders[folder].folders:
            yield from self._below(_join(folder, name))

    def _notice(self, error: OSError) -> None:
        limit = _EXHAUSTED.get(error.errno or 0)
        reason = f"{error.strerror}; raise {limit} with sysctl" if limit else str(error)
        notice = f"files are polled every {self._poll_seconds:g} s instead of watched: {reason}"
        if notice not in self._notices:
            self._notices[notice] = None
            _log.warning(notice)


def _join(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}"
