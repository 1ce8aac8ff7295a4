"""Tags, their applications, and comments. Pure."""

from dataclasses import asdict, dataclass
from typing import Any, Final

from ctxmgr.errors import Incorrect
from ctxmgr.experience.records.kinds import BudStatus, TagSource, TagType, TargetType
from ctxmgr.experience.records.timestep import TICK_MAX, check_session_id, parse_timestep_id

EVENT_ID_CHARS_MAX: Final = 1_024
"""Characters of an event's id; tool calls have the ids of the core's objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationTarget:
    """What a tag or a comment is attached to: a timestep, an event or a range of ticks."""

    session_id: str
    target_type: TargetType
    timestep_id: str | None = None
    event_id: str | None = None
    range_start: int | None = None
    """The first tick of a range."""
    range_end: int | None = None
    """The last tick of a range, inclusive."""

    def fields(self) -> dict[str, Any]:
        """Return the fields by name, for an annotation of this target."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A word for something that is experienced."""

    id: str
    name: str
    tag_type: TagType
    concept_id: str | None = None
    """Of concept tags: the id in its pack, such as ``org.hatcat/sumo-wordnet-v4::Honesty``."""
    entity_type: str | None = None
    """Of entity tags: person, organization, place, thing and so on."""
    bud_status: BudStatus | None = None
    created_at: int
    """UTC milliseconds."""
    created_by: str
    """The id of the agent, or ``system``."""
    description: str | None = None
    origin_type: TagType | None = None
    """Of a bud that was another tag before: what it was."""
    related_concepts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TagApplication(AnnotationTarget):
    """A tag on a timestep, an event or a range of ticks."""

    id: str
    tag_id: str
    confidence: float = 1.0
    source: TagSource = TagSource.MANUAL
    created_at: int
    """UTC milliseconds."""
    note: str | None = None
    inherited_from: str | None = None
    """The tag whose application this one follows from."""

    def __post_init__(self) -> None:
        if not 0 <= self.confidence <= 1:
            raise Incorrect(f"a confidence is between 0 and 1, not {self.confidence}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment(AnnotationTarget):
    """What an agent has to say about a timestep, an event or a range of ticks."""

    id: str
    content: str
    created_at: int
    """UTC milliseconds."""
    updated_at: int | None = None


def choose_target(
    session_id: str | None,
    *,
    timestep_id: str | None = None,
    event_id: str | None = None,
    tick_range: tuple[int, int] | None = None,
) -> AnnotationTarget:
    """Return the one target that is given; ``ValueError`` if there is none, or more than one.

    A timestep names its session. Events and ranges belong to the session that is given.
    """
    given = [each for each in (timestep_id, event_id, tick_range) if each is not None]
    if len(given) != 1:
        raise ValueError(
            f"exactly one of timestep_id, event_id and tick_range is needed, not {len(given)}"
        )
    if timestep_id is not None:
        owner, _ = parse_timestep_id(timestep_id)
        return AnnotationTarget(
            session_id=owner, target_type=TargetType.TIMESTEP, timestep_id=timestep_id
        )
    if session_id is None:
        raise Incorrect("no session is active: call start_session first")
    check_session_id(session_id)
    if event_id is not None:
        if not 0 < len(event_id) <= EVENT_ID_CHARS_MAX or not event_id.isprintable():
            raise Incorrect(
                f"{event_id!r:.80} is not the id of an event: 1 to {EVENT_ID_CHARS_MAX} printable"
                " characters"
            )
        return AnnotationTarget(
            session_id=session_id, target_type=TargetType.EVENT, event_id=event_id
        )
    assert tick_range is not None
    start, end = tick_range
    if not (0 <= start <= TICK_MAX and 0 <= end <= TICK_MAX):
        raise Incorrect(f"the ticks {start} to {end} are not within 0 and {TICK_MAX}")
    if start > end:
        raise Incorrect(f"the range {start} to {end} is empty: the first tick comes first")
    return AnnotationTarget(
        session_id=session_id, target_type=TargetType.RANGE, range_start=start, range_end=end
    )
