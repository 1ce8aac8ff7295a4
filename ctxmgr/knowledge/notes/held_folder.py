"""Files below one folder, reached without following links. Reads and writes files.

A path may come from a model or from a foreign repository. Each part of it is opened by name
relative to the folder before, and a link anywhere in it is refused, so that a folder which is
replaced by a link in between leads nowhere else.

Replacing a file loses nothing: the new file and the old one change places in one step, and what
came out is compared with what the writer had seen. If it is something else, an editor saved in
between; then they change back, and the writer gets ``Conflict``. For that instant other programs
can see the writer's text. Moving a file is one step, too, and one that is removed gets another name
first, and is compared then.
"""

import ctypes
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ctxmgr.errors import Conflict, Denied, Incorrect, InvalidNote, NotFound, Unavailable

PATH_CHARS_MAX: Final = 400
NAME_BYTES_MAX: Final = 200
"""Below the 255 that file systems allow, with room for the temporary name."""

FILES_MAX: Final = 50_000
"""Files of one folder; more is a mistake, such as a home folder."""

LOCK_WAIT_SECONDS: Final = 30.0
LOCK_PAUSE_SECONDS: Final = 0.01

NOT_UTF8: Final = "not UTF-8 text: convert it, such as with `iconv -f latin1 -t utf-8`"

TEMPORARY: Final = ".ctxmgr.tmp"
"""The end of the name of a file that is being written. Git ignores ``*.tmp``."""

