"""Evaluate every lens, decide which directives apply, and record both. Appends to the log.

Lenses score a text or a hidden state: concept → score. Some are hidden from the agent; the audit
log records all of them. A directive applies when the score of its concept reaches its threshold.
An evaluation that cannot be recorded raises, so no steering is applied unrecorded.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from ctxmgr.audit.writer import AuditLogWriter
from ctxmgr.core.events.event_type import EventType

Scores: TypeAlias = Callable[[Any], Mapping[str, float]]
"""A lens: a text or a hidden state in, concept → score out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Directive:
    """What to do when a concept is active."""

    concept_id: str
    threshold: float
    """The score from which it applies."""
    strength: float
    """How strongly to steer; negative suppresses the concept."""
    rationale: str
    source: str
    """Who gave it."""


class SteeringController:
    """Evaluates lenses. Without an audit log it decides in the same way and records nothing."""

    def __init__(
        self,
        lenses: Sequence[Scores],
        *,
        directives: Sequence[Directive] = (),
        audit: AuditLogWriter | None = None,
    ) -> None:
        self._lenses = tuple(lenses)
        self._directives = tuple(directives)
        self._audit = audit

    async def evaluate_and_steer(
        self, observed: Any, *, content: str, session_id: str, tick: int
    ) -> tuple[Directive, ...]:
        """Return the directives that apply to what a model is about to say.

        ``observed`` is given to every lens; ``content`` is what is recorded of it.
        """
        scores: dict[str, float] = {}
        for lens in self._lenses:
            scores.update(lens(observed))
        active = tuple(
            directive
            for directive in self._directives
            if scores.get(directive.concept_id, float("-inf")) >= directive.threshold
        )
        if self._audit is not None:
            await self._audit.record(
                session_id=session_id,
                tick=tick,
                event_type=EventType.STEERING,
                raw_content=content,
                lens_activations=scores,
                steering_applied=[asdict(directive) for directive in active],
            )
        return active
