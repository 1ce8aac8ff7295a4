"""What the compiler takes and gives, and why something is shown or left out. Pure.

P0  system messages, identity          always there, cut if they exceed their share
P1  core memory, journal, projects     within their shares
P2  topics and their subscriptions     each whole or not at all, as everything below
P3  scored knowledge                   best first
P4  history                            newest first, shown in the order of time
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from ctxmgr.core.store.contract import Instant

SEPARATOR: Final = "\n\n"
"""Between two sections."""


class PromptSlot(StrEnum):
    """Where a section comes from, in the order of priority."""

    SYSTEM = "system"
    IDENTITY = "identity"
    MEMORY = "memory"
    JOURNAL = "journal"
    PROJECTS = "projects"
    TOPIC = "topic"
    SUBSCRIPTION = "sub"
    KNOWLEDGE = "knowledge"
    HISTORY = "history"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeFile:
    """A note that may be shown."""

    path: str
    """Below the root of the notes."""
    text: str = field(repr=False)
    """What is shown of it: the body, without frontmatter."""
    modified: Instant
    """When the file changed, not when it was indexed."""
    category: str
    reference_count: int = 0
    """How many notes and transcripts name it."""
    already_included: bool = False
    """The prompt has it already, from elsewhere."""
    remark: str = ""
    """What the reader should know about it, such as that it may be outdated."""
    snippet: str = ""
    """What is shown of it as scored knowledge; empty: its best passage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryMessage:
    """A message of the session, for the last slot."""

    role: str
    """``system``, ``user``, ``agent`` or ``tool``."""
    text: str


class ActiveTopic(Protocol):
    """What the compiler needs of a topic that was activated."""

    @property
    def name(self) -> str: ...
    @property
    def keywords(self) -> Sequence[str]: ...
    @property
    def subscriptions(self) -> Sequence[str]: ...
    @property
    def priority_score(self) -> int: ...
    @property
    def max_context_kb(self) -> float: ...
    def render_instructions(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredItem:
    """A note with its score for one message."""

    path: str
    score: float
    snippet: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledSection:
    """One section of the compiled text, with its comment."""

    slot: PromptSlot
    name: str
    """What the comment says: ``topic:release``."""
    text: str = field(repr=False)
    tokens: int
    path: str | None = None
    topic: str | None = None
    """The topic that brought it."""
    score: float | None = None
    cut_tokens: int = 0
    """Tokens that were cut, since it exceeded its share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Something that was considered and is not shown."""

    slot: PromptSlot
    name: str
    """A path, the name of a topic, or the number and role of a message."""
    reason: str
    tokens: int | None = None
    score: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """The compiled context, and why it is what it is."""

    text: str = field(repr=False)
    tokens: int
    """Of the whole text; never more than the budget."""
    budget_tokens: int
    included: tuple[CompiledSection, ...]
    left_out: tuple[LeftOut, ...]

    def text_of(self, *slots: PromptSlot) -> str:
        """Return the sections of some slots, as the text has them."""
        return SEPARATOR.join(each.text for each in self.included if each.slot in slots)
