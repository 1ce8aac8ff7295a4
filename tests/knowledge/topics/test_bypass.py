"""The bypass table, line by line."""

import pytest

from ctxmgr.knowledge.topics.bypass import Route, route
from tests.knowledge.topics.topic_notes import make_topic


@pytest.mark.parametrize(
    ("priority", "activation", "matched", "score", "expected"),
    [
        ("critical", "gated", True, 0.0, "activate"),
        ("critical", "gated", False, 0.31, "activate"),
        ("critical", "gated", False, 0.2, "gate"),
        ("critical", "gated", False, 0.1, "drop"),
        ("critical", "manual", True, 1.0, "drop"),
        ("high", "gated", True, 0.3, "activate"),
        ("high", "gated", True, 0.29, "gate"),
        ("high", "gated", True, 0.14, "drop"),
        ("medium", "gated", True, 0.2, "gate"),
        ("medium", "gated", True, 0.9, "gate"),
        ("medium", "gated", True, 0.19, "drop"),
        ("low", "gated", True, 0.3, "gate"),
        ("low", "gated", True, 0.29, "drop"),
        ("low", "auto", True, 0.15, "activate"),
        ("low", "auto", True, 0.14, "drop"),
        ("low", "manual", True, 1.0, "drop"),
    ],
)
def test_the_table_decides_by_mode_priority_and_score(
    priority: str,
    activation: str,
    matched: bool,  # noqa: FBT001
    score: float,
    expected: str,
) -> None:
    """Manual goes before auto, auto before the priorities.

    Rows: 002-R114, 002-R115, 002-R121, 002-R122, 002-R123, 002-R124, 002-A13.
    """
    topic = make_topic(priority=priority, activation=activation)

    found, reason = route(topic, tier1_matched=matched, score=score, threshold=0.15)

    assert found == Route(expected)
    assert reason
