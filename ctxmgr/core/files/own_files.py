"""ctxmgr's own files, which no agent may read or change. Reads the mount table and file status.

    folders   ctxmgr's data, state, cache and settings, with everything below them
    files     a database, search index or cache of fingerprints, wherever it lies, with what is
              written beside it while it is in use

They hold what every session has seen, the keys of providers, and what a person has confirmed. A
prompt must not show them, and following one of them would never end: each version that is stored
changes the database.

A path is compared after links are resolved, with every path at which the host shows the same
folder, and a file that has several names also by its inode.
"""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

MOUNTINFO: Final = Path("/proc/self/mountinfo")

SQLITE_SUFFIXES: Final = ("", "-wal", "-shm", "-journal")
"""What SQLite adds to the name of a database for the files that it keeps beside it."""

LINKS_MAX: Final = 40
"""Links followed in one path; Linux reports a loop after as many."""

_MOUNT: Final = re.compile(r"\d+ \d+ (\S+) (\S+) (\S+) ")
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


def own_folders() -> tuple[Path, ...]:
    """Return the folders that belong to ctxmgr on this machine; they need not exist."""
    from platformdirs import PlatformDirs  # noqa: PLC0415 (only needed where files are read)

    dirs = PlatformDirs("ctxmgr", appauthor=False)
    folders = (dirs.user_data_dir, dirs.user_state_dir, dirs.user_cache_dir, dirs.user_config_dir)
    return tuple(dict.fromkeys(Path(folder).absolute() for folder in folders))


class OwnFiles:
    """The files that belong to ctxmgr itself. Thread-safe."""

    def __init__(
        self, files: Iterable[Path] = (), *, folders: Iterable[Path] | None = None
    ) -> None:
        """``folders`` are by default those of ``own_folders``; all paths are absolute."""
        self.files: Final = tuple(files)
        self.folders: Final = own_folders() if folders is None else tuple(folders)
        self._below = tuple(
            f"{path.rstrip('/')}/" for folder in self.folders for path in host_paths(str(folder))
        )
        self._names: dict[str, set[str]] = {}
        """The names of the files, by every path of their folder."""
        for file in self.files:
            folder, name = os.path.split(os.path.realpath(file))
            for path in host_paths(folder):
                self._names.setdefault(path, set()).add(name)

    def contain(self, path: str, status: os.stat_result) -> bool:
        """Return whether a regular file is one of them, given its path without links."""
        if path.startswith(self._below):
            return True
        folder, name = os.path.split(path)
        if any(_is_beside(name, own) for own in self._names.get(folder, ())):
            return True
        return status.st_nlink > 1 and (status.st_dev, status.st_ino) in self._inodes()

    def lie_in_folders(self, file: Path) -> bool:
        """Return whether a path is in a folder of ctxmgr, which sandboxes hide."""
        return f"{os.path.realpath(file)}/".startswith(self._below)

    def _inodes(self) -> Iterator[tuple[int, int]]:
        for folder, names in self._names.items():
            for name in names:
                for suffix in SQLITE_SUFFIXES:
                    try:
                        status = os.lstat(f"{folder}/{name}{suffix}")
                    except OSError:  # it does not exist at the moment
                        continue
                    yield status.st_dev, status.st_ino


def steps_of(path: str) -> tuple[str, ...]:
    """Return the location of every link on the way of an absolute path, and where it ends.

    Whoever can replace one of these decides what the path names.
    """
    links: list[str] = []
    here, pending = "/", path.split("/")[::-1]
    while pending and len(links) < LINKS_MAX:
        name = pending.pop()
        if name == "..":
            here = os.path.split(here)[0]
        elif name not in {"", "."}:
            step = f"{here.rstrip('/')}/{name}"
            try:
                target = str(Path(step).readlink())
            except OSError:  # not a link, or missing
                here = step
                continue
            links.append(step)
            here = "/" if target.startswith("/") else here
            pending += target.split("/")[::-1]
    return (*links, here)


def host_paths(path: str, *, mountinfo: Path = MOUNTINFO) -> tuple[str, ...]:
    """Return every path at which the host shows a folder: its real one, and through other mounts.

    A folder that is bound to a second place has two paths without a link between them.
    """
    real = os.path.realpath(path)
    existing = real
    while not os.path.lexists(existing):
        existing = os.path.split(existing)[0]
    rest = real[len(existing.rstrip("/")) :]
    try:
        table = mountinfo.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:  # not Linux
        return (real,)
    mounts = list(_mounts(table))
    containing = [mount for mount in mounts if is_below(existing, mount.point)]
    if not containing:
        return (real,)
    # Of two mounts at one place, the later one is visible.
    own = max(reversed(containing), key=lambda mount: len(mount.point))
    inside = _moved(existing, own.point, own.root)
    others = (
        _moved(inside, mount.root, mount.point)
        for mount in mounts
        if mount.device == own.device and is_below(inside, mount.root)
    )
    same = (other.rstrip("/") + rest for other in others if _is_same(other, existing))
    return tuple(dict.fromkeys([real, *same]))


def is_below(path: str, folder: str) -> bool:
    """Return whether a normalised path is a folder or lies in it."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


class _Mount(NamedTuple):
    device: str
    root: str
    """The folder of the device that is mounted."""
    point: str


def _mounts(table: str) -> Iterator[_Mount]:
    for line in table.splitlines():
        match = _MOUNT.match(line)
        if match is not None:
            yield _Mount(*(_ESCAPED.sub(_unescaped, field) for field in match.groups()))


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match[1], 8))


def _moved(path: str, old: str, new: str) -> str:
    rest = path[len(old.rstrip("/")) :]
    return f"{new.rstrip('/')}{rest}" or "/"


def _is_same(path: str, other: str) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.lstat(other))
    except OSError:  # another mount covers it
        return False


def _is_beside(name: str, own: str) -> bool:
    if not name.startswith((own, f".{own}-")):
        return False
    return name.startswith(".") or name[len(own) :] in SQLITE_SUFFIXES
