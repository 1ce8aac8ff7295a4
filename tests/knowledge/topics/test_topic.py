"""Reading topic files, valid and not."""

from typing import Any

import pytest

from ctxmgr.errors import Incorrect
from ctxmgr.knowledge.topics.pattern_matcher import check_triggers
from ctxmgr.knowledge.topics.topic import (
    ActivationMode,
    CronTrigger,
    MessageTrigger,
    Priority,
    Severity,
    TriggerKind,
    TriggerScope,
    WebhookTrigger,
    read_topic,
    read_topics,
)
from ctxmgr.knowledge.topics.triggers import check_schedules
from tests.knowledge.topics.topic_notes import make_topic, topic_note


def test_a_topic_file_has_all_its_fields() -> None:
    """A person writes these fields, and nothing else decides when the topic is shown.

    Rows: 002-R052, 002-R056, 002-R110, 002-R111, 002-R112, 002-R238.
    """
    topic = make_topic(
        triggers=[
            {"type": "pattern", "match": "deploy", "scope": "both", "correction_hint": "Wait."},
            {"type": "webhook", "source": "github", "event": "push"},
            {"type": "cron", "schedule": "0 9 * * 1"},
        ],
        subscriptions=["knowledge/deploy.md"],
        activation="auto",
        priority="high",
        max_context_kb=3,
        description="Deploying",
        keywords=["deploy", "staging"],
    )

    assert topic.name == "deployment"
    assert topic.description == "Deploying"
    assert topic.instructions.startswith("- Deploy to staging first.")
    assert "Roll back with make rollback" in topic.instructions
    assert topic.context_notes == "- The canary gets five per cent."
    assert topic.triggers == (
        MessageTrigger(
            kind=TriggerKind.PATTERN,
            values=("deploy",),
            scope=TriggerScope.BOTH,
            correction_hint="Wait.",
        ),
        WebhookTrigger(source="github", event="push"),
        CronTrigger(schedule="0 9 * * 1"),
    )
    assert topic.subscriptions == ("knowledge/deploy.md",)
    assert topic.keywords == ("deploy", "staging")
    assert (topic.activation, topic.priority) == (ActivationMode.AUTO, Priority.HIGH)
    assert topic.context_bytes_max == 3 * 1024


def test_what_a_file_leaves_out_has_a_default() -> None:
    """The smallest topic file works; its first paragraph describes it.

    Rows: 002-A10, 002-R113.
    """
    topic = make_topic()

    assert topic.description == "Everything about deploying services to staging and production."
    assert (topic.activation, topic.priority) == (ActivationMode.GATED, Priority.MEDIUM)
    assert topic.similarity_threshold is None
    assert topic.subscriptions == topic.triggers == ()


@pytest.mark.parametrize("mode", ["auto", "gated", "manual"])
def test_the_three_modes_of_activation_are_read(mode: str) -> None:
    """Rows: 002-R053."""
    assert make_topic(activation=mode).activation == mode


def test_priorities_have_scores() -> None:
    """Rows: 002-R054, 002-A10."""
    words = ("low", "medium", "high", "critical")

    assert [make_topic(priority=word).priority_score for word in words] == [0, 1, 2, 3]


def test_what_a_topic_shows_is_cut_at_its_limit() -> None:
    """A limit counts bytes, and a character is never cut in two.

    Rows: 002-R055, PG-34.
    """
    topic = make_topic(max_context_kb=0.5, body="## Instructions\n\n" + "é" * 1000)

    shown = topic.render_instructions()

    assert 510 <= len(shown.encode()) <= 512
    assert shown.startswith("## deployment\n\néé")


