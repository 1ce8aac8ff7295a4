"""Looking at sources and reading them, for indexing. Reads the host's disk, through ``hostfiles``.

    an agent's path ─┐                                  ┌─► proven: it looks as when it was read
                     ├─► a sighting: which object it is ┤
    a known object ──┘   and how large                  └─► an observation: its bytes, or why not

A known object is looked for where it was. What stands there now as a link, or is shown by no mount
of this client, is another file or nobody's: the object is unreachable, whatever lies at its path.

All of it may block: call it in a thread.
"""

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Self

from ctxmgr.core.contents import File
from ctxmgr.core.envelopes import sourced_id
from ctxmgr.core.file_outcomes import Read, Refusal, Refused, Seen, Unreachable, Unread
from ctxmgr.core.fingerprints import Fingerprints
from ctxmgr.core.hostfiles import FILE_BYTES_MAX, HostFiles
from ctxmgr.core.index_plans import Observation
from ctxmgr.core.mounts import Place
from ctxmgr.core.sources import FilesystemSource
from ctxmgr.errors import Incorrect

_ANOTHER: Final = Unreachable("a link stands there now, to another file")
_UNDECLARED: Final = Unreachable("this client does not declare its filesystem")
_UNSHOWN: Final = Unreachable("no mount of this client shows it")
_INSIDE: Final = Refused(Refusal.OUTSIDE, "it is in the sandbox's own filesystem")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A stored file whose source is to be looked at again."""

    source: FilesystemSource
    object_id: str
    object_hash: str | None
    """Of the version that is known; None: none is, so the source is read in any case."""
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
    """Which object is at a path, and whether it can be read."""

    source: FilesystemSource
    object_id: str
    agent_path: str
    size: int
    mtime_ns: int | None
    unread: Unread | None
    output: bytes | None = field(default=None, repr=False)
    """What a tool gave as the file's bytes, if that may be believed."""


