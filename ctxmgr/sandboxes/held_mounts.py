"""The host's folders that a sandbox mounts, held open; and ctxmgr's own, which it hides.

Opens each folder once, when the sandbox starts. A sandbox binds what is open and not what a path
names later: an agent can replace a folder in one mount by a link, and the path of another mount may
lead through it.

    /home/me                      mounted at /workspace, writable
    ├── .local                    mounted on itself
    │   └── share                 mounted on itself
    │       └── ctxmgr            hidden: ctxmgr's own
    └── project

What is hidden is covered by an empty folder. The folders above it are mounted on themselves,
because a mount cannot be renamed: otherwise the agent could move them away, and put a folder of its
own where ctxmgr looks for its files.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from ctxmgr.core.files.mounts import MountMapping, Mounts
from ctxmgr.core.files.own_files import host_paths, is_below, own_folders, steps_of
from ctxmgr.core.sandbox import Bind
from ctxmgr.errors import Incorrect, Unavailable

_OPEN: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldMount:
    """A folder or file of the host, and where the agent sees it."""

    fd: int
    source: str
    """Its path on the host, without links."""
    target: str
    """Its path in the sandbox."""
    writable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenFolder:
    """A folder of ctxmgr that lies in a mount."""

    fd: int
    source: str
    target: str
    mount: str
    """The path in the sandbox of the mount that it lies in."""


class HeldMounts:
    """The mounts of one sandbox, open until ``close``."""

    def __init__(self) -> None:
        self._closing = ExitStack()
        self._closed = False
        self._binds: tuple[str, ...] = ()
        self.steps: list[HeldMount | HiddenFolder] = []
        """What to mount and to hide, each before those that it would cover."""

    @classmethod
    def open(cls, binds: Sequence[Bind], *, hidden: Iterable[Path] = ()) -> Self:
        """Open the mounts, outer ones first; ``hidden`` are folders to hide besides ctxmgr's own.

        Raises ``Incorrect`` for a mount that is missing, that an agent may have redirected, or that
        would show what cannot be hidden.
        """
        held = cls()
        try:
            held._open_all(binds, [*own_folders(), *hidden])
        except BaseException:
            held.close()
            raise
        return held

    @property
    def mounts(self) -> list[HeldMount]:
        return [step for step in self.steps if isinstance(step, HeldMount)]

    @property
    def hidden(self) -> list[HiddenFolder]:
        return [step for step in self.steps if isinstance(step, HiddenFolder)]

    def close(self) -> None:
        """Close all folders. May be called twice."""
        self._closed = True
        self._closing.close()

    def check(self) -> None:
        """Raise ``Unavailable`` if a mount was removed, or a hidden folder is not where it was."""
        if self._closed:
            raise Unavailable("the sandbox is closed")
        for mount in self.mounts:
            if os.fstat(mount.fd).st_nlink == 0:
                raise Unavailable(f"{mount.source}, which the sandbox mounts, was removed")
        for folder in self.hidden:
            try:
                in_place = os.path.samestat(os.lstat(folder.source), os.fstat(folder.fd))
            except OSError:
                in_place = False
            if not in_place:
                raise Unavailable(
                    f"{folder.source}, a folder of ctxmgr, was moved or replaced while a sandbox "
                    "hides it: start the sandbox again"
                )

    def hiding_mappings(self, own_id: str) -> list[MountMapping]:
        """Return mappings which say that what is hidden is not on the host."""
        return [
            MountMapping(
                agent_prefix=folder.target, canonical_prefix=folder.target, filesystem_id=own_id
            )
            for folder in self.hidden
            # A mount inside the mount may cover both.
            if max((at for at in self._binds if is_below(folder.target, at)), key=len)
            == folder.mount
        ]

    def _open_all(self, binds: Sequence[Bind], folders: Sequence[Path]) -> None:
        self._binds = tuple(bind.mapping.agent_prefix for bind in binds)
        sources = [self._source(bind, binds) for bind in binds]
        private = dict.fromkeys(it for folder in folders for it in self._places(folder, sources))
        for bind, source in zip(binds, sources, strict=True):
            at = bind.mapping.agent_prefix
            inside = [path for path in private if is_below(path, source)]
            # What is read-only cannot be renamed.
            above = {up for path in inside for up in _between(source, path) if bind.writable}
            for path in [source, *sorted(above)]:
                self.steps.append(
                    HeldMount(
                        fd=self._open(path),
                        source=path,
                        target=at + path[len(source) :],
                        writable=bind.writable,
                    )
                )
            for path in inside:
                fd, target = self._open(path), at + path[len(source) :]
                self.steps.append(HiddenFolder(fd=fd, source=path, target=target, mount=at))

    def _source(self, bind: Bind, binds: Sequence[Bind]) -> str:
        """Return the path of a mount without links; refuse a link that an agent may have made."""
        *links, real = steps_of(bind.mapping.canonical_prefix)
        for other in binds:
            writable = os.path.realpath(other.mapping.canonical_prefix)
            for link in links:
                if other is not bind and other.writable and is_below(link, writable):
                    raise Incorrect(
                        f"cannot mount {bind.mapping.canonical_prefix!r:.200}: {link!r:.200} is a "
                        f"link in a folder that an agent can change; mount {real!r:.200} instead"
                    )
        if real == "/" or is_below(real, "/proc"):
            raise Incorrect(
                f"cannot mount {real!r:.200}: its processes would be the host's; mount the folder "
                "to work in"
            )
        return real

    def _places(self, folder: Path, sources: Sequence[str]) -> tuple[str, ...]:
        """Return the paths of a folder that lie in a mount; create it there if it is missing."""
        *links, real = steps_of(str(folder))
        for source in sources:
            if is_below(source, real):
                raise Incorrect(
                    f"cannot mount {source!r:.200}: it is a folder of ctxmgr itself; mount the "
                    "folder to work in"
                )
            for link in links:
                if is_below(link, source):
                    raise Incorrect(
                        f"cannot mount {source!r:.200}: {link!r:.200} in it leads to a folder of "
                        "ctxmgr, and an agent could redirect it; mount a folder below instead"
                    )
        found = [path for path in host_paths(real) if any(is_below(path, it) for it in sources)]
        if found:
            try:  # if it were missing, the agent could create it
                Path(real).mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise Incorrect(
                    f"{real!r:.200}, a folder of ctxmgr, cannot be created ({error.strerror}), so "
                    "it cannot be hidden from the agent; mount a folder below instead"
                ) from error
        return tuple(found)

    def _open(self, path: str) -> int:
        try:
            fd = os.open(path, _OPEN)
        except OSError as error:
            raise Incorrect(f"cannot mount {path!r:.200}: {error.strerror}") from error
        self._closing.callback(os.close, fd)
        if sys.platform == "linux" and str(Path(f"/proc/self/fd/{fd}").readlink()) != path:
            raise Incorrect(f"cannot mount {path!r:.200}: a link has replaced a folder on the way")
        return fd


def check_binds(binds: Iterable[Bind]) -> tuple[Bind, ...]:
    """Validate the binds; return them with outer mounts first, which would cover inner ones."""
    ordered = tuple(sorted(binds, key=lambda bind: bind.mapping.agent_prefix.count("/")))
    Mounts.of_sandbox((bind.mapping for bind in ordered), own_id="unassigned")
    for bind in ordered:
        if bind.mapping.agent_prefix == "/":
            raise Incorrect("a mount at / would cover the sandbox")
        if not Path(bind.mapping.canonical_prefix).exists():
            raise Incorrect(f"cannot mount {bind.mapping.canonical_prefix!r:.200}: it is missing")
    return ordered


def _between(source: str, path: str) -> list[str]:
    """Return the folders below ``source`` that contain ``path``."""
    rest = path[len(source) :].strip("/").split("/")[:-1]
    return ["/".join([source, *rest[: end + 1]]) for end in range(len(rest))]
