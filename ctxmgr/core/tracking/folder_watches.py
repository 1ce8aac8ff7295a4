"""FolderWatches: the interface for watching folders. Contract.

    on_change(folder, name)   the entry of that name has changed
    on_change(folder, None)   the folder itself was moved or removed, and its watch is invalid
    on_overflow()             the kernel's event queue overflowed: anything may have changed

On Linux one thread and one inotify instance serve all folders, through watchdog's inotify layer.
watchdog's observers would start a thread per folder, delay moves by half a second and not report an
overflow, so they are used only on other systems.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias

OnChange: TypeAlias = Callable[[str, str | None], None]
OnOverflow: TypeAlias = Callable[[], None]


class FolderWatches(Protocol):
    """Watches the entries of folders. Calls back from its own thread."""

    def add(self, folder: str) -> None:
        """Watch a folder, again if it was removed; raise ``OSError`` if that fails."""
        ...

    def remove(self, folder: str) -> None:
        """Stop watching a folder, if it is watched."""
        ...

    def close(self) -> None:
        """Stop watching, and wait for the thread to end."""
        ...