class Observing:
    """The sources that one client can reach."""

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
        self._shown = [
            (each.filesystem_id, each.canonical_prefix.rstrip("/") + "/", each.canonical_prefix)
            for each in mounts.mappings
            if mounts.is_on_host(each)
        ]
        if not mounts.sandboxed:
            self._shown.append((mounts.default_filesystem_id, "/", "/"))

    def look(self, path: str, *, output: bytes | None = None) -> Sighting:
        """Find the object of an agent's path; ``Incorrect`` where there can be none."""
        found = self._files.look(path)
        if isinstance(found, Seen):
            trusted = output if self._is_faithful(found, output) else None
            return _sighting(found.place, found.agent_path, found, output=trusted)
        if isinstance(found, Refused) and found.refusal is Refusal.NAME:
            raise Incorrect(f"{path!r:.200}: {found.reason}")
        place = self._files.mounts.forward(path)
        if place.on_host:
            return _sighting(place, path, found)
        if output is None:
            return _sighting(place, path, _INSIDE)
        return _sighting(place, path, _too_large(output), output=output)

    def look_again(self, target: Target) -> Sighting:
        """Look at a known object where it was."""
        mounts, source = self._files.mounts, target.source
        place = Place(filesystem_id=source.filesystem_id, path=source.path, on_host=True)
        if not mounts.declares(source.filesystem_id):
            return _sighting(place, source.path, _UNDECLARED, object_id=target.object_id)
        agent_path = mounts.reverse(place)
        shown = mounts.place_of(agent_path)
        if shown == place and shown.on_host:
            found = self._files.look(agent_path)
            if isinstance(found, Seen) and found.place != place:
                found = _ANOTHER
        else:
            found = _UNSHOWN if shown != place else _INSIDE
        return _sighting(place, agent_path, found, object_id=target.object_id)

    def is_proven(self, target: Target) -> bool:
        """Tell without reading whether the source still holds what the known version says.

        Only asks how the file at its path looks: an equal inode with equal times is the file that
        was reached through the mounts before.
        """
        if target.object_hash is None or not self._fingerprints.knows(target.object_id):
            return False
        source = target.source
        if not self._is_shown(source):
            return False
        try:
            status = os.lstat(source.path)
        except OSError:
            return False
        return self._fingerprints.prove(target.object_id, status, object_hash=target.object_hash)

    def read_at_once(self, paths: Iterable[str], *, bytes_max: int) -> list[Observation]:
        """Read the files at agents' paths without a look before; ``Incorrect`` as for ``look``.

        No path is taken once so many bytes are read. All are read before the first is hashed:
        what the processor learns of one, the other makes it forget, which costs a third more.
        """
        read: list[tuple[str, int, Read | Unread]] = []
        size = 0
        for path in paths:
            looked_at_ns = self._clock_ns()
            found = self._files.read(path)
            read.append((path, looked_at_ns, found))
            size += len(found.data) if isinstance(found, Read) else 0
            if size >= bytes_max:
                break
        return [
            self._observed(_source(found.place), found, looked_at_ns)
            if isinstance(found, Read)
            else self.read(self.look(path))
            for path, looked_at_ns, found in read
        ]

    def read(self, sighting: Sighting) -> Observation:
        """Read what was sighted."""
        if sighting.unread is not None:
            return _observation(sighting, None, sighting.unread)
        if sighting.output is not None:
            file = File.read(sighting.source, data=sighting.output, kept=self._kept)
            return _observation(sighting, file, None)
        looked_at_ns = self._clock_ns()
        found = self._files.read(sighting.agent_path)
        if not isinstance(found, Read):
            return _observation(sighting, None, found)
        if not _is_at(found.place, sighting.source):
            return _observation(sighting, None, _ANOTHER)
        return self._observed(sighting.source, found, looked_at_ns)

    def _observed(self, source: FilesystemSource, found: Read, looked_at_ns: int) -> Observation:
        file = File.read(source, data=found.data, kept=self._kept)
        self._fingerprints.learn(
            file.object_id,
            found.fingerprint,
            object_hash=file.object_hash,
            looked_at_ns=looked_at_ns,
        )
        return Observation(
            source=source,
            object_id=file.object_id,
            file=file,
            mtime_ns=found.fingerprint.mtime_ns,
        )

    def _is_faithful(self, seen: Seen, output: bytes | None) -> bool:
        # A file that changed just now may have changed between the tool's reading and this look.
        return (
            output is not None
            and len(output) == seen.fingerprint.size
            and seen.fingerprint.is_settled(looked_at_ns=self._clock_ns())
        )

    def _is_shown(self, source: FilesystemSource) -> bool:
        return any(
            source.filesystem_id == filesystem_id
            and (source.path.startswith(below) or source.path == itself)
            for filesystem_id, below, itself in self._shown
        )


def seen_only(sighting: Sighting) -> Observation:
    """Make of a sighting that the file is there, and nothing more."""
    return _observation(sighting, None, None)


def _sighting(
    place: Place,
    agent_path: str,
    found: Seen | Unread | None,
    *,
    object_id: str | None = None,
    output: bytes | None = None,
) -> Sighting:
    source = _source(place)
    seen = found if isinstance(found, Seen) else None
    return Sighting(
        source=source,
        object_id=object_id or sourced_id(File.kind, source),
        agent_path=agent_path,
        size=seen.fingerprint.size if seen else 0,
        mtime_ns=seen.fingerprint.mtime_ns if seen else None,
        unread=None if isinstance(found, Seen) else found,
        output=output,
    )


def _observation(sighting: Sighting, file: File | None, unread: Unread | None) -> Observation:
    return Observation(
        source=sighting.source,
        object_id=sighting.object_id,
        file=file,
        mtime_ns=sighting.mtime_ns,
        unread=unread,
    )


def _too_large(output: bytes) -> Refused | None:
    if len(output) <= FILE_BYTES_MAX:
        return None
    return Refused(Refusal.TOO_LARGE, f"{len(output):,} bytes; {FILE_BYTES_MAX:,} at most are kept")


def _is_at(place: Place, source: FilesystemSource) -> bool:
    return (place.filesystem_id, place.path) == (source.filesystem_id, source.path)


def _source(place: Place) -> FilesystemSource:
    return FilesystemSource(filesystem_id=place.filesystem_id, path=place.path)
