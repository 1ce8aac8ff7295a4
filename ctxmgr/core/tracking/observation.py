"""Look at sources and read them, for indexing. Reads the host's disk through ``HostFiles``.

    an agent path ───┐                                      ┌─► proven: unchanged since it was read
                     ├─► a sighting: which object it is and ┤
    a stored file ───┘   how large                          └─► an observation: its bytes, or why
                                                                it was not read

A stored file is looked up at its path. If a symbolic link is there now, or no mount of this client
contains the path, it is another file: the stored one is unreachable.

Every method may block: call it in a thread.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Self, TypeAlias

from ctxmgr.core.files.fingerprints import Fingerprints
from ctxmgr.core.files.host_files import FILE_BYTES_MAX, HostFiles
from ctxmgr.core.files.mounts import FileLocation
from ctxmgr.core.files.outcomes import (
    MissingFile,
    ReadFile,
    Refusal,
    RefusedFile,
    SeenFile,
    Unreachable,
    Unread,
)
from ctxmgr.core.objects.envelope import sourced_id
from ctxmgr.core.objects.file import File
from ctxmgr.core.objects.sources import FilesystemSource
from ctxmgr.core.tracking.index_plan import Observation, is_too_large
from ctxmgr.errors import Incorrect

_REPLACED_BY_LINK: Final = Unreachable("a link to another file has replaced it")
_UNDECLARED: Final = Unreachable("this client does not declare its filesystem")
_NOT_MOUNTED: Final = Unreachable("it is not on a mount of this client")


class Existing:
    """That a file in the sandbox's own filesystem exists, and cannot be read from here."""


EXISTING: Final = Existing()

Inside: TypeAlias = bytes | Unread | Existing
"""What is known of a file in the sandbox's own filesystem."""

