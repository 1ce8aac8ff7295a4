"""The enumerations of the experience layer, as they are stored. Pure.

``EventType`` is shared with the audit log and is in ``core.events.event_type``;
``CompactionTrigger`` is that of sessions, in ``core.objects.compaction``.
"""

from enum import IntEnum, StrEnum

from ctxmgr.core.events.event_type import EventType

__all__ = [
    "BudStatus",
    "CompressionLevel",
    "EventType",
    "Fidelity",
    "TagSource",
    "TagType",
    "TargetType",
]


class TagType(StrEnum):
    """Where the meaning of a tag comes from."""

    CONCEPT = "concept"
    ENTITY = "entity"
    BUD = "bud"
    CUSTOM = "custom"


class BudStatus(StrEnum):
    """How far a bud has come on its way to a graft."""

    COLLECTING = "collecting"
    READY = "ready"
    TRAINING = "training"
    PROMOTED = "promoted"
    ABANDONED = "abandoned"


class TargetType(StrEnum):
    """What a tag or a comment is attached to."""

    TIMESTEP = "timestep"
    EVENT = "event"
    RANGE = "range"


class TagSource(StrEnum):
    """Who applied a tag."""

    AUTO = "auto"
    """A lens."""
    MANUAL = "manual"
    """The agent."""
    INHERITED = "inherited"
    """It follows from the application of a parent tag."""


class Fidelity(StrEnum):
    """How much is kept of a window of time."""

    HOT = "hot"
    WARM = "warm"
    SUBMITTED = "submitted"
    COLD = "cold"


class CompressionLevel(IntEnum):
    """The unit of time that one record stands for. Only COLD data is above TOKEN."""

    TOKEN = 0
    REPLY = 1
    SESSION = 2
    DAY = 3
    WEEK = 4
    MONTH = 5
    QUARTER = 6
    YEAR = 7
