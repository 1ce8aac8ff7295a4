"""What can come of asking for a file: values, none of them an error. Pure.

    Seen          it is there: where, and how it looked
    └── Read      and these are its bytes
    Gone          confirmed deleted: nothing is there, and its mount is reachable
    Refused       not to be read, now or later, and why
    Unreachable   nobody knows: no permission, an I/O error, the mount itself is missing

Only ``Gone`` says that a file was deleted; a source that is unreachable is orphaned.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from ctxmgr.core.mounts import Place

CLOCK_GRAIN_NS: Final = 2_000_000_000
"""The coarsest clock of a filesystem in use: FAT keeps times to two seconds."""


class Refusal(StrEnum):
    """Why a file is not read."""

    OUTSIDE = "outside"
    """It is in the sandbox's own filesystem: read through the sandbox, or not at all."""
    LOOP = "loop"
    """Links that lead to each other, or too many of them."""
    NOT_A_FILE = "not_a_file"
    """A folder, FIFO, socket or device, or a file that the kernel makes up as it is read."""
    TOO_LARGE = "too_large"
    NAME = "name"
    """No path can be so: relative, NUL, too long, too deep, or no UTF-8 and so no name for us."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """What tells without reading that a file has changed. Kept beside the store, never in it."""

    mtime_ns: int
    ctime_ns: int
    size: int
    inode: int

    def is_settled(self, *, looked_at_ns: int) -> bool:
        """Tell whether an equal fingerprint later proves that nothing has changed.

        Not for a file that changed just before the look: it may change again within the grain of
        its filesystem's clock, at the same size, and look the same.
        """
        return looked_at_ns - max(self.mtime_ns, self.ctime_ns) > CLOCK_GRAIN_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A regular file that can be read."""

    place: Place
    """After all links: its identity."""
    agent_path: str
    """After all links, as the agent would write it."""
    fingerprint: Fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class Read(Seen):
    """A regular file that was read."""

    data: bytes = field(repr=False)
    whole: bool
    """False: it changed each time it was read, so this may mix two states; look again."""


@dataclass(frozen=True, slots=True)
class Gone:
    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    refusal: Refusal
    reason: str


@dataclass(frozen=True, slots=True)
class Unreachable:
    reason: str


Unread: TypeAlias = Gone | Refused | Unreachable
