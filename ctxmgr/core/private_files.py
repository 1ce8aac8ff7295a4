"""Create files and folders that only their owner can use, whatever the umask is. Touches the disk.

What agents saw is private. Files and folders that exist already keep their permissions: a person
may share them. Importing this module is cheap: hooks do.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

_FOLDER_MODE = 0o700
_FILE_MODE = 0o600


def make_private_folder(folder: str | Path) -> None:
    """Create a folder and those above it that are missing; ``Path.mkdir`` makes those public."""
    if os.path.isdir(folder):
        return
    above = os.path.dirname(folder)
    if above:
        make_private_folder(above)
    try:
        os.mkdir(folder, _FOLDER_MODE)
    except FileExistsError:
        if not os.path.isdir(folder):
            raise


def make_private_file(path: str | Path) -> None:
    """Create an empty file, unless there is one."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        os.close(os.open(path, flags, _FILE_MODE))
    except FileExistsError:
        return


def private_opener(path: str, flags: int) -> int:
    """Open a file as the ``opener`` of ``open``, which then creates private files."""
    return os.open(path, flags, _FILE_MODE)
