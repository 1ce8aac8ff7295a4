"""The identity of a project, the same on every machine, and its branch. Reads git's files.

    remote     host and path of ``origin``, without credentials:   github.com/acme/shop
    root       no remote: the folder of the repository             shop, by its absolute path
    folder     no repository: the folder itself

Only the files ``config`` and ``HEAD`` of ``.git`` are read: no program runs, and nothing in the
repository decides what is read beyond its own ``gitdir`` file.
"""

import configparser
import hashlib
import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

CONFIG_BYTES_MAX: Final = 1024 * 1024
PROJECT_CHARS_MAX: Final = 100
HEAD_CHARS_MAX: Final = 300

_MAIN: Final = frozenset({"main", "master", "trunk", "develop", "dev"})

_VALUE: Final = re.compile(r'(?:"[^"]*"|[^"#;])*')
"""A value of git's configuration, up to its comment."""

_SCP_FORM: Final = re.compile(r"(?:[^@/\s]+@)?(?P<host>[\w.-]+):(?!//)(?P<path>[^\s]+)")
_DRIVE: Final = re.compile(r"[A-Za-z]:[/\\]")
"""How a path in Windows begins; ``g:team/shop`` is on the host ``g``."""


def project_id(folder: Path) -> str:
    """Return the identity of the project that a folder belongs to."""
    folder = folder.resolve()
    for root in (folder, *folder.parents):
        git = root / ".git"
        if git.exists():
            return _remote_id(git) or _folder_id(root)
    return _folder_id(folder)


def feature_branch(folder: Path) -> str | None:
    """Return the branch that is checked out; None for the main one, or where there is none."""
    folder = folder.resolve()
    for root in (folder, *folder.parents):
        git = root / ".git"
        if not git.exists():
            continue
        try:
            own = git if git.is_dir() else _linked_folder(git)
            head = _start_of(own / "HEAD", HEAD_CHARS_MAX).strip()
        except (OSError, ValueError):
            return None
        name = head.removeprefix("ref: refs/heads/")
        return None if name == head or name in _MAIN or not name.isprintable() else name
    return None


def remote_identity(url: str) -> str | None:
    """Return host and path of a remote's URL, in lower case; None for a path on this machine."""
    text = url.strip()
    if _DRIVE.match(text):
        return None
    scp = _SCP_FORM.fullmatch(text)
    if "://" not in text and scp is not None:
        host, path = scp["host"], scp["path"]
    else:
        try:
            parts = urlsplit(text)
        except ValueError:
            return None
        host, path = parts.hostname or "", parts.path
    path = path.strip("/").removesuffix(".git")
    if not host or not path or not f"{host}/{path}".isprintable():
        return None
    return _short(f"{host}/{path}".lower())


def _remote_id(git: Path) -> str | None:
    config = configparser.ConfigParser(strict=False, interpolation=None, allow_no_value=True)
    try:
        text = _start_of(_config_of(git), CONFIG_BYTES_MAX)
        config.read_string("\n".join(line.strip() for line in text.splitlines()))
    except (OSError, ValueError, configparser.Error):
        return None
    for section in config.sections():
        name, _, part = section.partition(" ")
        url = config.get(section, "url", fallback=None)
        if name.lower() == "remote" and part.strip() == '"origin"' and url:
            return remote_identity(_unquoted(url))
    return None


def _unquoted(value: str) -> str:
    """Return a value of git's configuration without quotes and comment."""
    found = _VALUE.match(value)
    return found[0].replace('"', "").strip() if found else ""


def _config_of(git: Path) -> Path:
    """Return the configuration of a repository, of a worktree's main repository in its case."""
    if git.is_dir():
        return git / "config"
    own = _linked_folder(git)
    common = own / "commondir"
    if common.is_file():
        own = (own / _start_of(common, CONFIG_BYTES_MAX).strip()).resolve()
    return own / "config"


def _linked_folder(git: Path) -> Path:
    """Return the folder that the ``.git`` file of a worktree names."""
    pointer = _start_of(git, CONFIG_BYTES_MAX)
    return (git.parent / pointer.removeprefix("gitdir:").strip()).resolve()


def _start_of(path: Path, chars: int) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(chars)


def _folder_id(folder: Path) -> str:
    """Two folders of one name are two projects: the path tells them apart."""
    digest = hashlib.sha256(str(folder).encode(errors="surrogateescape")).hexdigest()[:12]
    name = "".join(char for char in folder.name if char.isprintable()) or "folder"
    return _short(f"{name}-{digest}")


def _short(identity: str) -> str:
    if len(identity) <= PROJECT_CHARS_MAX:
        return identity
    digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
    return f"{identity[: PROJECT_CHARS_MAX - 13]}-{digest}"
