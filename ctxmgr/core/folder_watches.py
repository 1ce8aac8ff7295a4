"""FolderWatches: what a way of watching folders must do for us. Contract.

    happened(folder, name)   something was done to the entry of that name
    happened(folder, None)   the folder itself was moved or is gone, and its watch is worth nothing
    lost()                   the kernel's queue ran over: anything may have happened

On Linux one thread and one inotify instance serve all folders. watchdog's observers would start a
thread for each, keep back moves for half a second, and not tell of a queue that ran over; so its
inotify layer is used below them, and its observer on other systems.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias

Happened: TypeAlias = Callable[[str, str | None], None]
Lost: TypeAlias = Callable[[], None]


class FolderWatches(Protocol):
    """Folders whose entries are watched. Callbacks come from its own thread."""

    def add(self, folder: str) -> None:
        """Watch a folder; ``OSError`` where that cannot be. Again, once it was removed."""
        ...

    def remove(self, folder: str) -> None:
        """Stop watching, if it was watched."""
        ...

    def close(self) -> None:
        """Stop all, and wait for the thread to end."""
        ...
