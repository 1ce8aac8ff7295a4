"""Topics for tests, made from the text of a file."""

import json
from typing import Any

from ctxmgr.knowledge.notes.note import Note, read_note
from ctxmgr.knowledge.topics.topic import Topic, read_topic

BODY = """
Everything about deploying services to staging and production.

## Instructions

- Deploy to staging first.

### Rollback

- Roll back with make rollback.

## Context Notes

- The canary gets five per cent.
"""


def topic_note(name: str = "deployment", *, body: str = BODY, **fields: Any) -> Note:
    """Return a topic file; JSON is YAML, too."""
    head = {"type": "topic", **fields}
    lines = "\n".join(f"{key}: {json.dumps(value)}" for key, value in head.items())
    return read_note(f"topics/{name}.md", f"---\n{lines}\n---\n{body}")


def make_topic(name: str = "deployment", *, match: str | None = None, **fields: Any) -> Topic:
    if match is not None:
        fields["triggers"] = [{"type": "pattern", "match": match}]
    return read_topic(topic_note(name, **fields))
