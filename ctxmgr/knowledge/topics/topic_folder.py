"""The topics of a folder of notes, with everything that is wrong with them. Reads files."""

from collections.abc import Collection, Iterable, Iterator

from ctxmgr.errors import NotFound
from ctxmgr.knowledge.notes.layout import Category
from ctxmgr.knowledge.notes.notes_folder import NotesFolder
from ctxmgr.knowledge.topics.pattern_matcher import check_triggers
from ctxmgr.knowledge.topics.topic import Severity, Topic, TopicProblem, TopicSet, read_topics
from ctxmgr.knowledge.topics.triggers import check_schedules


def load_topics(notes: NotesFolder) -> TopicSet:
    """Read all topics. One that cannot be used is reported and left out; the others stay."""
    scan = notes.scan(Category.TOPIC)
    unreadable = [
        TopicProblem(path=each.path, severity=Severity.ERROR, message=each.reason)
        for each in scan.unreadable
    ]
    found = read_topics(scan.notes)
    topics, of_triggers = check_triggers(found.topics)
    topics, of_schedules = check_schedules(topics)
    problems = (*unreadable, *found.problems, *of_triggers, *of_schedules)
    problems += tuple(_missing_subscriptions(topics, set(notes.paths())))
    return TopicSet(
        topics=tuple(topics), problems=tuple(sorted(problems, key=lambda each: each.path))
    )


def _missing_subscriptions(
    topics: Iterable[Topic], paths: Collection[str]
) -> Iterator[TopicProblem]:
    for topic in topics:
        for wanted in topic.subscriptions:
            if wanted not in paths and f"knowledge/{wanted}" not in paths:
                yield TopicProblem(
                    path=topic.path,
                    severity=Severity.WARNING,
                    message=f"there is no note {wanted}, to which it subscribes",
                )


def require_topic(topics: Iterable[Topic], name: str) -> Topic:
    """Return the topic with a name; ``NotFound`` lists those there are."""
    named = {topic.name: topic for topic in topics}
    if name not in named:
        others = ", ".join(sorted(named)[:20]) or "none"
        raise NotFound(f"there is no topic {name!r:.80} (there are: {others})")
    return named[name]
