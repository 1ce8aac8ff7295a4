"""Output steering: find what the agent's own answer should have done differently. No I/O."""

from collections.abc import Sequence

from ctxmgr.knowledge.topics.pattern_matcher import PatternMatcher
from ctxmgr.knowledge.topics.topic import ActivationMode, Direction, Topic


class OutputWatcher:
    """The triggers that have a correction hint and look at output."""

    def __init__(self, topics: Sequence[Topic], *, matcher: PatternMatcher) -> None:
        """``matcher`` is the one of these topics."""
        self._topics = {
            topic.name: topic
            for topic in topics
            if topic.activation is not ActivationMode.MANUAL
            and any(trigger.correction_hint for trigger in topic.message_triggers)
        }
        self._matcher = matcher

    def check(self, output: str, *, tool_paths: Sequence[str] = ()) -> list[tuple[Topic, str]]:
        """Return each topic that an answer calls for, with the hint for the next turn.

        A topic is listed once for each different hint.
        """
        if not self._topics:
            return []
        found = self._matcher.matches(output, direction=Direction.OUTPUT, tool_paths=tool_paths)
        pairs = (
            (name, trigger.correction_hint)
            for name, triggers in found.items()
            if name in self._topics
            for trigger in triggers
        )
        return [(self._topics[name], hint) for name, hint in dict.fromkeys(pairs) if hint]
