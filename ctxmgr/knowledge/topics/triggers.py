"""Topics that fire by a webhook or by the clock. Commits.

A firing is a document of the core store, so it reaches the sessions of every process. The id of a
cron firing is made of topic and time: of several processes that try, one stores it. Ids descend
with time, so that the newest are read first.

What a webhook delivers is data from outside: it is stored as JSON text, cut short, and never
becomes part of a topic's instructions.
"""

import hashlib
import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ctxmgr.core.model import cut_at_word
from ctxmgr.core.store.contract import INSTANT_MAX, Instant, Match, Put, Query, Store
from ctxmgr.core.store.documents import ID, KIND, Document
from ctxmgr.errors import Conflict, Corrupt, requires_extra
from ctxmgr.knowledge.topics.topic import (
    ActivationMode,
    CronTrigger,
    Severity,
    Topic,
    TopicProblem,
    WebhookTrigger,
)

FIRING_KIND: Final = "topic_firing"
"""The ``type`` of the documents."""

FIRING_VALID_MS: Final = 60 * 60 * 1000
"""How long a firing waits for a session."""

FIRINGS_MAX: Final = 100
"""Firings that one turn considers, and topics that one delivery may fire."""

PAYLOAD_CHARS_MAX: Final = 2_000
"""Of what a webhook delivered: enough to name what happened."""

CRON_FIELDS: Final = 5
"""Minute, hour, day, month, day of the week."""

_RANDOM_BYTES: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """A topic that fired."""

    topic_name: str
    time: Instant
    cause: str
    """``cron SCHEDULE`` or ``webhook SOURCE EVENT``."""
    data: str | None = None
    """What a webhook delivered, as JSON text."""
    firing_id: str = ""
    """Given by the store."""


def check_schedules(topics: Iterable[Topic]) -> tuple[list[Topic], list[TopicProblem]]:
    """Separate the topics whose schedules can be used from what is wrong."""
    valid, problems = [], []
    for topic in topics:
        found = [
            TopicProblem(path=topic.path, severity=Severity.ERROR, message=message)
            for trigger in topic.triggers
            if isinstance(trigger, CronTrigger)
            and (message := schedule_problem(trigger.schedule)) is not None
        ]
        problems += found
        if not found:
            valid.append(topic)
    return valid, problems


def schedule_problem(schedule: str) -> str | None:
    """Return why a cron expression cannot be used; None if it can."""
    with requires_extra("knowledge", "cronsim"):
        from cronsim import CronSim, CronSimError  # noqa: PLC0415 (an extra)
    if len(schedule.split()) != CRON_FIELDS:
        return f"the schedule {schedule!r:.80} must have {CRON_FIELDS} fields, such as '0 9 * * 1'"
    try:
        next(CronSim(schedule, datetime(2024, 1, 1, tzinfo=UTC)))
    except CronSimError as error:
        return f"the schedule {schedule!r:.80} cannot be used: {error}"
    except StopIteration:
        return f"the schedule {schedule!r:.80} never fires"
    return None


def due_topics(
    topics: Iterable[Topic], *, since: Instant, now: Instant
) -> list[tuple[Topic, Instant]]:
    """Return the topics whose schedule fired after ``since``, up to ``now``, with the last time.

    A topic that was missed several times is due once.
    """
    due = []
    for topic in topics:
        if topic.activation is ActivationMode.MANUAL:
            continue
        times = [
            fired
            for trigger in topic.triggers
            if isinstance(trigger, CronTrigger)
            and (fired := _last_fire(trigger.schedule, now)) is not None
            and since < fired <= now
        ]
        if times:
            due.append((topic, max(times)))
    return due


def next_fire(topic: Topic, *, now: Instant) -> Instant | None:
    """Return when a topic's schedules fire next; None without one."""
    with requires_extra("knowledge", "cronsim"):
        from cronsim import CronSim  # noqa: PLC0415 (an extra)
    times = [
        next(CronSim(trigger.schedule, _moment(now)), None)
        for trigger in topic.triggers
        if isinstance(trigger, CronTrigger)
    ]
    return min((_instant(time) for time in times if time is not None), default=None)