READ_TOGETHER: Final = 50
"""Files read before the first of them is hashed. Larger groups are no faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A stored file whose source is to be checked."""

    source: FilesystemSource
    object_id: str
    object_hash: str | None
    """The hash of the stored version. If None, the source is always read."""
    is_stub: bool

    @classmethod
    def of(cls, file: File) -> Self:
        assert isinstance(file.source, FilesystemSource), "the only source type there is"
        return cls(
            source=file.source,
            object_id=file.object_id,
            object_hash=file.object_hash,
            is_stub=file.is_stub,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """The object at a path, and whether it can be read."""

    source: FilesystemSource
    object_id: str
    agent_path: str
    size: int
    mtime_ns: int | None
    unread: Unread | None
    inside: Inside | None = field(default=None, repr=False)
    """What is known of a file in the sandbox's own filesystem."""


class SourceReader:
    """Reads the sources that one client can reach."""

    def __init__(
        self,
        files: HostFiles,
        *,
        fingerprints: Fingerprints,
        clock_ns: Callable[[], int] = time.time_ns,
        kept: Callable[[str], str] | None = None,
    ) -> None:
        self._files = files
        self._kept = kept
        self._fingerprints = fingerprints
        self._clock_ns = clock_ns
        mounts = files.mounts
        prefixes = ", ".join(mount.agent_prefix for mount in mounts.mappings) or "there are none"
        self._outside = RefusedFile(Refusal.OUTSIDE, f"outside the mounts ({prefixes:.400})")
        self._mounted = [
            (mount.filesystem_id, mount.canonical_prefix.rstrip("/") + "/", mount.canonical_prefix)
            for mount in mounts.mappings
            if mounts.is_on_host(mount)
        ]
        if not mounts.sandboxed:
            self._mounted.append((mounts.default_filesystem_id, "/", "/"))

    def look(self, path: str, *, inside: Inside | None = None) -> Sighting:
        """Find the object at an agent path; raise ``Incorrect`` if the path is invalid.

        ``inside`` is used only for a file in the sandbox's own filesystem.
        """
        result = self._files.look(path)
        if isinstance(result, SeenFile):
            return _sighting(result.location, result.agent_path, result)
        if isinstance(result, RefusedFile) and result.refusal is Refusal.NAME:
            raise Incorrect(f"{path!r:.200}: {result.reason}")
        location = self._files.mounts.forward(path)
        if location.on_host:
            return _sighting(location, path, result)
        return _sighting(location, path, self._outside, inside=inside)

    def look_again(self, target: Target) -> Sighting:
        """Look for a stored file at its path."""
        location = _location(target.source)
        agent_path, unread = self._reach(location)
        result = unread or self._files.look(agent_path)
        if isinstance(result, SeenFile) and result.location != location:
            result = _REPLACED_BY_LINK
        return _sighting(location, agent_path, result, object_id=target.object_id)

    def is_proven(self, target: Target) -> bool:
        """Return whether the file's fingerprint proves that it has not changed.

        This only needs a stat of the path: if inode and times are equal, it is the file that was
        reached through the mounts before.
        """
        if target.object_hash is None or not self._fingerprints.knows(target.object_id):
            return False
        source = target.source
        if not self._is_mounted(source):
            return False
        try:
            status = os.lstat(source.path)
        except OSError:
            return False
        return self._fingerprints.prove(target.object_id, status, object_hash=target.object_hash)

    def expected_size(self, target: Target) -> int:
        """Return the size of the file at the target's path, or 0 if that is unknown."""
        if not self._is_mounted(target.source):
            return 0
        try:
            return os.lstat(target.source.path).st_size
        except OSError:
            return 0

    def read_again(self, targets: Sequence[Target]) -> list[Observation]:
        """Read stored files at their paths."""
        observations: list[Observation] = []
        for start in range(0, len(targets), READ_TOGETHER):
            group = targets[start : start + READ_TOGETHER]
            # Hashing each file right after reading it takes a third longer, because the two evict
            # each other from the processor's caches.
            read = [self._read_target(target) for target in group]
            observations += (
                self._observe(target.source, result, looked_at_ns)
                if isinstance(result, ReadFile) and _is_at(result.location, target.source)
                else self.read(self.look_again(target))
                for target, (looked_at_ns, result) in zip(group, read, strict=True)
            )
        return observations

    def read(self, sighting: Sighting) -> Observation:
        """Read the file of a sighting."""
        if sighting.inside is not None:
            return self._observe_inside(sighting, sighting.inside)
        if sighting.unread is not None:
            return _observation(sighting, None, sighting.unread)
        looked_at_ns = self._clock_ns()
        result = self._files.read(sighting.agent_path)
        if not isinstance(result, ReadFile):
            return _observation(sighting, None, result)
        if not _is_at(result.location, sighting.source):
            return _observation(sighting, None, _REPLACED_BY_LINK)
        return self._observe(sighting.source, result, looked_at_ns)

    def _observe_inside(self, sighting: Sighting, inside: Inside) -> Observation:
        if isinstance(inside, Existing):
            return seen_only(sighting)
        if not isinstance(inside, bytes):
            confirmed = isinstance(inside, MissingFile) or is_too_large(inside)
            return _observation(sighting, None, inside if confirmed else sighting.unread)
        if len(inside) > FILE_BYTES_MAX:
            reason = f"{len(inside):,} bytes; {FILE_BYTES_MAX:,} at most are kept"
            return _observation(sighting, None, RefusedFile(Refusal.TOO_LARGE, reason))
        file = File.read(sighting.source, data=inside, kept=self._kept)
        return _observation(sighting, file, None)

    def _read_target(self, target: Target) -> tuple[int, ReadFile | Unread]:
        looked_at_ns = self._clock_ns()
        agent_path, unread = self._reach(_location(target.source))
        return looked_at_ns, unread or self._files.read(agent_path)

    def _reach(self, location: FileLocation) -> tuple[str, Unread | None]:
        """Return the agent path of a location, and why it cannot be read there, if so."""
        mounts = self._files.mounts
        if not mounts.declares(location.filesystem_id):
            return location.path, _UNDECLARED
        agent_path = mounts.reverse(location)
        mapped = mounts.location_of(agent_path)
        if mapped != location:
            return agent_path, _NOT_MOUNTED
        return agent_path, None if mapped.on_host else self._outside

    def _observe(
        self, source: FilesystemSource, result: ReadFile, looked_at_ns: int
    ) -> Observation:
        file = File.read(source, data=result.data, kept=self._kept)
        self._fingerprints.learn(
            file.object_id,
            result.fingerprint,
            object_hash=file.object_hash,
            looked_at_ns=looked_at_ns,
        )
        return Observation(
            source=source,
            object_id=file.object_id,
            file=file,
            mtime_ns=result.fingerprint.mtime_ns,
        )

    def _is_mounted(self, source: FilesystemSource) -> bool:
        return any(
            source.filesystem_id == filesystem_id
            and (source.path.startswith(below) or source.path == itself)
            for filesystem_id, below, itself in self._mounted
        )


def seen_only(sighting: Sighting) -> Observation:
    """Return the observation that the file exists and was not read."""
    return _observation(sighting, None, None)


def _sighting(
    location: FileLocation,
    agent_path: str,
    result: SeenFile | Unread | None,
    *,
    object_id: str | None = None,
    inside: Inside | None = None,
) -> Sighting:
    source = FilesystemSource(filesystem_id=location.filesystem_id, path=location.path)
    seen = result if isinstance(result, SeenFile) else None
    return Sighting(
        source=source,
        object_id=object_id or sourced_id(File.kind, source),
        agent_path=agent_path,
        size=seen.fingerprint.size if seen else 0,
        mtime_ns=seen.fingerprint.mtime_ns if seen else None,
        unread=None if isinstance(result, SeenFile) else result,
        inside=inside,
    )


def _observation(sighting: Sighting, file: File | None, unread: Unread | None) -> Observation:
    return Observation(
        source=sighting.source,
        object_id=sighting.object_id,
        file=file,
        mtime_ns=sighting.mtime_ns,
        unread=unread,
        inside=sighting.inside is not None,
    )


def _is_at(location: FileLocation, source: FilesystemSource) -> bool:
    return (location.filesystem_id, location.path) == (source.filesystem_id, source.path)


def _location(source: FilesystemSource) -> FileLocation:
    return FileLocation(filesystem_id=source.filesystem_id, path=source.path, on_host=True)
