"""Record what a model streams, while it streams. Appends to the log, from the event loop.

    add (never waits) ─► buffer ─► one append per FLUSH_STEPS or FLUSH_SECONDS ─► on_appended

The last step of an open event is held back until the event ends, so that it is marked as its end,
and what follows it in the session waits as well: steps are recorded in their order. An answer that
broke off stays in the log without an end. What is in the buffer when a process is killed is
lost; the listener then records the answer from the stored turn.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from ctxmgr.errors import CtxmgrError
from ctxmgr.experience.log.batches import check_storable
from ctxmgr.experience.log.log import ExperienceLog
from ctxmgr.experience.records.timestep import NewTimestep, check_session_id

FLUSH_STEPS: Final = 64
FLUSH_SECONDS: Final = 0.25
"""How long a token may wait before others can see it."""

BUFFER_STEPS_MAX: Final = 100_000
"""Steps that wait for a log that cannot be written; later ones are dropped, and counted."""

OnAppended: TypeAlias = Callable[[str, Sequence[tuple[int, int]]], Awaitable[None]]
"""Called with a session, and the tick and the tokens of each step that is in the log since."""

_log = logging.getLogger(__name__)


class _Streamed(NamedTuple):
    step: NewTimestep
    tokens: int


class TokenStream:
    """What was streamed and is not in the log yet. For one event loop."""

    def __init__(self, log: ExperienceLog, *, on_appended: OnAppended | None = None) -> None:
        self._log = log
        self._on_appended = on_appended
        self._pending: dict[str, list[_Streamed]] = {}
        """By session."""
        self._appended: deque[tuple[str, list[tuple[int, int]]]] = deque()
        """What ``on_appended`` is to be called with, outside the lock."""
        self._flushing = asyncio.Lock()
        self._flushes = set[asyncio.Task[None]]()
        self._timer: asyncio.Task[None] | None = None
        self.dropped = 0

    def add(self, session_id: str, step: NewTimestep, *, tokens: int = 1) -> None:
        """Record a step soon. Returns at once; ``Incorrect`` if it cannot be stored."""
        check_session_id(session_id)
        check_storable(step)
        if sum(map(len, self._pending.values())) >= BUFFER_STEPS_MAX:
            self.dropped += 1
            return
        self._pending.setdefault(session_id, []).append(_Streamed(step, tokens))
        if self._timer is None or self._timer.done():
            self._timer = asyncio.create_task(self._flush_soon())

    async def end(self, session_id: str, event_id: str | None = None) -> None:
        """Mark the last step of an event, or of all open ones, as its end.

        Records what was streamed in the session up to there.
        """
        await self._go_on(self._end(session_id, event_id))

    async def flush(self, *, hold_back: bool = False) -> None:
        """Append what is pending, but for what is to be held back.

        Goes on when the caller is cancelled: what a thread has appended is never appended again.
        """
        await self._go_on(self._flush(hold_back=hold_back))

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            await asyncio.gather(self._timer, return_exceptions=True)
        await self.flush()

    async def _go_on(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(self._then_report(work))
        self._flushes.add(task)
        task.add_done_callback(self._flushes.discard)
        await asyncio.shield(task)

    async def _then_report(self, work: Coroutine[None, None, None]) -> None:
        """Report what was appended when the lock is free: a compaction may take a while."""
        try:
            await work
        finally:
            while self._appended:
                session_id, counts = self._appended.popleft()
                if self._on_appended is not None:
                    await self._on_appended(session_id, counts)

    async def _flush(self, *, hold_back: bool) -> None:
        async with self._flushing:
            for session_id in tuple(self._pending):
                steps = [each.step for each in self._pending[session_id]]
                await self._append(session_id, _ready(steps) if hold_back else len(steps))

    async def _end(self, session_id: str, event_id: str | None) -> None:
        async with self._flushing:
            pending = self._pending.get(session_id, [])
            steps = [each.step for each in pending]
            ended = [n for n in _open_ends(steps) if event_id in {None, steps[n].event_id}]
            for number in ended:
                pending[number] = pending[number]._replace(
                    step=replace(steps[number], event_end=True)
                )
            if event_id is None:
                count = len(steps)
            else:
                last = [n for n, step in enumerate(steps, 1) if step.event_id == event_id]
                count = max(last, default=0)
            await self._append(session_id, count)

    async def _append(self, session_id: str, count: int) -> None:
        if count:
            ready = self._pending[session_id][:count]
            appended = await self._log.append(session_id, [each.step for each in ready])
            del self._pending[session_id][:count]
            assert appended is not None, "only an event can have been recorded before"
            ticks = enumerate(ready, appended.first_tick)
            self._appended.append((session_id, [(tick, each.tokens) for tick, each in ticks]))
        if not self._pending.get(session_id, True):
            del self._pending[session_id]

    async def _flush_soon(self) -> None:
        if sum(map(len, self._pending.values())) < FLUSH_STEPS:
            await asyncio.sleep(FLUSH_SECONDS)
        try:
            await self.flush(hold_back=True)
        except CtxmgrError as error:
            _log.warning("what was streamed is not recorded yet: %s", error)


def _open_ends(steps: Sequence[NewTimestep]) -> list[int]:
    """Return where the last step of each event is that has not ended."""
    last = {step.event_id: number for number, step in enumerate(steps) if step.event_id is not None}
    return sorted(number for number in last.values() if not steps[number].event_end)


def _ready(steps: Sequence[NewTimestep]) -> int:
    """Return how many steps need not wait for the end of an event; few can wait for one."""
    waiting = (n for n in _open_ends(steps) if len(steps) - n <= FLUSH_STEPS)
    return next(waiting, len(steps))