def test_a_topic_is_shown_with_its_context_notes() -> None:
    """Rows: 002-R056, 002-R238."""
    shown = make_topic().render_instructions()

    assert shown.index("Deploy to staging first") < shown.index("The canary gets")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"activation": "sometimes"}, "unknown activation 'sometimes' (one of: auto, gated"),
        ({"priority": "urgent"}, "unknown priority 'urgent' (one of: low, medium"),
        ({"max_context_kb": -1}, "max_context_kb must be above 0"),
        ({"similarity_threshold": 2}, "similarity_threshold must be from 0 to 1"),
        ({"similarity_only": "yes"}, "similarity_only must be true or false"),
        ({"sentiment": "sad"}, "unknown sentiment 'sad'"),
        ({"triggers": "deploy"}, "triggers must be a list"),
        ({"triggers": [{"type": "smell"}]}, "trigger 1: unknown type 'smell'"),
        ({"triggers": [{"type": "pattern"}]}, "trigger 1: a pattern trigger needs 'match'"),
        ({"triggers": [{"type": "keyword"}]}, "trigger 1: a keyword trigger needs 'words'"),
        ({"triggers": [{"type": "cron"}]}, "a cron trigger needs a schedule"),
        ({"triggers": [{"type": "webhook"}]}, "a webhook needs one source"),
        ({"triggers": [7]}, "trigger 1 must be a mapping"),
        ({"triggers": [{"type": "pattern", "match": "x", "scope": "all"}]}, "unknown scope 'all'"),
        ({"subscriptions": ["../secret.md"]}, "not a path below the repository"),
        ({"subscriptions": ["/etc/passwd"]}, "not a path below the repository"),
        ({"subscriptions": [3]}, "subscriptions: 3 is not a text"),
        ({"type": "person"}, "type is 'person', not 'topic'"),
    ],
)
def test_a_wrong_field_is_named_with_its_value(fields: dict[str, Any], said: str) -> None:
    """A person fixes the file by the message alone. Rows: 002-R052."""
    with pytest.raises(Incorrect, match=r"topics/deployment\.md: ") as caught:
        read_topic(topic_note(**fields))

    assert said in str(caught.value)


def test_an_invalid_topic_does_not_stop_the_others() -> None:
    """One typing error must not switch off all topics. Rows: 002-R052."""
    found = read_topics(
        [topic_note("a"), topic_note("b", priority="urgent"), topic_note("c"), topic_note("c")]
    )

    assert [topic.name for topic in found.topics] == ["a", "c"]
    errors = [each for each in found.problems if each.severity is Severity.ERROR]
    assert [each.path for each in errors] == ["topics/b.md", "topics/c.md"]


def test_what_looks_like_a_mistake_is_a_warning() -> None:
    """Such a topic works, but hardly as meant. Rows: 002-R076."""
    found = read_topics(
        [topic_note("a", body="No sections.", trigers=[]), topic_note("b", similarity_only=True)]
    )

    assert [topic.name for topic in found.topics] == ["a", "b"]
    assert [each.message for each in found.problems] == [
        "the body has no Instructions section; the topic would add nothing",
        "unknown field 'trigers' is ignored",
        "there are no triggers, so the topic is never activated by itself",
    ]


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [("(", "missing )"), ("(?=x)y", "invalid perl operator"), (r"(x)\1", "invalid escape")],
)
def test_a_pattern_that_cannot_be_used_is_an_error_of_its_topic(pattern: str, reason: str) -> None:
    """Only patterns that match in linear time are accepted. Rows: 002-R091, 002-R099."""
    valid, problems = check_triggers([make_topic("good", match="x"), make_topic(match=pattern)])

    assert [topic.name for topic in valid] == ["good"]
    assert problems[0].path == "topics/deployment.md"
    assert reason in problems[0].message


@pytest.mark.parametrize("schedule", ["daily", "* * * * * *", "0 25 * * *", "0 0 30 2 *"])
def test_a_schedule_that_cannot_be_used_is_an_error_of_its_topic(schedule: str) -> None:
    """Rows: 002-R112."""
    topic = make_topic(triggers=[{"type": "cron", "schedule": schedule}])

    valid, problems = check_schedules([make_topic("good"), topic])

    assert [each.name for each in valid] == ["good"]
    assert repr(schedule) in problems[0].message


def test_threshold_and_activation_belong_to_the_topic() -> None:
    """002-A08: beside the triggers they are read; inside of one they are reported, not guessed."""
    trigger = {"type": "pattern", "match": "deploy"}
    topic = make_topic(triggers=[trigger], activation="auto", similarity_threshold=0.4)
    inside = read_topics(
        [topic_note(triggers=[{**trigger, "activation": "auto", "similarity_threshold": 0.4}])]
    )

    assert (topic.activation, topic.similarity_threshold) == (ActivationMode.AUTO, 0.4)
    assert any("similarity_threshold" in problem.message for problem in inside.problems)
    assert all(each.similarity_threshold is None for each in inside.topics)
