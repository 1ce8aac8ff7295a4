"""Mounts: translate the agent's paths to the host's, and back. Pure.

    agent path   /workspace/src/main.py      as the agent writes it
    location     host, /home/me/src/main.py  the filesystem's id and the path in it

    forward      the longest agent prefix, on component boundaries, becomes its canonical prefix;
                 a path on no mount stays as it is, in the default filesystem
    reverse      the longest canonical prefix becomes its agent prefix, of equals the one declared
                 first; a location that no mount contains (another may cover it) keeps its path

Both are purely lexical, including ``.`` and ``..``. If there are symbolic links on the way,
``HostFiles`` finds the location as the sandbox's kernel would.

In a sandbox the default filesystem is the sandbox's own, which the host never reads. A mapping with
the default id excludes a part of another mount in the same way (a tmpfs in a workspace).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Self

from ctxmgr.errors import Incorrect

MOUNTS_MAX: Final = 1_000
"""Mappings of one sandbox; each is tried for every path. Containers have about a dozen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MountMapping:
    """A directory or file that the agent sees at one path and the host at another."""

    agent_prefix: str
    """The path that the agent sees."""
    canonical_prefix: str
    """The path on the host."""
    filesystem_id: str
    """Identifies the filesystem, usually the host's (``host_filesystem_id()``)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "agent_prefix", _prefix("agentPrefix", self.agent_prefix))
        canonical = _prefix("canonicalPrefix", self.canonical_prefix)
        object.__setattr__(self, "canonical_prefix", canonical)
        if not self.filesystem_id:
            raise Incorrect(f"the mount at {self.agent_prefix!r:.200} needs a filesystemId")
        _check_unicode("filesystemId", self.filesystem_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLocation:
    """A filesystem and a canonical path in it."""

    filesystem_id: str
    path: str
    on_host: bool = field(compare=False)
    """False if only the sandbox can read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mounts:
    """The mounts of one client, and the filesystem of all other paths."""

    mappings: tuple[MountMapping, ...]
    default_filesystem_id: str
    sandboxed: bool
    """False if there is no sandbox, and paths on no mount are the host's."""

    def __post_init__(self) -> None:
        if len(self.mappings) > MOUNTS_MAX:
            raise Incorrect(f"{len(self.mappings)} mounts; {MOUNTS_MAX} at most are allowed")
        if not self.default_filesystem_id:
            raise Incorrect("the default filesystem id of mounts is empty")
        _check_unicode("the default filesystem id", self.default_filesystem_id)
        seen: set[str] = set()
        for mapping in self.mappings:
            if mapping.agent_prefix in seen:
                raise Incorrect(f"{mapping.agent_prefix!r:.200} is mounted twice")
            seen.add(mapping.agent_prefix)

    @classmethod
    def of_host(cls, host_id: str) -> Self:
        """Return mounts without a sandbox: the agent's paths are the host's."""
        return cls(mappings=(), default_filesystem_id=host_id, sandboxed=False)

    @classmethod
    def of_sandbox(cls, mappings: Iterable[MountMapping], *, own_id: str) -> Self:
        """Return the mounts of a sandbox that has its own filesystem."""
        return cls(mappings=tuple(mappings), default_filesystem_id=own_id, sandboxed=True)

    def forward(self, path: str) -> FileLocation:
        """Translate an agent path to a filesystem and a path in it."""
        return self.location_of(normalise(path))

    def location_of(self, path: str) -> FileLocation:
        """Return the location of a normalised agent path."""
        mapping = self.mapping_of(path)
        if mapping is None:
            return FileLocation(
                filesystem_id=self.default_filesystem_id, path=path, on_host=not self.sandboxed
            )
        return FileLocation(
            filesystem_id=mapping.filesystem_id,
            path=_moved(path, mapping.agent_prefix, mapping.canonical_prefix),
            on_host=self.is_on_host(mapping),
        )

    def reverse(self, location: FileLocation) -> str:
        """Translate a location to the path at which the agent sees it."""
        return self._on_mount(location) or location.path

    def reached_at(self, location: FileLocation) -> str | None:
        """Return the path at which the agent reaches a location; None if it is out of reach."""
        path = self._on_mount(location)
        if path is None and location.filesystem_id == self.default_filesystem_id:
            path = location.path
        return path if path is not None and self.location_of(path) == location else None

    def _on_mount(self, location: FileLocation) -> str | None:
        containing = [
            mapping
            for mapping in self.mappings
            if mapping.filesystem_id == location.filesystem_id
            and _is_in(location.path, mapping.canonical_prefix)
        ]
        for mapping in sorted(containing, key=lambda mapping: -len(mapping.canonical_prefix)):
            path = _moved(location.path, mapping.canonical_prefix, mapping.agent_prefix)
            if self.mapping_of(path) == mapping:
                return path
        return None

    def agent_path_of(self, host_path: str) -> str | None:
        """Return where the agent sees a path of the host, whatever id its filesystem has."""
        for mapping in self.mappings:
            if self.is_on_host(mapping) and _is_in(host_path, mapping.canonical_prefix):
                path = _moved(host_path, mapping.canonical_prefix, mapping.agent_prefix)
                if self.mapping_of(path) == mapping:
                    return path
        return None

    def mapping_of(self, path: str) -> MountMapping | None:
        """Return the mount that a normalised agent path is on, if any."""
        longest: MountMapping | None = None
        for mapping in self.mappings:
            if _is_in(path, mapping.agent_prefix) and (
                longest is None or len(mapping.agent_prefix) > len(longest.agent_prefix)
            ):
                longest = mapping
        return longest

    def is_on_host(self, mapping: MountMapping) -> bool:
        """Return whether the host may read the mount."""
        return not self.sandboxed or mapping.filesystem_id != self.default_filesystem_id

    def declares(self, filesystem_id: str) -> bool:
        """Return whether this client declares the filesystem; if not, its files are orphaned."""
        return filesystem_id == self.default_filesystem_id or any(
            mapping.filesystem_id == filesystem_id for mapping in self.mappings
        )


def normalise(path: str) -> str:
    """Return the absolute path without empty, ``.`` and ``..`` parts, lexically."""
    if not path.startswith("/"):
        raise Incorrect(f"{path!r:.200} is not absolute")
    if "\0" in path:
        raise Incorrect(f"{path!r:.200} contains NUL, which is not allowed in a path")
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    return "/" + "/".join(parts)


def _check_unicode(name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Incorrect(f"{name} {text!r:.200} contains a lone surrogate") from None


def _prefix(name: str, path: str) -> str:
    _check_unicode(name, path)
    if ".." in path.split("/"):
        raise Incorrect(f"{name} {path!r:.200} contains .., which is ambiguous with links")
    try:
        return normalise(path)
    except Incorrect as error:
        raise Incorrect(f"{name} {error}") from error


def _is_in(path: str, prefix: str) -> bool:
    if prefix == "/":
        return True
    return path.startswith(prefix) and (len(path) == len(prefix) or path[len(prefix)] == "/")


def _moved(path: str, old: str, new: str) -> str:
    rest = path.removeprefix(old).lstrip("/") if old != "/" else path[1:]
    if not rest:
        return new
    return f"{new}/{rest}" if new != "/" else f"/{rest}"
