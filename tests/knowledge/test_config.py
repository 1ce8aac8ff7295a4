"""The settings of the knowledge layer: their defaults and their limits."""

import pytest

from ctxmgr.errors import Incorrect
from ctxmgr.knowledge.config import (
    CompilerConfig,
    ExtractionTrigger,
    KnowledgeConfig,
    LifecycleConfig,
    SearchConfig,
    WatcherConfig,
)


def test_the_defaults_are_those_of_the_specification() -> None:
    """002-R208, 002-R209, 002-R210, 002-R211, 002-R212, 002-R213: people rely on them."""
    config = KnowledgeConfig()

    compiler, search, watchers = config.compiler, config.search, config.watchers
    assert (compiler.token_budget, compiler.identity_budget_kb) == (8192, 17)
    assert (compiler.memory_budget_kb, compiler.journal_budget_kb) == (3, 4)
    assert compiler.topic_budget_kb == 6
    assert (search.bm25_weight, search.vector_weight) == (0.4, 0.6)
    assert (search.embedding_model, search.embedding_dimensions) == ("text-embedding-3-small", 1536)
    assert (watchers.similarity_threshold, watchers.gate_max_tokens) == (0.15, 1)
    assert watchers.gate_model == "haiku"
    lifecycle = config.lifecycle
    assert (lifecycle.commit_interval_minutes, lifecycle.journal_retention_days) == (30, 90)
    assert lifecycle.memory_line_cap == 200
    assert lifecycle.extraction_trigger is ExtractionTrigger.ON_SESSION_END
    assert (lifecycle.condensation_schedule, lifecycle.pruning_schedule) == (
        "0 23 * * *",
        "0 0 * * 0",
    )
    assert (config.git.auto_commit, config.git.auto_tag_daily) == (True, True)
    assert config.git.commit_message_model == "haiku"


def test_nothing_is_pushed_unless_a_person_asks_for_it() -> None:
    """002-R213, 002-A34: notes may hold secrets, so publishing them is never a default."""
    assert KnowledgeConfig().git.auto_push is False


@pytest.mark.parametrize(
    ("config", "wrong"),
    [
        (CompilerConfig, {"token_budget": 0}),
        (CompilerConfig, {"token_budget": 10_000_000}),
        (CompilerConfig, {"identity_budget_kb": -1}),
        (CompilerConfig, {"memory_budget_kb": float("nan")}),
        (CompilerConfig, {"history_share": 1.5}),
        (SearchConfig, {"bm25_weight": -0.1}),
        (WatcherConfig, {"similarity_threshold": 2}),
        (WatcherConfig, {"gate_max_tokens": 0}),
        (LifecycleConfig, {"commit_interval_minutes": 0}),
        (LifecycleConfig, {"extraction_trigger": "sometimes"}),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(
    config: type[CompilerConfig], wrong: dict[str, int]
) -> None:
    """002-R136, 002-R208: a typing error is reported where it was made."""
    with pytest.raises(Incorrect, match=next(iter(wrong))):
        config(**wrong)  # type: ignore[arg-type]
