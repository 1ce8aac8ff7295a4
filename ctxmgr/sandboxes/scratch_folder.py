"""The folder of the host that is a bubblewrap sandbox's ``/tmp``. Creates it and removes it.

The agent decides what is in it: folders that nobody may enter, or a path that is longer than any
system call takes. So it is removed by descriptor, and a folder inside a folder is moved to the top
before it is emptied: however deep the agent nested them, no path is longer than one name.
"""

import logging
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_log = logging.getLogger(__name__)


class ScratchFolder:
    """A temporary folder, open until it is removed."""

    def __init__(self) -> None:
        self.path: Final = Path(tempfile.mkdtemp(prefix="ctxmgr-sandbox-")).resolve()
        (self.path / "tmp").mkdir(mode=0o700)
        self._top = os.open(self.path, _FOLDER)
        self.fd: Final = os.open("tmp", _FOLDER, dir_fd=self._top)
        """The sandbox's ``/tmp``."""
        self._removed = False

    def remove(self) -> None:
        """Remove it with all that is in it; what cannot be removed is logged. Blocks."""
        if self._removed:
            return
        self._removed = True
        os.close(self.fd)
        try:
            empty_folder(self._top)
            self.path.rmdir()
        except OSError as error:
            _log.warning("%s: the sandbox's folder was not removed: %s", self.path, error.strerror)
        finally:
            os.close(self._top)


def empty_folder(top: int) -> None:
    """Remove everything in an open folder. Blocks."""
    moved = 0
    while names := [entry for entry in os.listdir(top) if not _unlink(top, entry)]:
        for name in names:
            folder = _open(top, name)
            try:
                for inner in os.listdir(folder):  # noqa: PTH208 (a descriptor has no path)
                    if not _unlink(folder, inner):
                        # Moving a folder needs the right to write to it.
                        os.close(_open(folder, inner))
                        moved = _move_up(folder, inner, top, moved)
            finally:
                os.close(folder)
            os.rmdir(name, dir_fd=top)


def _unlink(folder: int, name: str) -> bool:
    """Remove a name unless it is a folder; return whether it was removed."""
    if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        return False
    os.unlink(name, dir_fd=folder)
    return True


def _open(folder: int, name: str) -> int:
    """Open a folder, with the permissions that are needed to empty it."""
    with suppress(PermissionError):
        fd = os.open(name, _FOLDER, dir_fd=folder)
        os.fchmod(fd, 0o700)
        return fd
    # It may not be read: it is changed by its name, which was no link.
    os.chmod(name, 0o700, dir_fd=folder)
    return os.open(name, _FOLDER, dir_fd=folder)


def _move_up(folder: int, name: str, top: int, number: int) -> int:
    """Move a folder to the top under a name that is not taken; return the next number."""
    while True:
        number += 1
        with suppress(FileNotFoundError):
            os.stat(f"moved-{number}", dir_fd=top, follow_symlinks=False)
            continue
        os.rename(name, f"moved-{number}", src_dir_fd=folder, dst_dir_fd=top)
        return number
