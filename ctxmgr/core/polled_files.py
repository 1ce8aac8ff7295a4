"""Files that cannot be watched and are looked at again and again. Starts a thread when needed.

For network filesystems, whose other users no kernel tells of, and for when the system has no
watches left. Two looks that are the same prove nothing about the time between; a file that changes
twice between them is noticed once.
"""

import os
import threading
from collections.abc import Callable
from typing import TypeAlias

_Look: TypeAlias = tuple[int, int, int, int] | None


class PolledFiles:
    """Paths that are looked at every so often."""

    def __init__(self, changed: Callable[[list[str]], None], *, seconds: float) -> None:
        self._changed = changed
        self._seconds = seconds
        self._looks: dict[str, _Look] = {}
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def count(self) -> int:
        return len(self._looks)

    def add(self, path: str) -> None:
        """Look at a path from now on."""
        if path in self._looks:
            return
        self._looks[path] = _look(path)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="ctxmgr-polling", daemon=True)
            self._thread.start()

    def remove(self, path: str) -> None:
        self._looks.pop(path, None)

    def close(self) -> None:
        """Stop, and wait for the thread to end."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._seconds):
            changed = [path for path in list(self._looks) if self._has_changed(path)]
            if changed:
                self._changed(changed)

    def _has_changed(self, path: str) -> bool:
        look = _look(path)
        if path not in self._looks or self._looks[path] == look:
            return False
        self._looks[path] = look
        return True


def _look(path: str) -> _Look:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino
