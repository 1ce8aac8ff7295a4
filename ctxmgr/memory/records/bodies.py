"""What a memory says, by type. Pure.

    fact       a key and a value in a scope, not prose
    episode    what happened: the narrative is stored and never shown, its levels are
    pattern    a template with named slots, behind a hint of one line
    workflow   ordered steps, behind a hint of one line

Bodies are checked when they are made: a body that exists can be stored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeAlias

from ctxmgr.errors import Incorrect

KEY_CHARS_MAX: Final = 120
VALUE_CHARS_MAX: Final = 2_000
HINT_CHARS_MAX: Final = 200
TEXT_CHARS_MAX: Final = 64_000
STEPS_MAX: Final = 50
SLOTS_MAX: Final = 20
ARTIFACTS_MAX: Final = 50
REFERENCE_CHARS_MAX: Final = 200


class MemoryType(StrEnum):
    """The four types of memory."""

    FACT = "fact"
    EPISODE = "episode"
    PATTERN = "pattern"
    WORKFLOW = "workflow"


class ArtifactType(StrEnum):
    """What an episode left behind."""

    COMMIT = "commit"
    PR = "pr"
    ADR = "adr"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A reference to something that an episode left behind."""

    artifact_type: ArtifactType
    artifact_ref: str

    def __post_init__(self) -> None:
        _check_text("artifact_ref", self.artifact_ref, REFERENCE_CHARS_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One thing that holds: ``indentation = 4 spaces`` in the scope ``python``."""

    key: str
    value: str
    scope: str | None = None
    """What it is about, such as a language, a folder or a service; None: everything."""
    reason: str | None = None
    confidence: float = 1.0

    def __post_init__(self) -> None:
        _check_line("key", self.key, KEY_CHARS_MAX)
        _check_text("value", self.value, VALUE_CHARS_MAX)
        if self.scope is not None:
            _check_line("scope", self.scope, KEY_CHARS_MAX)
        if self.reason is not None:
            _check_text("reason", self.reason, VALUE_CHARS_MAX)
        if not 0.0 <= self.confidence <= 1.0:
            raise Incorrect(f"confidence is 0 to 1, not {self.confidence!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """Something that happened, from its problem to its outcome."""

    title: str
    full_narrative: str
    problem: str | None = None
    fix: str | None = None
    outcome: str | None = None
    artifacts: tuple[Artifact, ...] = ()

    def __post_init__(self) -> None:
        _check_line("title", self.title, HINT_CHARS_MAX)
        _check_text("full_narrative", self.full_narrative, TEXT_CHARS_MAX)
        for name in ("problem", "fix", "outcome"):
            text = getattr(self, name)
            if text is not None:
                _check_text(name, text, VALUE_CHARS_MAX)
        if len(self.artifacts) > ARTIFACTS_MAX:
            raise Incorrect(f"{len(self.artifacts)} artifacts, at most {ARTIFACTS_MAX} are kept")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A shape of code that is repeated, with named slots."""

    name: str
    trigger: str
    """When it applies, such as ``new HTTP endpoint``."""
    template: Mapping[str, str]
    """The slots in their order, such as route, validation, response."""
    hint: str

    def __post_init__(self) -> None:
        _check_line("name", self.name, KEY_CHARS_MAX)
        _check_line("trigger", self.trigger, HINT_CHARS_MAX)
        _check_line("hint", self.hint, HINT_CHARS_MAX)
        if not 0 < len(self.template) <= SLOTS_MAX:
            raise Incorrect(f"a template has 1 to {SLOTS_MAX} slots, not {len(self.template)}")
        for slot, text in self.template.items():
            _check_line("slot", slot, KEY_CHARS_MAX)
            _check_text(slot, text, VALUE_CHARS_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """Steps that are taken in order."""

    name: str
    trigger: str
    steps: tuple[str, ...]
    hint: str
    details: Mapping[str, str] = field(default_factory=dict)
    """More about a step, by its text."""

    def __post_init__(self) -> None:
        _check_line("name", self.name, KEY_CHARS_MAX)
        _check_line("trigger", self.trigger, HINT_CHARS_MAX)
        _check_line("hint", self.hint, HINT_CHARS_MAX)
        if not 0 < len(self.steps) <= STEPS_MAX:
            raise Incorrect(f"a workflow has 1 to {STEPS_MAX} steps, not {len(self.steps)}")
        for step in self.steps:
            _check_line("step", step, HINT_CHARS_MAX)
        for step, text in self.details.items():
            if step not in self.steps:
                raise Incorrect(f"details of {step!r:.80}, which is not one of the steps")
            _check_text("details", text, VALUE_CHARS_MAX)


Body: TypeAlias = Fact | Episode | Pattern | Workflow


def type_of(body: Body) -> MemoryType:
    match body:
        case Fact():
            return MemoryType.FACT
        case Episode():
            return MemoryType.EPISODE
        case Pattern():
            return MemoryType.PATTERN
        case Workflow():
            return MemoryType.WORKFLOW


def stored_body(body: Body) -> dict[str, Any]:
    """Return the form that the core store keeps."""
    match body:
        case Fact(key=key, value=value, scope=scope, reason=reason, confidence=confidence):
            return {
                "key": key,
                "value": value,
                "scope": scope,
                "reason": reason,
                "confidence": confidence,
            }
        case Episode():
            return {
                "title": body.title,
                "full_narrative": body.full_narrative,
                "problem": body.problem,
                "fix": body.fix,
                "outcome": body.outcome,
                "artifacts": [
                    {"artifact_type": str(each.artifact_type), "artifact_ref": each.artifact_ref}
                    for each in body.artifacts
                ],
            }
        case Pattern():
            return {
                "name": body.name,
                "trigger": body.trigger,
                "slots": [[slot, text] for slot, text in body.template.items()],
                "hint": body.hint,
            }
        case Workflow():
            return {
                "name": body.name,
                "trigger": body.trigger,
                "steps": list(body.steps),
                "hint": body.hint,
                "details": dict(body.details),
            }


def read_body(memory_type: MemoryType, stored: Mapping[str, Any]) -> Body:
    """Read a stored body; one of the errors that ``read_memory`` expects if it is damaged."""
    match memory_type:
        case MemoryType.FACT:
            return Fact(
                key=stored["key"],
                value=stored["value"],
                scope=stored["scope"],
                reason=stored["reason"],
                confidence=float(stored["confidence"]),
            )
        case MemoryType.EPISODE:
            return Episode(
                title=stored["title"],
                full_narrative=stored["full_narrative"],
                problem=stored["problem"],
                fix=stored["fix"],
                outcome=stored["outcome"],
                artifacts=tuple(
                    Artifact(
                        artifact_type=ArtifactType(each["artifact_type"]),
                        artifact_ref=each["artifact_ref"],
                    )
                    for each in stored["artifacts"]
                ),
            )
        case MemoryType.PATTERN:
            return Pattern(
                name=stored["name"],
                trigger=stored["trigger"],
                template=dict(stored["slots"]),
                hint=stored["hint"],
            )
        case MemoryType.WORKFLOW:
            return Workflow(
                name=stored["name"],
                trigger=stored["trigger"],
                steps=tuple(stored["steps"]),
                hint=stored["hint"],
                details=dict(stored["details"]),
            )


def _check_text(name: str, text: object, chars_max: int) -> None:
    if not isinstance(text, str) or not text.strip():
        raise Incorrect(f"{name} must be a text that is not empty, not {text!r:.80}")
    if len(text) > chars_max:
        raise Incorrect(f"{name} has {len(text):,} characters, at most {chars_max:,} are kept")


def _check_line(name: str, text: object, chars_max: int) -> None:
    _check_text(name, text, chars_max)
    if not str(text).isprintable():
        raise Incorrect(f"{name} must be one line of printable characters, not {text!r:.80}")
