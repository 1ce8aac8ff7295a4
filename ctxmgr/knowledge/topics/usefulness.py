"""Whether a topic that was shown was of use, judged by the answer. Pure.

The answer either names the topic or a note of it, or says several things that the topic says and
the message did not. This is an estimate: an agent may follow a rule without repeating it.
"""

from typing import Final

from ctxmgr.knowledge.topics.topic import Topic
from ctxmgr.search.terms import terms

USED_TERMS_MIN: Final = 3
"""Terms of the topic that are in the answer and not in the message."""

ANSWER_CHARS_MAX: Final = 20_000


def was_used(topic: Topic, *, message: str, answer: str) -> bool:
    """Return whether an answer shows that a topic was of use."""
    answer = answer[:ANSWER_CHARS_MAX]
    if any(name in answer for name in (f"[[{topic.name}", topic.path, *topic.subscriptions)):
        return True
    said = set(terms(answer)) - set(terms(message[:ANSWER_CHARS_MAX]))
    return len(said & set(terms(topic.text))) >= USED_TERMS_MIN
