"""Compaction records: what was replaced by a summary when a context window filled. Pure.

    compaction:{session}:{n}   session, n          the n-th compaction of a session, from 1
                               trigger, timestamp  why and when
                               range_start, …_end  the turns that are no longer rendered
                               tokens_before       of the whole prompt, and
                               tokens_after        with the summary instead
                               summary             what the prompts show instead
                               usage, model        if a model wrote a part of it

A plain document, not one of the five types. Only what is rendered changes: chat, files and outputs
stay stored whole. The context window of an experience log uses the same record, with its ticks as
the range.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Final, Self

from ctxmgr.core.objects.envelope import check_session_id, check_text, copy_nested
from ctxmgr.core.store.contract import Instant
from ctxmgr.core.store.documents import ID, KIND, Document
from ctxmgr.errors import Corrupt, Incorrect

COMPACTION: Final = "compaction"
"""The kind of the document."""

RESULT_LEVEL: Final = 1
"""The level of a summary: REPLY, one of the levels of the experience log."""

NUMBER_MAX: Final = 2**53
"""Of turns, tokens and milliseconds: every JSON reader has integers up to this."""


class CompactionTrigger(StrEnum):
    """Why a context was compacted."""

    CONTEXT_FULL = "context_full"
    MANUAL = "manual"
    SCHEDULED = "scheduled"
    STORAGE_PRESSURE = "storage_pressure"


def compaction_id(session_id: str, *, number: int) -> str:
    return f"{COMPACTION}:{session_id}:{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRecord:
    """A range of a context that was replaced by a summary."""

    id: str
    session_id: str
    timestamp: Instant
    """When it was decided, in UTC milliseconds."""
    range_start: int
    """The first turn, or tick, of the range."""
    range_end: int
    """The last one."""
    timesteps_compacted: int
    """Turns, or ticks, in the range."""
    tokens_before: int
    tokens_after: int
    summary: str = field(repr=False)
    summary_concept_tags: tuple[str, ...] = ()
    """The key concepts of the summary; of a session, its most specific names."""
    top_k_activations: Mapping[str, float] = field(default_factory=dict)
    trigger: CompactionTrigger
    result_level: int = RESULT_LEVEL
    model: str | None = None
    """The model that wrote a part of the summary; None: no model did."""
    usage: Mapping[str, int] | None = None
    """What that call cost; None: no call, or the provider did not report it."""
    parts: Mapping[str, Any] | None = field(default=None, repr=False)
    """The summary by its parts, from which its text follows; None: it is only text."""

    def __post_init__(self) -> None:
        check_session_id(self.session_id)
        check_text("summary", self.summary)
        object.__setattr__(self, "trigger", CompactionTrigger(self.trigger))
        for name in ("timestamp", "range_start", "range_end", "timesteps_compacted"):
            _check_number(name, getattr(self, name))
        for name in ("tokens_before", "tokens_after", "result_level"):
            _check_number(name, getattr(self, name))
        if self.range_end < self.range_start:
            raise Incorrect(f"a range cannot go from {self.range_start} to {self.range_end}")

    def to_document(self, *, number: int) -> Document:
        """Return the document of a session's compaction with this number, from 1."""
        value: Document = {
            ID: compaction_id(self.session_id, number=number),
            KIND: COMPACTION,
            "session": self.session_id,
            "n": number,
        }
        stored = (item.name for item in fields(self) if item.name not in {"id", "session_id"})
        for name in stored:
            value[name] = getattr(self, name)
        return value | {
            "trigger": str(self.trigger),
            "summary_concept_tags": list(self.summary_concept_tags),
            "top_k_activations": dict(self.top_k_activations),
            "usage": None if self.usage is None else dict(self.usage),
            "parts": None if self.parts is None else copy_nested(dict(self.parts)),
        }

    @classmethod
    def from_document(cls, document: Document) -> Self:
        """Read a record; ``Corrupt`` unless it is exactly what ``to_document`` returned."""
        try:
            names = [item.name for item in fields(cls) if item.name not in {"id", "session_id"}]
            values: dict[str, Any] = {name: document[name] for name in names}
            values["summary_concept_tags"] = tuple(values["summary_concept_tags"])
            for name in values["summary_concept_tags"]:
                check_text("name", name)
            record = cls(id=document[ID], session_id=document["session"], **values)
            _check_number("n", document["n"])
            described = record.to_document(number=document["n"])
        except (KeyError, TypeError, ValueError, AttributeError, Incorrect) as error:
            raise Corrupt(f"{document.get(ID)!r:.80} is not a compaction: {error}") from error
        if described != document:
            raise Corrupt(f"{document.get(ID)!r:.80} differs from the compaction it describes")
        return record


def _check_number(name: str, value: object) -> None:
    if type(value) is not int or not 0 <= value <= NUMBER_MAX:
        raise Incorrect(f"{name} must be a count, not {value!r:.80}")
