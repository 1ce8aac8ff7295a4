"""Mounts: which path of the agent's is which path of the host's, and back. Pure.

    agent path   /workspace/src/main.py      as the agent writes it
    place        host, /home/me/src/main.py  the filesystem's id and the path there

    forward      the longest agent prefix, on component boundaries, becomes its canonical prefix;
                 a path on no mount stays as it is, in the default filesystem
    reverse      the longest canonical prefix becomes its agent prefix, of equals the one declared
                 first; a place that no mount shows (another mount may cover it) has its own path

Both work on the letters alone: ``.`` and ``..`` go lexically. Where links may stand on the way,
``hostfiles`` finds the place as the sandbox's kernel would.

In a sandbox the default filesystem is the sandbox's own, and the host never reads there. A mapping
that carries the default id covers a part of another mount in the same way (a tmpfs in a workspace).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Self

from ctxmgr.errors import Incorrect

MOUNTS_MAX: Final = 1_000
"""Mappings of one sandbox: each is tried for every path. Containers have a dozen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MountMapping:
    """A folder or file that the agent sees at one path and the host at another."""

    agent_prefix: str
    canonical_prefix: str
    filesystem_id: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "agent_prefix", _prefix("agentPrefix", self.agent_prefix))
        canonical = _prefix("canonicalPrefix", self.canonical_prefix)
        object.__setattr__(self, "canonical_prefix", canonical)
        if not self.filesystem_id:
            raise Incorrect(f"the mount at {self.agent_prefix!r:.200} needs a filesystemId")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where something is: a filesystem and the canonical path in it."""

    filesystem_id: str
    path: str
    on_host: bool = field(compare=False)
    """False: only the sandbox can read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mounts:
    """All that one client knows of where its agent's paths lead."""

    mappings: tuple[MountMapping, ...]
    default_filesystem_id: str
    sandboxed: bool
    """False: there is no sandbox, and the default filesystem is the host."""

    def __post_init__(self) -> None:
        if len(self.mappings) > MOUNTS_MAX:
            raise Incorrect(f"{len(self.mappings)} mounts; {MOUNTS_MAX} at most")
        if not self.default_filesystem_id:
            raise Incorrect("mounts need a default filesystem id")
        seen: set[str] = set()
        for mapping in self.mappings:
            if mapping.agent_prefix in seen:
                raise Incorrect(f"{mapping.agent_prefix!r:.200} is mounted twice")
            seen.add(mapping.agent_prefix)

    @classmethod
    def of_host(cls, host_id: str) -> Self:
        """No sandbox: the agent's paths are the host's."""
        return cls(mappings=(), default_filesystem_id=host_id, sandboxed=False)

    @classmethod
    def of_sandbox(cls, mappings: Iterable[MountMapping], *, own_id: str) -> Self:
        """A sandbox with a filesystem of its own, in which these mounts stand."""
        return cls(mappings=tuple(mappings), default_filesystem_id=own_id, sandboxed=True)

    def forward(self, path: str) -> Place:
        """Return the place of an agent's path."""
        return self.place_of(normalise(path))

    def place_of(self, path: str) -> Place:
        """Return the place of a path that is normalised already."""
        mapping = self.mapping_of(path)
        if mapping is None:
            return Place(
                filesystem_id=self.default_filesystem_id, path=path, on_host=not self.sandboxed
            )
        return Place(
            filesystem_id=mapping.filesystem_id,
            path=_moved(path, mapping.agent_prefix, mapping.canonical_prefix),
            on_host=self.is_on_host(mapping),
        )

    def reverse(self, place: Place) -> str:
        """Return the path that shows a place to the agent."""
        holding = [
            mapping
            for mapping in self.mappings
            if mapping.filesystem_id == place.filesystem_id
            and _is_in(place.path, mapping.canonical_prefix)
        ]
        for mapping in sorted(holding, key=lambda each: -len(each.canonical_prefix)):
            path = _moved(place.path, mapping.canonical_prefix, mapping.agent_prefix)
            if self.mapping_of(path) == mapping:
                return path
        return place.path

    def mapping_of(self, path: str) -> MountMapping | None:
        """Return the mount that a normalised agent path is on, if any."""
        found: MountMapping | None = None
        for mapping in self.mappings:
            if _is_in(path, mapping.agent_prefix) and (
                found is None or len(mapping.agent_prefix) > len(found.agent_prefix)
            ):
                found = mapping
        return found

    def is_on_host(self, mapping: MountMapping) -> bool:
        """Tell whether the host may read there."""
        return not self.sandboxed or mapping.filesystem_id != self.default_filesystem_id

    def declares(self, filesystem_id: str) -> bool:
        """Tell whether this client knows the filesystem: otherwise its sources are orphaned."""
        return filesystem_id == self.default_filesystem_id or any(
            mapping.filesystem_id == filesystem_id for mapping in self.mappings
        )


def normalise(path: str) -> str:
    """Return the absolute path without empty, ``.`` and ``..`` parts, by its letters alone."""
    if not path.startswith("/"):
        raise Incorrect(f"{path!r:.200} is not absolute")
    if "\0" in path:
        raise Incorrect(f"{path!r:.200} holds NUL, which no path can")
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    return "/" + "/".join(parts)


def _prefix(name: str, path: str) -> str:
    if ".." in path.split("/"):
        raise Incorrect(f"{name} {path!r:.200} holds .., which leads elsewhere where links are")
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