_NO_REPLACE: Final = 1
"""RENAME_NOREPLACE of renameat2(2)."""
_EXCHANGE: Final = 2
"""RENAME_EXCHANGE of renameat2(2)."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class NoteFileState:
    """What tells whether a file is the one that was read."""

    size: int
    mtime_ns: int
    inode: int


def check_path(path: str) -> tuple[str, ...]:
    """Return the parts of a path below the root; ``Incorrect`` if it could be anything else."""
    parts = tuple(path.split("/"))
    if not path or len(path) > PATH_CHARS_MAX or not path.isprintable() or "\\" in path:
        raise Incorrect(
            f"{path!r:.80} is not a path of a note; write it as knowledge/people/ada.md"
        )
    if any(part in {"", ".", ".."} for part in parts):
        raise Incorrect(f"{path!r:.80} leaves the folder or is absolute; give a path below it")
    if any(part.startswith(".") for part in parts):
        raise Incorrect(f"{path!r:.80} is hidden; notes are not")
    if any(len(part.encode()) > NAME_BYTES_MAX for part in parts):
        raise Incorrect(f"{path!r:.80} has a name of more than {NAME_BYTES_MAX} bytes")
    return parts


class HeldFolder:
    """The files below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from writing; ``Unavailable`` if one does for too long.

        The lock is on the folder itself and ends with the process.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise _translated(error, str(self.root)) from error
        try:
            deadline = time.monotonic() + LOCK_WAIT_SECONDS
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise Unavailable(
                            f"{self.root}: another process has been writing for"
                            f" {LOCK_WAIT_SECONDS:.0f} s; nothing was written, retry later"
                        ) from None
                    time.sleep(LOCK_PAUSE_SECONDS)
            yield
        finally:
            os.close(descriptor)

    def read(self, path: str, *, bytes_max: int) -> str:
        """Read a text file; ``NotFound`` if there is none, ``InvalidNote`` if it is not UTF-8."""
        with self._parent(path) as (folder, name):
            return _read(folder, name, path=path, bytes_max=bytes_max)

    def read_bytes(self, path: str, *, bytes_max: int) -> bytes:
        """Read a file of any type."""
        with self._parent(path) as (folder, name):
            return _read_bytes(folder, name, path=path, bytes_max=bytes_max)

    def state(self, path: str) -> NoteFileState:
        with self._parent(path) as (folder, name):
            try:
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except OSError as error:
                raise _translated(error, path) from error
        if not stat.S_ISREG(found.st_mode):
            raise Denied(f"{path} is not a regular file")
        return NoteFileState(found.st_size, found.st_mtime_ns, found.st_ino)

    def create(self, path: str, text: str) -> None:
        """Write a new file; ``Conflict`` if there is one. Call it under the lock."""
        with self._parent(path, create=True) as (folder, name):
            temporary = self._written(folder, name, text, mode=None)
            try:
                os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except FileExistsError:
                raise Conflict((path,)) from None
            except OSError as error:
                raise _translated(error, path) from error
            finally:
                os.unlink(temporary, dir_fd=folder)
            os.fsync(folder)

    def replace(self, path: str, text: str, *, replacing: str, bytes_max: int) -> None:
        """Replace a file whose text is still ``replacing``, else ``Conflict``. Under the lock."""
        with self._parent(path) as (folder, name):
            if _read(folder, name, path=path, bytes_max=bytes_max) != replacing:
                raise Conflict((path,))
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            temporary = self._written(folder, name, text, mode=stat.S_IMODE(mode))
            # Writing to disk takes a while. A text that is taken back should not be seen at all: an
            # editor that loads it would save it over the version that is put back.
            if not _has(folder, name, replacing, bytes_max=bytes_max):
                os.unlink(temporary, dir_fd=folder)
                raise Conflict((path,))
            try:
                exchanged = _exchange(folder, temporary, name)
            except FileNotFoundError:
                os.unlink(temporary, dir_fd=folder)
                raise Conflict((path,)) from None
            if not exchanged:
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            elif not _has(folder, temporary, replacing, bytes_max=bytes_max):
                _exchange(folder, temporary, name)
                if _has(folder, temporary, text, bytes_max=bytes_max):
                    os.unlink(temporary, dir_fd=folder)
                else:  # an editor saved again before they changed back
                    self._recover(folder, temporary, name)
                raise Conflict((path,))
            else:
                os.unlink(temporary, dir_fd=folder)
            os.fsync(folder)

    def move(self, path: str, to: str) -> None:
        """Move a file; ``Conflict`` if there is one already. Call it under the lock."""
        with (
            self._parent(path) as (folder, name),
            self._parent(to, create=True) as (target, target_name),
        ):
            self._require_file(folder, name, path)
            try:
                # In one step: between two, an editor's new version would be deleted.
                if not _renamed(folder, name, target, target_name, flags=_NO_REPLACE):
                    os.link(name, target_name, src_dir_fd=folder, dst_dir_fd=target)
                    os.unlink(name, dir_fd=folder)
            except FileExistsError:
                raise Conflict((to,)) from None
            except OSError as error:
                raise _translated(error, to) from error
            os.fsync(target)
            os.fsync(folder)

    def remove(self, path: str, *, replacing: str, bytes_max: int) -> None:
        """Remove a file whose text is still ``replacing``, else ``Conflict``. Under the lock."""
        with self._parent(path) as (folder, name):
            if _read(folder, name, path=path, bytes_max=bytes_max) != replacing:
                raise Conflict((path,))
            temporary = f".{name}{TEMPORARY}"
            if temporary in os.listdir(folder):  # noqa: PTH208 (of an open folder)
                self._recover(folder, temporary, name)
            try:
                os.rename(name, temporary, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError as error:
                raise _translated(error, path) from error
            if not _has(folder, temporary, replacing, bytes_max=bytes_max):
                self._put_back(folder, temporary, name)
                raise Conflict((path,))
            os.unlink(temporary, dir_fd=folder)
            os.fsync(folder)

    def files(self, folder: str, *, ending: str) -> tuple[list[str], list[str]]:
        """Return the files below a folder by path, and names that no path can have.

        Hidden files and folders are left out, and links are not followed.
        """
        top = self.root / folder if folder else self.root
        found: list[str] = []
        odd: list[str] = []
        if top.is_symlink():
            return found, odd
        for parent, folders, names in os.walk(top):
            folders[:] = sorted(each for each in folders if not each.startswith("."))
            where = Path(parent).relative_to(self.root).as_posix()
            for name in sorted(names):
                if not name.endswith(ending) or name.startswith("."):
                    continue
                path = name if where == "." else f"{where}/{name}"
                if Path(parent, name).is_symlink():
                    continue
                (found if _possible(path) else odd).append(path)
                if len(found) + len(odd) > FILES_MAX:
                    raise Incorrect(
                        f"{top} has more than {FILES_MAX:,} notes: choose a smaller folder"
                    )
        return found, odd

    def _written(self, folder: int, name: str, text: str, *, mode: int | None) -> str:
        """Write a temporary file beside the one to be; what a killed writer left is kept."""
        temporary = f".{name}{TEMPORARY}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(temporary, flags, 0o666, dir_fd=folder)
        except FileExistsError:
            self._recover(folder, temporary, name)
            descriptor = os.open(temporary, flags, 0o666, dir_fd=folder)
        except OSError as error:
            raise _translated(error, name) from error
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                if mode is not None:
                    os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
        except (OSError, UnicodeEncodeError) as error:
            os.unlink(temporary, dir_fd=folder)
            if isinstance(error, UnicodeEncodeError):
                raise InvalidNote("the text has half a surrogate pair", path=name) from error
            raise _translated(error, name) from error
        return temporary

    def _put_back(self, folder: int, temporary: str, name: str) -> None:
        """Give an editor's version its name again; if there is a newer one, keep it aside."""
        try:
            os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except FileExistsError:
            self._recover(folder, temporary, name)
        else:
            os.unlink(temporary, dir_fd=folder)

    def _recover(self, folder: int, temporary: str, name: str) -> None:
        """Move what a killed writer left to ``scratch/recovered``: it may be an editor's version.

        Half a file, a version that never took its place, or the version that was replaced: they
        cannot be told apart, so none is deleted.
        """
        with self._parent(f"scratch/recovered/{name}", create=True) as (kept, _):
            taken = set(os.listdir(kept))  # noqa: PTH208 (of an open folder)
            number = next(n for n in range(1, FILES_MAX) if f"{n}-{name}" not in taken)
            os.rename(temporary, f"{number}-{name}", src_dir_fd=folder, dst_dir_fd=kept)

    @contextmanager
    def _parent(self, path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
        """Open the folder of a path; links in it are refused."""
        *folders, name = check_path(path)
        try:
            descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise _translated(error, str(self.root)) from error
        try:
            for part in folders:
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=descriptor)
                try:
                    inner = os.open(part, _FOLDER, dir_fd=descriptor)
                except OSError as error:
                    raise _translated(error, path) from error
                os.close(descriptor)
                descriptor = inner
            yield descriptor, name
        finally:
            os.close(descriptor)

    @staticmethod
    def _require_file(folder: int, name: str, path: str) -> None:
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError as error:
            raise _translated(error, path) from error
        if not stat.S_ISREG(found.st_mode):
            raise Denied(f"{path} is not a regular file")


def _possible(path: str) -> bool:
    try:
        check_path(path)
    except Incorrect:
        return False
    except UnicodeEncodeError:  # a name that is not UTF-8
        return False
    return True


def _read(folder: int, name: str, *, path: str, bytes_max: int) -> str:
    data = _read_bytes(folder, name, path=path, bytes_max=bytes_max)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidNote(NOT_UTF8, line=line, path=path) from error


def _read_bytes(folder: int, name: str, *, path: str, bytes_max: int) -> bytes:
    try:
        descriptor = os.open(name, _FILE, dir_fd=folder)
    except OSError as error:
        raise _translated(error, path) from error
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Denied(f"{path} is not a regular file")
        data = file.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise InvalidNote(f"larger than {bytes_max:,} bytes", path=path)
    return data


def _has(folder: int, name: str, text: str, *, bytes_max: int) -> bool:
    """Whether a file has exactly this text; whatever else it is, it is not ours to delete."""
    try:
        return _read(folder, name, path=name, bytes_max=bytes_max) == text
    except (Denied, InvalidNote, NotFound):
        return False


def _exchange(folder: int, one: str, other: str) -> bool:
    """Let two files change places in one step; False where the system cannot do that."""
    return _renamed(folder, one, folder, other, flags=_EXCHANGE)


def _renamed(folder: int, name: str, target: int, target_name: str, *, flags: int) -> bool:
    """Rename with flags of renameat2(2); False where the system cannot do that."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:  # not Linux
        return False
    if renameat2(folder, os.fsencode(name), target, os.fsencode(target_name), flags) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL):  # this file system cannot
        return False
    raise OSError(number, os.strerror(number), target_name)


def _translated(error: OSError, path: str) -> Denied | Incorrect | NotFound | Unavailable:
    if isinstance(error, FileNotFoundError):
        return NotFound(f"there is no {path}")
    if error.errno in (errno.ELOOP, errno.EMLINK):
        return Denied(f"{path} is a link or behind one; links are not followed")
    if error.errno == errno.ENOTDIR:
        return Denied(f"{path} is behind a link or a file; links are not followed")
    if isinstance(error, PermissionError):
        return Denied(f"{path}: {error.strerror}")
    return Unavailable(f"{path}: {error.strerror}; nothing was written, retry later")
