"""The bypass table: which candidates are activated, which are asked about, which dropped. Pure.

    manual                            dropped, whatever else holds
    critical, a trigger matches       activated, at any score
    score below the threshold         dropped
    auto                              activated
    critical or high, score ≥ 0.3     activated          below: the gate decides
    medium, score ≥ 0.2               the gate decides   below: dropped
    low, score ≥ 0.3                  the gate decides   below: dropped

The order of the lines is their precedence (002-A13).
"""

from enum import StrEnum
from typing import Final

from ctxmgr.knowledge.topics.topic import ActivationMode, Priority, Topic

HIGH_SCORE: Final = 0.3
MEDIUM_SCORE: Final = 0.2
LOW_SCORE: Final = 0.3


class Route(StrEnum):
    """What happens to a candidate."""

    ACTIVATE = "activate"
    GATE = "gate"
    DROP = "drop"


def route(
    topic: Topic, *, tier1_matched: bool, score: float, threshold: float
) -> tuple[Route, str]:
    """Return what happens to a candidate, and why."""
    priority = topic.priority
    if topic.activation is ActivationMode.MANUAL:
        return Route.DROP, "manual topics are activated by a person only"
    if priority is Priority.CRITICAL and tier1_matched:
        return Route.ACTIVATE, "critical, and a trigger matches"
    if score < threshold:
        return Route.DROP, f"score {score:.2f} is below the threshold {threshold:g}"
    if topic.activation is ActivationMode.AUTO:
        return Route.ACTIVATE, f"auto, score {score:.2f}"
    if priority in {Priority.HIGH, Priority.CRITICAL}:
        if score >= HIGH_SCORE:
            return Route.ACTIVATE, f"{priority}, score {score:.2f} is at least {HIGH_SCORE:g}"
        return Route.GATE, f"{priority}, score {score:.2f} is below {HIGH_SCORE:g}"
    least = MEDIUM_SCORE if priority is Priority.MEDIUM else LOW_SCORE
    if score >= least:
        return Route.GATE, f"{priority}, score {score:.2f} is at least {least:g}"
    return Route.DROP, f"{priority}, score {score:.2f} is below {least:g}"
