"""What is looked for in the log. Pure.

All filters have to hold. Of ``tags``, one is enough; of ``tags_all``, each is needed.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ctxmgr.core.events.event_type import EventType
from ctxmgr.errors import Incorrect
from ctxmgr.experience.records.timestep import TICK_MAX

LIMIT: Final = 100
LIMIT_MAX: Final = 100_000
"""Records of one answer, some 100 MB."""

OFFSET_MAX: Final = 100_000_000
CONCEPTS_MAX: Final = 32
TAGS_MAX: Final = 1_000
TEXT_CHARS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFilters:
    """Conditions on timesteps. Ranges are inclusive."""

    session_id: str | None = None
    tick_range: tuple[int, int] | None = None
    time_range: tuple[int, int] | None = None
    """UTC milliseconds."""
    event_types: tuple[str, ...] | None = None
    """``EventType``s."""
    tags: tuple[str, ...] | None = None
    """Ids of tags."""
    tags_all: tuple[str, ...] | None = None
    concept_activations: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Concept id → lowest and highest score."""
    text_search: str | None = None
    """A part of the content, whatever its case."""
    limit: int = LIMIT
    offset: int = 0

    def __post_init__(self) -> None:
        _check(0 < self.limit <= LIMIT_MAX, f"limit is 1 to {LIMIT_MAX:,}, not {self.limit}")
        _check(0 <= self.offset <= OFFSET_MAX, f"offset is 0 to {OFFSET_MAX:,}, not {self.offset}")
        for name in ("tick_range", "time_range"):
            given = getattr(self, name)
            _check(
                given is None or given[0] <= given[1],
                f"{name} {given}: its ends are swapped",
            )
            _check(
                given is None or max(map(abs, given)) <= TICK_MAX,
                f"{name} {given}: its ends are within ±{TICK_MAX}",
            )
        _check(
            len(self.concept_activations) <= CONCEPTS_MAX,
            f"at most {CONCEPTS_MAX} concepts",
        )
        for concept, (low, high) in self.concept_activations.items():
            _check(
                math.isfinite(low) and math.isfinite(high) and low <= high,
                f"the scores {low} to {high} of {concept!r:.80} are not a range",
            )
        unknown = set(self.event_types or ()) - set(EventType)
        _check(not unknown, f"{', '.join(sorted(unknown))!r:.80} is not an event type")
        tags = len(self.tags or ()) + len(self.tags_all or ())
        _check(tags <= TAGS_MAX, f"at most {TAGS_MAX:,} tags at once")
        _check(
            len(self.text_search or "") <= TEXT_CHARS_MAX,
            f"a text to search for has at most {TEXT_CHARS_MAX:,} characters",
        )


def _check(holds: bool, message: str) -> None:  # noqa: FBT001
    if not holds:
        raise Incorrect(message)
