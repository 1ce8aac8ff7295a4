"""The topics that the next prompt of each session shows. Waits for the gate; reads chats.

    topic files ─► usable topics ─► one pipeline ─► a watcher per session
    answers since the last prompt ─► corrections        new message ─► topics

Answers are read from the stored chat, so that a correction reaches the very next prompt, also of a
session that was resumed in another process.
"""

import logging
from collections.abc import Iterable
from typing import Any, Final

from ctxmgr.core.objects.envelope import chat_id
from ctxmgr.core.store.contract import Store
from ctxmgr.errors import CtxmgrError
from ctxmgr.knowledge.notes.note import Note
from ctxmgr.knowledge.topics.decision_log import DecisionLog
from ctxmgr.knowledge.topics.gate import GatedActivator
from ctxmgr.knowledge.topics.pattern_matcher import check_triggers
from ctxmgr.knowledge.topics.session_watcher import SessionWatcher
from ctxmgr.knowledge.topics.topic import TopicProblem, read_topics
from ctxmgr.knowledge.topics.triggers import TopicFirings, check_schedules
from ctxmgr.knowledge.topics.watcher_pipeline import TopicActivation, WatcherPipeline

SESSIONS_MAX: Final = 1_024
"""Sessions that are watched; the topics of the oldest are found again."""

PATHS_MAX: Final = 200
"""Paths in the tool calls of one answer that triggers look at."""

_PATH_ARGUMENTS: Final = ("path", "file_path", "file", "filename")

_log = logging.getLogger(__name__)


class ActiveTopics:
    """The topics of all sessions of a client."""

    def __init__(
        self, *, store: Store | None, gate: GatedActivator | None = None, threshold: float
    ) -> None:
        """Without a store, nothing is logged and answers are not watched."""
        self._store = store
        self._gate = gate
        self._threshold = threshold
        self._notes: tuple[Note, ...] = ()
        self._pipeline = WatcherPipeline((), threshold=threshold)
        self._watchers: dict[str, tuple[SessionWatcher, int]] = {}
        """With the number of turns whose answers were watched."""
        self.problems: tuple[TopicProblem, ...] = ()
        """What is wrong with topic files."""

    def update(self, notes: Iterable[Note]) -> None:
        """Use these topic files; one that cannot be used is reported, and the others stay."""
        given = tuple(notes)
        if given == self._notes:
            return
        found = read_topics(given)
        topics, wrong_triggers = check_triggers(found.topics)
        topics, wrong_schedules = check_schedules(topics)
        self.problems = (*found.problems, *wrong_triggers, *wrong_schedules)
        for problem in self.problems:
            _log.warning("%s: %s", problem.path, problem.message)
        log = DecisionLog(self._store) if self._store is not None else None
        self._pipeline = WatcherPipeline(
            topics, gate=self._gate, log=log, threshold=self._threshold
        )
        self._notes = given
        self._watchers.clear()

    async def would_activate(self, message: str) -> tuple[TopicActivation, ...]:
        """Return what a message would activate; nothing is logged."""
        pipeline = WatcherPipeline(
            tuple(self._pipeline.topics.values()), gate=self._gate, threshold=self._threshold
        )
        return tuple(await pipeline.process(message, "input"))

    async def activate(
        self, session_id: str, message: str, *, is_new: bool
    ) -> tuple[TopicActivation, ...]:
        """Watch what was said since the last prompt; return the topics of the next one."""
        watcher, watched = self._watcher(session_id)
        turns = await self._turns(session_id)
        for turn in turns[max(watched, len(turns) - 1) :]:
            await watcher.observe_output(_text(turn), tool_paths=_paths(turn))
        self._watchers[session_id] = (watcher, len(turns))
        if is_new:
            await watcher.observe_input(message)
        return watcher.active

    def _watcher(self, session_id: str) -> tuple[SessionWatcher, int]:
        known = self._watchers.pop(session_id, None)
        if known is None:
            store = self._store
            watcher = SessionWatcher(
                self._pipeline,
                session_id=session_id,
                decisions=DecisionLog(store) if store is not None else None,
                firings=TopicFirings(store) if store is not None else None,
            )
            known = (watcher, 0)
        if len(self._watchers) >= SESSIONS_MAX:
            del self._watchers[next(iter(self._watchers))]
        return known

    async def _turns(self, session_id: str) -> list[dict[str, Any]]:
        if self._store is None or not self._pipeline.topics:
            return []
        try:
            version = await self._store.get(chat_id(session_id))
        except CtxmgrError as error:
            _log.warning("the answers of %s were not watched: %s", session_id, error)
            return []
        document = None if version is None else version.document
        turns = document.get("turns") if document else None
        return list(turns) if isinstance(turns, list) else []


def _text(turn: dict[str, Any]) -> str:
    parts = turn.get("assistant", ())
    texts = [part.get("text") for part in parts if part.get("type") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str))


def _paths(turn: dict[str, Any]) -> list[str]:
    """Return the paths that the answer's tool calls name."""
    paths = []
    for part in turn.get("assistant", ()):
        args = part.get("args")
        if isinstance(args, dict):
            paths += [args[name] for name in _PATH_ARGUMENTS if isinstance(args.get(name), str)]
    return paths[:PATHS_MAX]
