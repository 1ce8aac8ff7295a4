"""Learn from a session that is stored already. Commits through the learner."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ctxmgr.core.objects.envelope import chat_id
from ctxmgr.core.store.contract import Store
from ctxmgr.errors import Incorrect, NotFound
from ctxmgr.memory.extraction.findings import LearntItem, RefusedItem
from ctxmgr.memory.learning.learner import Learner
from ctxmgr.memory.learning.listener import TURNS_MAX
from ctxmgr.memory.learning.read_exchange import StoredTurn, calls_tools


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedSession:
    """What a session taught."""

    exchanges: int
    learnt: tuple[LearntItem, ...]
    refused: tuple[RefusedItem, ...]


async def learn_session(store: Store, learner: Learner, session_id: str) -> ReplayedSession:
    """Learn from all turns of a session that were not learnt from before.

    ``NotFound`` if there is no such session, ``Incorrect`` if it is somebody else's.
    """
    version = await store.get(chat_id(session_id))
    if version is None:
        raise NotFound(f"there is no session {session_id!r:.80} with turns")
    record = await learner.record(session_id)
    if record is not None and record.owner != learner.owner:
        raise Incorrect(f"{session_id!r:.80} is a session of another user or project")
    await learner.bind(session_id)
    turns = dict(enumerate(version.document["turns"], start=1))
    exchanges = 0
    learnt: list[LearntItem] = []
    turned_down: list[RefusedItem] = []
    for exchange in exchanges_of(turns):
        lessons = await learner.learn(session_id, exchange, at=time.time_ns() // 1_000_000)
        if lessons is not None:
            exchanges += 1
            learnt += lessons.learnt
            turned_down += lessons.refused
    return ReplayedSession(exchanges=exchanges, learnt=tuple(learnt), refused=tuple(turned_down))


def exchanges_of(turns: Mapping[int, StoredTurn]) -> Iterator[dict[int, StoredTurn]]:
    """Yield the turns of each exchange, as a listener would have met them."""
    current: dict[int, StoredTurn] = {}
    for number, turn in sorted(turns.items()):
        if turn.get("user") and current:
            yield current
            current = {}
        current[number] = turn
        if not calls_tools(turn) or len(current) >= TURNS_MAX:
            yield current
            current = {}
    if current:
        yield current
