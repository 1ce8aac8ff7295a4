"""The topics of one session, turn by turn. Waits for the gate and the store.

    new message  ─► observe_input   its topics, and those that fired by webhook or clock
    answer       ─► observe_output  corrections
    next prompt  ◄─ active          topics of the last message, corrections of the last answer

A correction is valid for the turn after the answer that called for it, and for no other. When the
next message comes, the answers to the last one show which topics were of use.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from ctxmgr.errors import CtxmgrError
from ctxmgr.knowledge.topics.decision_log import DecisionLog
from ctxmgr.knowledge.topics.topic import ActivationMode, Direction
from ctxmgr.knowledge.topics.triggers import TopicFirings
from ctxmgr.knowledge.topics.usefulness import was_used
from ctxmgr.knowledge.topics.watcher_pipeline import TopicActivation, WatcherPipeline

ANSWERS_MAX: Final = 50
"""Answers to one message by which its topics are judged, from the last."""

_log = logging.getLogger(__name__)


class SessionWatcher:
    """Keeps which topics the next prompt of a session should show."""

    def __init__(
        self,
        pipeline: WatcherPipeline,
        *,
        session_id: str,
        decisions: DecisionLog | None = None,
        firings: TopicFirings | None = None,
        now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._pipeline = pipeline
        self._session_id = session_id
        self._decisions = decisions
        self._firings = firings
        self._now = now
        self._seen_firings: set[str] = set()
        self._message = ""
        self._answers: list[str] = []
        self._topics: list[TopicActivation] = []
        self._corrections: list[TopicActivation] = []
        self._shown: list[tuple[TopicActivation, int]] = []
        """What was shown in this exchange, and how many answers there were before."""

    @property
    def active(self) -> tuple[TopicActivation, ...]:
        """What the next prompt should show: corrections first, each topic once."""
        corrected = {each.topic.name for each in self._corrections}
        others = [each for each in self._topics if each.topic.name not in corrected]
        return (*self._corrections, *others)

    async def observe_input(
        self, message: str, *, tool_paths: Sequence[str] = ()
    ) -> tuple[TopicActivation, ...]:
        """Find the topics of a new message. Corrections of the last answer stay."""
        await self.judge()
        found = await self._pipeline.process(
            message,
            Direction.INPUT,
            tool_paths=tool_paths,
            previous=self._message,
            session_id=self._session_id,
        )
        names = {each.topic.name for each in found}
        fired = [each for each in await self._fired() if each.topic.name not in names]
        self._message = message
        self._topics = [*found, *fired]
        self._shown += [(each, 0) for each in found]
        return self.active

    async def observe_output(
        self, answer: str, *, tool_paths: Sequence[str] = ()
    ) -> tuple[TopicActivation, ...]:
        """Find what the next turn should correct."""
        self._answers = [*self._answers, answer][-ANSWERS_MAX:]
        self._corrections = await self._pipeline.process(
            answer, Direction.OUTPUT, tool_paths=tool_paths, session_id=self._session_id
        )
        self._shown += [(each, len(self._answers)) for each in self._corrections]
        return self.active

    async def judge(self) -> None:
        """Store whether what was shown was of use, by all answers to the last message.

        The next message calls it; call it at the end of a session, too.
        """
        judged = {
            each.decision_id: was_used(
                each.topic, message=self._message, answer="\n".join(self._answers[before:])
            )
            for each, before in self._shown
            if each.decision_id is not None and self._answers[before:]
        }
        self._answers, self._shown = [], []
        if self._decisions is None or not judged:
            return
        try:
            await self._decisions.judge(judged)
        except CtxmgrError as error:
            _log.warning("%d decisions about topics were not judged: %s", len(judged), error)

    async def _fired(self) -> list[TopicActivation]:
        """Return the topics that fired in the last hour and that this session has not had."""
        if self._firings is None:
            return []
        now = self._now()
        try:
            firings = await self._firings.current(tuple(self._pipeline.topics.values()), now=now)
        except CtxmgrError as error:
            _log.warning("topics that fired were not read: %s", error)
            return []
        latest = {
            firing.topic_name: firing
            for firing in firings
            if firing.firing_id not in self._seen_firings
        }
        self._seen_firings = {firing.firing_id for firing in firings}
        topics = self._pipeline.topics
        return [
            TopicActivation(topic=topics[name], score=1.0, reason=firing.cause, data=firing.data)
            for name, firing in latest.items()
            if name in topics and topics[name].activation is not ActivationMode.MANUAL
        ]
