"""Poll files that cannot be watched. Starts a thread when needed.

Used for network filesystems, where the kernel does not report the changes of other machines, and if
the system has no watches left. A file that changes twice between two polls is reported once.
"""

import os
import threading
from collections.abc import Callable
from typing import TypeAlias

_Status: TypeAlias = tuple[int, int, int, int] | None


class PolledFiles:
    """Checks paths at a fixed interval."""

    def __init__(self, changed: Callable[[list[str]], None], *, seconds: float) -> None:
        self._changed = changed
        self._seconds = seconds
        self._statuses: dict[str, _Status] = {}
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, path: str) -> None:
        """Poll a path from now on."""
        if path in self._statuses:
            return
        self._statuses[path] = _status(path)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="ctxmgr-polling", daemon=True)
            self._thread.start()

    def remove(self, path: str) -> None:
        """Stop polling a path, if it is polled."""
        self._statuses.pop(path, None)

    def close(self) -> None:
        """Stop, and wait for the thread to end."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._seconds):
            changed = [path for path in list(self._statuses) if self._has_changed(path)]
            if changed:
                self._changed(changed)

    def _has_changed(self, path: str) -> bool:
        status = _status(path)
        if self._statuses.get(path, status) == status:  # the path may have been removed since
            return False
        self._statuses[path] = status
        return True


def _status(path: str) -> _Status:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino
