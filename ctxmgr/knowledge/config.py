"""The settings of the knowledge layer, with their defaults. Pure.

A person passes them in code or on the command line. They are never read from the folder of notes:
an agent writes there.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite
from typing import Final

from ctxmgr.errors import Incorrect

TOKEN_BUDGET_MAX: Final = 1_000_000
"""The largest context windows on offer."""


class ExtractionTrigger(StrEnum):
    """When extractors run."""

    ON_SESSION_END = "on_session_end"
    HOURLY = "hourly"
    MANUAL = "manual"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerConfig:
    """What a compiled context may hold. ``token_budget`` is the only hard limit; KB are caps."""

    token_budget: int = 8192
    tokenizer: str = ""
    """The name of the model whose vocabulary counts tokens; empty: cl100k_base."""
    system_budget_kb: float = 1
    identity_budget_kb: float = 17
    memory_budget_kb: float = 3
    journal_budget_kb: float = 4
    projects_budget_kb: float = 1
    topic_budget_kb: float = 6
    """Instructions and subscriptions of all active topics."""
    history_share: float = 0.125
    """The part of the budget that is kept for the newest messages, so that notes cannot take it."""

    def __post_init__(self) -> None:
        if not 1 <= self.token_budget <= TOKEN_BUDGET_MAX:
            raise Incorrect(
                f"token_budget is {self.token_budget}; pass 1 to {TOKEN_BUDGET_MAX:,} tokens"
            )
        _not_negative(
            self,
            "system_budget_kb",
            "identity_budget_kb",
            "memory_budget_kb",
            "journal_budget_kb",
            "projects_budget_kb",
            "topic_budget_kb",
        )
        _share(self, "history_share")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchConfig:
    """How the two sides of a search are merged, and what embeds texts."""

    bm25_weight: float = 0.4
    vector_weight: float = 0.6
    embedding_model: str = "text-embedding-3-small"
    """The provider's model, asked only if a person wants it; the default is a local one."""
    embedding_dimensions: int = 1536

    def __post_init__(self) -> None:
        _not_negative(self, "bm25_weight", "vector_weight")
        _positive(self, "embedding_dimensions")


@dataclass(frozen=True, slots=True, kw_only=True)
class WatcherConfig:
    """When topics are activated."""

    similarity_threshold: float = 0.15
    gate_model: str = "haiku"
    gate_max_tokens: int = 1

    def __post_init__(self) -> None:
        _share(self, "similarity_threshold")
        _positive(self, "gate_max_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleConfig:
    """When notes are committed, extracted, condensed and pruned. Schedules are cron expressions."""

    commit_interval_minutes: int = 30
    journal_retention_days: int = 90
    memory_line_cap: int = 200
    extraction_trigger: ExtractionTrigger = ExtractionTrigger.ON_SESSION_END
    condensation_schedule: str = "0 23 * * *"
    """Daily at 23:00."""
    pruning_schedule: str = "0 0 * * 0"
    """Sunday at midnight."""

    def __post_init__(self) -> None:
        _positive(self, "commit_interval_minutes", "journal_retention_days", "memory_line_cap")
        object.__setattr__(self, "extraction_trigger", _trigger(self.extraction_trigger))


@dataclass(frozen=True, slots=True, kw_only=True)
class GitConfig:
    """What happens in the repository by itself."""

    auto_commit: bool = True
    auto_push: bool = False
    """Off: notes may hold what a person does not want to publish."""
    auto_tag_daily: bool = True
    commit_message_model: str = "haiku"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeConfig:
    """All settings of the knowledge layer."""

    compiler: CompilerConfig = field(default_factory=CompilerConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    watchers: WatcherConfig = field(default_factory=WatcherConfig)
    lifecycle: LifecycleConfig = field(default_factory=LifecycleConfig)
    git: GitConfig = field(default_factory=GitConfig)


def _not_negative(config: object, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        if not (isfinite(value) and value >= 0):
            raise Incorrect(f"{name} is {value}; pass 0 or more")


def _positive(config: object, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        if value < 1:
            raise Incorrect(f"{name} is {value}; pass 1 or more")


def _share(config: object, name: str) -> None:
    value = getattr(config, name)
    if not 0 <= value <= 1:
        raise Incorrect(f"{name} is {value}; pass a number from 0 to 1")


def _trigger(value: str) -> ExtractionTrigger:
    try:
        return ExtractionTrigger(value)
    except ValueError:
        names = ", ".join(ExtractionTrigger)
        raise Incorrect(f"extraction_trigger is {value!r:.80}; one of: {names}") from None
