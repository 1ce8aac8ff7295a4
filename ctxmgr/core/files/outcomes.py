"""The outcomes of looking at a file or reading it; none is an exception. Pure.

    SeenFile      it exists: its location and fingerprint
    └── ReadFile  and its bytes
    MissingFile   it does not exist, and its mount is reachable
    RefusedFile   it must not be read, and why
    Unreachable   unknown: no permission, an I/O error, or its mount or volume is missing

Only ``MissingFile`` can mean that a file was deleted; an unreachable file is orphaned. A file that
was seen before was deleted if the folder that it is missing from has changed since: removing a name
changes its folder. If the folder has not changed, nothing was removed from it, so it is not the
folder that contained the file: a volume that was mounted there no longer is.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from ctxmgr.core.files.mounts import FileLocation

CLOCK_GRAIN_NS: Final = 2_000_000_000
"""The coarsest resolution of file times: FAT has two seconds."""


TICK_NS: Final = 20_000_000
"""How far the time of a change may lag behind the clock: Linux takes it from its last timer tick,
which comes every ten milliseconds or more often."""


class Refusal(StrEnum):
    """Why a file is not read."""

    OWN = "own"
    """It belongs to ctxmgr itself: its database, for example."""
    OUTSIDE = "outside"
    """It is in the sandbox's own filesystem and can only be read through the sandbox."""
    LOOP = "loop"
    """A loop of symbolic links, or too many of them."""
    NOT_A_FILE = "not_a_file"
    """A folder, FIFO, socket or device, or a file on a virtual filesystem."""
    TOO_LARGE = "too_large"
    NAME = "name"
    """An invalid path: relative, with NUL, too long, too deep, or not valid UTF-8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """The attributes that show without reading whether a file has changed. Never stored."""

    mtime_ns: int
    ctime_ns: int
    size: int
    inode: int

    def is_settled(self, *, looked_at_ns: int) -> bool:
        """Return whether an equal fingerprint will prove that the file has not changed.

        It does not for a file that changed just before: the file may change again within the
        resolution of its filesystem's clock and keep its size.
        """
        return looked_at_ns - max(self.mtime_ns, self.ctime_ns) > CLOCK_GRAIN_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFile:
    """A regular file that can be read."""

    location: FileLocation
    """Its identity, with all links resolved."""
    agent_path: str
    """Its path for the agent, with all links resolved."""
    fingerprint: Fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFile(SeenFile):
    """A regular file that was read."""

    data: bytes = field(repr=False)
    whole: bool
    """False if it changed during every attempt, so the bytes may mix two states."""


@dataclass(frozen=True, slots=True)
class MissingFile:
    reason: str
    folder_changed_ns: int | None = None
    """When the nearest folder that exists on its path was last changed; None if unknown."""

    @property
    def removed_until_ms(self) -> int | None:
        """The last millisecond in which it can have been removed; None if unknown."""
        changed_ns = self.folder_changed_ns
        if changed_ns is None:
            return None
        whole_seconds = changed_ns % 1_000_000_000 == 0
        return (changed_ns + (CLOCK_GRAIN_NS if whole_seconds else TICK_NS)) // 1_000_000


FOLDER: Final = "a folder"


@dataclass(frozen=True, slots=True)
class RefusedFile:
    refusal: Refusal
    reason: str

    @property
    def is_folder(self) -> bool:
        return self.refusal is Refusal.NOT_A_FILE and self.reason == FOLDER


@dataclass(frozen=True, slots=True)
class Unreachable:
    reason: str


Unread: TypeAlias = MissingFile | RefusedFile | Unreachable