def topics_for_event(topics: Iterable[Topic], *, source: str, event: str) -> list[Topic]:
    """Return the topics with a webhook trigger for an event of a source."""
    return [
        topic
        for topic in topics
        if topic.activation is not ActivationMode.MANUAL
        and any(
            isinstance(trigger, WebhookTrigger)
            and trigger.source == source
            and trigger.event in {None, event}
            for trigger in topic.triggers
        )
    ]


class TopicFirings:
    """The firings in one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def fire_due(
        self, topics: Sequence[Topic], *, since: Instant, now: Instant
    ) -> list[Firing]:
        """Fire what is due; return what this call fired, and not what another process did."""
        fired = []
        for topic, time in due_topics(topics, since=since, now=now):
            firing = Firing(topic_name=topic.name, time=time, cause="cron")
            document = _document(firing, suffix=f"cron-{_short(topic.name)}")
            try:
                await self._store.commit([Match(document[ID], None), Put(document)])
            except Conflict:
                continue
            fired.append(firing)
        return fired

    async def fire_webhook(
        self,
        topics: Sequence[Topic],
        *,
        source: str,
        event: str,
        payload: object,
        now: Instant,
    ) -> list[Firing]:
        """Fire the topics that wait for an event; return what was fired."""
        written = json.dumps(payload, ensure_ascii=False, default=str)
        data = cut_at_word(written, chars_max=PAYLOAD_CHARS_MAX)
        firings = [
            Firing(topic_name=topic.name, time=now, cause=f"webhook {source} {event}", data=data)
            for topic in topics_for_event(topics, source=source, event=event)[:FIRINGS_MAX]
        ]
        if firings:
            await self._store.commit(
                [Put(_document(each, suffix=secrets.token_hex(_RANDOM_BYTES))) for each in firings]
            )
        return firings

    async def current(self, topics: Sequence[Topic], *, now: Instant) -> list[Firing]:
        """Return the firings that still wait for sessions, oldest first.

        What is due is fired first, so that schedules work in every process that asks, and need no
        other one.
        """
        since = now - FIRING_VALID_MS
        found = await self.after(since)
        known = {(firing.topic_name, firing.time) for firing in found}
        due = due_topics(topics, since=since, now=now)
        if all((topic.name, time) in known for topic, time in due):
            return found
        await self.fire_due(topics, since=since, now=now)
        return await self.after(since)

    async def after(self, time: Instant) -> list[Firing]:
        """Return the firings after an instant, oldest first; of many, the newest."""
        page = await self._store.find(Query(FIRING_KIND), limit=FIRINGS_MAX)
        found = [_firing(version.document) for version in page.versions]
        return [firing for firing in reversed(found) if firing.time > time]


def _last_fire(schedule: str, now: Instant) -> Instant | None:
    with requires_extra("knowledge", "cronsim"):
        from cronsim import CronSim  # noqa: PLC0415 (an extra)
    # The minute of `now` itself counts, and a reversed iteration begins before its start.
    start = _moment(now) + timedelta(minutes=1)
    for moment in CronSim(schedule, start, reverse=True):
        if _instant(moment) <= now:
            return _instant(moment)
    return None


def _moment(instant: Instant) -> datetime:
    return datetime.fromtimestamp(instant / 1000, tz=UTC)


def _instant(moment: datetime) -> Instant:
    return round(moment.timestamp() * 1000)


def _short(name: str) -> str:
    """Return a name as a part of an id: names are free text."""
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def _document(firing: Firing, *, suffix: str) -> Document:
    return {
        ID: f"{FIRING_KIND}:{INSTANT_MAX - firing.time:015d}-{suffix}",
        KIND: FIRING_KIND,
        "topic_name": firing.topic_name,
        "time": firing.time,
        "cause": firing.cause,
        "data": firing.data,
    }


def _firing(document: Document) -> Firing:
    values: dict[str, Any] = {
        name: document.get(name) for name in ("topic_name", "time", "cause", "data")
    }
    if not (
        isinstance(values["topic_name"], str)
        and isinstance(values["time"], int)
        and isinstance(values["cause"], str)
        and isinstance(values["data"], str | None)
    ):
        raise Corrupt(f"{document[ID]} is not a firing of a topic: {values!r:.120}")
    return Firing(**values, firing_id=document[ID])
