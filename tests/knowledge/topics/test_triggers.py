"""Topics that fire by webhook or clock."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ctxmgr import Put, Store, open_store
from ctxmgr.errors import Corrupt
from ctxmgr.knowledge.topics.topic import Topic
from ctxmgr.knowledge.topics.triggers import (
    PAYLOAD_CHARS_MAX,
    TopicFirings,
    due_topics,
    next_fire,
    topics_for_event,
)
from tests.knowledge.topics.topic_notes import make_topic


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def scheduled(name: str, schedule: str, **fields: Any) -> Topic:
    return make_topic(name, triggers=[{"type": "cron", "schedule": schedule}], **fields)


NINE = scheduled("nine", "0 9 * * *")


def test_a_topic_is_due_if_its_schedule_fired_in_between() -> None:
    """The end counts and the beginning does not, so no run is lost or doubled. Rows: 002-R112."""
    nine = at("2026-11-18T09:00:00")

    assert due_topics([NINE], since=nine - 1, now=nine) == [(NINE, nine)]
    assert due_topics([NINE], since=nine, now=nine + 1000) == []
    assert due_topics([NINE], since=nine - 1000, now=nine - 1) == []
    assert due_topics([NINE], since=nine - 1, now=nine + 59_000) == [(NINE, nine)]


def test_a_topic_that_was_missed_several_times_is_due_once() -> None:
    """A laptop that slept for a week is not flooded. Rows: 002-R112."""
    now = at("2026-11-18T10:30:00")

    due = due_topics([NINE, make_topic("none")], since=at("2026-11-11T00:00:00"), now=now)

    assert due == [(NINE, at("2026-11-18T09:00:00"))]


def test_manual_topics_never_fire() -> None:
    """Rows: 002-R115."""
    hook = [{"type": "webhook", "source": "ci"}]
    manual = make_topic("manual", triggers=hook, activation="manual")

    assert due_topics([scheduled("m", "* * * * *", activation="manual")], since=0, now=10**12) == []
    assert topics_for_event([manual], source="ci", event="x") == []


def test_the_next_time_is_shown() -> None:
    """Rows: 002-R112."""
    both = make_topic(
        triggers=[
            {"type": "cron", "schedule": "0 9 * * *"},
            {"type": "cron", "schedule": "0 7 * * 4"},
        ]
    )

    assert next_fire(both, now=at("2026-11-18T10:00:00")) == at("2026-11-19T07:00:00")
    assert next_fire(make_topic(), now=0) is None


async def test_a_schedule_fires_once_though_two_processes_try(tmp_path: Path) -> None:
    """Each process has its own connection to the store. Rows: 002-R112."""
    now = at("2026-11-18T09:00:30")
    topics = [NINE, scheduled("also", "0 9 * * 3")]
    url = f"sqlite:///{tmp_path}/store.db"
    one, two = await open_store(url), await open_store(url)
    try:
        fired = await asyncio.gather(
            *(
                TopicFirings(store).fire_due(topics, since=now - 60_000, now=now)
                for store in (one, two, one, two)
            )
        )
        names = sorted(firing.topic_name for part in fired for firing in part)
        stored = await TopicFirings(one).after(0)
    finally:
        await one.close()
        await two.close()

    assert names == ["also", "nine"]
    assert sorted(firing.topic_name for firing in stored) == ["also", "nine"]


async def test_a_webhook_fires_the_topics_of_its_source_and_event(store: Store) -> None:
    """Rows: 002-R111."""
    topics = [
        make_topic("push", triggers=[{"type": "webhook", "source": "github", "event": "push"}]),
        make_topic("all", triggers=[{"type": "webhook", "source": "github"}]),
        make_topic("other", triggers=[{"type": "webhook", "source": "gitlab", "event": "push"}]),
        make_topic("issue", triggers=[{"type": "webhook", "source": "github", "event": "issue"}]),
    ]
    firings = TopicFirings(store)

    fired = await firings.fire_webhook(
        topics, source="github", event="push", payload={"ref": "main"}, now=7_000
    )

    assert [firing.topic_name for firing in fired] == ["push", "all"]
    stored = await firings.after(6_999)
    assert sorted(firing.topic_name for firing in stored) == ["all", "push"]
    assert {firing.data for firing in stored} == {'{"ref": "main"}'}
    assert {firing.cause for firing in stored} == {"webhook github push"}
    assert await firings.after(7_000) == []


async def test_a_large_payload_is_cut(store: Store) -> None:
    """Rows: 002-R111."""
    topic = make_topic(triggers=[{"type": "webhook", "source": "ci"}])

    (fired,) = await TopicFirings(store).fire_webhook(
        [topic], source="ci", event="x", payload=["x"] * 10_000, now=1
    )

    assert fired.data is not None
    assert PAYLOAD_CHARS_MAX - len('"x", ') <= len(fired.data) <= PAYLOAD_CHARS_MAX


async def test_a_firing_that_another_program_wrote_is_reported(store: Store) -> None:
    """Rows: 002-R111."""
    await store.commit([Put({"xt/id": "topic_firing:1", "type": "topic_firing", "time": "now"})])

    with pytest.raises(Corrupt, match="topic_firing:1"):
        await TopicFirings(store).after(0)
