"""Record what a model streams, while it streams. Appends to the log, from the event loop.

    add (never waits) ─► buffer ─► one append per FLUSH_STEPS or FLUSH_SECONDS

One step is held back until the answer ends, so that the last one is marked as its end. An answer
that broke off stays in the log without an end. What is in the buffer when a process is killed is
lost; the listener then records the answer from the stored turn.
"""

import asyncio
import logging
from dataclasses import dataclass, replace
from typing import Final

from ctxmgr.errors import CtxmgrError
from ctxmgr.experience.log.batches import check_storable
from ctxmgr.experience.log.log import ExperienceLog
from ctxmgr.experience.records.timestep import NewTimestep, check_session_id

FLUSH_STEPS: Final = 64
FLUSH_SECONDS: Final = 0.25
"""How long a token may wait before others can see it."""

BUFFER_STEPS_MAX: Final = 100_000
"""Steps that wait for a log that cannot be written; later ones are dropped, and counted."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Pending:
    session_id: str
    step: NewTimestep


class TokenStream:
    """What was streamed and is not in the log yet. For one event loop."""

    def __init__(self, log: ExperienceLog) -> None:
        self._log = log
        self._pending: list[_Pending] = []
        self._flushing = asyncio.Lock()
        self._flushes = set[asyncio.Task[None]]()
        self._timer: asyncio.Task[None] | None = None
        self.dropped = 0

    def add(self, session_id: str, step: NewTimestep) -> None:
        """Record a step soon. Returns at once; ``Incorrect`` if it cannot be stored."""
        check_session_id(session_id)
        check_storable(step)
        if len(self._pending) >= BUFFER_STEPS_MAX:
            self.dropped += 1
            return
        self._pending.append(_Pending(session_id, step))
        if self._timer is None or self._timer.done():
            self._timer = asyncio.create_task(self._flush_soon())

    async def end(self, session_id: str) -> None:
        """Record everything; the last step of the session is the end of its event."""
        for pending in reversed(self._pending):
            if pending.session_id == session_id:
                pending.step = replace(pending.step, event_end=True)
                break
        await self.flush(hold_back=False)

    async def flush(self, *, hold_back: bool = False) -> None:
        """Append what is pending, but for the last step if that is to be held back.

        Goes on when the caller is cancelled: what a thread has appended is never appended again.
        """
        task = asyncio.create_task(self._flush(hold_back=hold_back))
        self._flushes.add(task)
        task.add_done_callback(self._flushes.discard)
        await asyncio.shield(task)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            await asyncio.gather(self._timer, return_exceptions=True)
        await self.flush()

    async def _flush(self, *, hold_back: bool) -> None:
        async with self._flushing:
            while len(self._pending) > (1 if hold_back else 0):
                session_id = self._pending[0].session_id
                count = 0
                limit = len(self._pending) - (1 if hold_back else 0)
                while count < limit and self._pending[count].session_id == session_id:
                    count += 1
                steps = [pending.step for pending in self._pending[:count]]
                await self._log.append(session_id, steps)
                del self._pending[:count]

    async def _flush_soon(self) -> None:
        if len(self._pending) < FLUSH_STEPS:
            await asyncio.sleep(FLUSH_SECONDS)
        try:
            await self.flush(hold_back=True)
        except CtxmgrError as error:
            _log.warning("what was streamed is not recorded yet: %s", error)
