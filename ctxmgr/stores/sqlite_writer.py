"""Group commit: one thread writes for all tasks of a store. Owns a thread and a connection.

    tasks ── jobs ─► queue ─► BEGIN IMMEDIATE · job · job · … · COMMIT ─► outcomes ─► tasks
    a task alone, a small job, a quick disk ─► the same at once, on the event loop

While a group is being made durable the next one gathers. Every job is atomic by itself and fails
alone, and no outcome is told before the COMMIT that makes it durable. When the
thread ends, whatever the reason, everyone who waits is told.

Waking two threads takes a third as long as a COMMIT on a quick disk, and a task that commits alone
gains nothing by it. Whether the disk is quick is measured at every COMMIT; where it is not, or
another process writes, only the thread waits.
"""

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Final

import apsw

from ctxmgr.core.store import Commit
from ctxmgr.errors import CtxmgrError, OutcomeUnknown, Unavailable
from ctxmgr.stores.sqlite_apply import Applier
from ctxmgr.stores.sqlite_bell import Bell
from ctxmgr.stores.sqlite_file import BUSY_WAIT_MS, translate
from ctxmgr.stores.sqlite_jobs import Job
from ctxmgr.stores.sqlite_reader import Context

QUEUE_MAX: Final = 1_024
"""Transactions that wait; more tasks than that wait for a place."""

GROUP_MAX: Final = 256
"""Transactions in one COMMIT: enough to share its cost, few enough to answer soon."""

HERE_SECONDS_MAX: Final = 0.002
"""A COMMIT that the event loop waits for: no longer than other work keeps it busy."""

HERE_BYTES_MAX: Final = 16_384
HERE_CHANGES_MAX: Final = 8
"""What a turn of an agent writes; more takes milliseconds before the disk is asked."""

_PACE: Final = 8
"""COMMITs over which the time of one is averaged: one slow flush does not decide."""

_ALL_FAIL: Final = (
    apsw.IOError,
    apsw.FullError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.NoMemError,
    apsw.ReadOnlyError,
    apsw.BusyError,
    apsw.InterruptError,
)
"""What is wrong with the file or the machine, not with a job; SQLite may have rolled back all."""


@dataclass(slots=True)
class _Pending:
    job: Job
    future: asyncio.Future[Commit]
    outcome: Commit | CtxmgrError | None = None


class Writer:
    """Takes jobs from the event loop and commits them in groups."""

    def __init__(self, connection: apsw.Connection, context: Context) -> None:
        self._connection = connection
        self._commit_seconds = HERE_SECONDS_MAX
        self._waiting = 0
        self._in_thread = 0
        """Jobs that the thread has and nobody was told of: until then the connection is its."""
        self._url = context.url
        self._applier = Applier(connection, context)
        self._queue: queue.SimpleQueue[_Pending | None] = queue.SimpleQueue()
        self._places = asyncio.Semaphore(QUEUE_MAX)
        self._group: list[_Pending] = []
        self._done: deque[list[_Pending]] = deque()
        self._broken: apsw.Error | None = None
        self._closing = False
        self._ended = False
        self._bell = Bell(self._tell_done)
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="ctxmgr-sqlite-writer", daemon=True)
        self._thread.start()

    async def commit(self, job: Job) -> Commit:
        """Wait until the job is durable. Once it is queued, cancelling does not stop it."""
        async with self._places:
            self._waiting += 1
            try:
                return await (await self._begun(job))
            finally:
                self._waiting -= 1

    async def _begun(self, job: Job) -> asyncio.Future[Commit]:
        pending = _Pending(job, self._loop.create_future())
        if self._fits_here(job):
            await asyncio.sleep(0)  # who is about to commit too does so now, and shares the cost
        if self._closing:
            raise self._refusal()
        if self._waiting > 1 or not self._fits_here(job) or not self._commit_here(pending):
            self._in_thread += 1
            self._queue.put(pending)
        return pending.future

    def _fits_here(self, job: Job) -> bool:
        return (
            not self._in_thread
            and self._commit_seconds < HERE_SECONDS_MAX
            and job.size <= HERE_BYTES_MAX
            and len(job.changes) <= HERE_CHANGES_MAX
        )

    async def close(self) -> None:
        """Write what is queued, then end the thread."""
        self._closing = True
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        self._tell_done()
        self._bell.close()
        self._connection.close()

    def _run(self) -> None:
        try:
            while self._serve():
                pass
        finally:
            self._ended = True
            self._bell.ring()

    def _serve(self) -> bool:
        """Commit one group; tell whether there may be another."""
        self._group, open_ = self._gather()
        if self._group:
            self._commit(self._group)
            self._done.append(self._group)
            self._bell.ring()
        self._group = []
        return open_ and self._broken is None

    def _tell_done(self) -> None:
        while self._done:
            group = self._done.popleft()
            self._in_thread -= len(group)
            _tell(group)
        if self._ended:
            self._abandon()

    def _abandon(self) -> None:
        """Refuse whatever was not begun. On the event loop, where jobs are queued: none is missed.

        Of a group that the thread died over, nobody knows whether what was applied is durable.
        """
        self._closing = True
        left, self._group = self._group, []
        while not self._queue.empty():
            waiting = self._queue.get()
            if waiting is not None:
                left.append(waiting)
        for pending in left:
            if isinstance(pending.outcome, Commit):
                pending.outcome = OutcomeUnknown(pending.outcome.key, self._reason())
            elif pending.outcome is None:
                pending.outcome = self._refusal()
        _tell(left)

    def _refusal(self) -> Unavailable:
        return Unavailable(f"{self._url}: {self._reason()}; nothing was written")

    def _reason(self) -> str:
        if self._broken is None:
            return "closed while this waited"
        return f"stopped writing, open it again ({self._broken})"

    def _gather(self) -> tuple[list[_Pending], bool]:
        group: list[_Pending] = []
        while len(group) < GROUP_MAX:
            try:
                pending = self._queue.get(block=not group)
            except queue.Empty:
                break
            if pending is None:
                return group, False
            group.append(pending)
        return group, True

    def _commit(self, group: list[_Pending]) -> None:
        with self._failing_together(group):
            self._connection.execute("BEGIN IMMEDIATE")
            self._write(group)

    def _commit_here(self, pending: _Pending) -> bool:
        """Commit on the event loop; False: there is something to wait for, or to complain of."""
        self._connection.set_busy_timeout(0)
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except apsw.Error:
            return False
        finally:
            self._connection.set_busy_timeout(BUSY_WAIT_MS)
        with self._failing_together([pending]):
            self._write([pending])
        _tell([pending])
        if self._broken is not None:
            self._queue.put(None)
        return True

    @contextmanager
    def _failing_together(self, group: list[_Pending]) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001  the thread must outlive a bug, and tell it
            self._roll_back()
            for pending in group:
                pending.outcome = self._told(error)
        except BaseException:  # Ctrl-C on the event loop: what others write must not join it
            self._roll_back()
            raise

    def _write(self, group: list[_Pending]) -> None:
        self._applier.begin()
        if not self._applied_at_once(group):
            self._start_over()
            for pending in group:
                self._apply(pending)
        self._end(group)

    def _applied_at_once(self, group: list[_Pending]) -> bool:
        """Apply without savepoints, for which SQLite copies every page before it is changed.

        A job that is refused has written nothing. False: one of several failed halfway.
        """
        for pending in group:
            try:
                pending.outcome = self._applier.apply(pending.job)
            except _ALL_FAIL:
                raise
            except Exception as error:
                if self._applier.wrote and len(group) == 1:
                    raise
                if self._applier.wrote:
                    return False
                pending.outcome = self._told(error)
        return True

    def _start_over(self) -> None:
        self._connection.execute("ROLLBACK")
        self._applier.forget()
        self._connection.execute("BEGIN IMMEDIATE")
        self._applier.begin()

    def _apply(self, pending: _Pending) -> None:
        self._connection.execute("SAVEPOINT job")
        try:
            pending.outcome = self._applier.apply(pending.job)
        except _ALL_FAIL:
            raise
        except Exception as error:  # noqa: BLE001  it is this job's alone
            pending.outcome = self._told(error)
            self._connection.execute("ROLLBACK TO job")
            self._applier.undo()
        self._connection.execute("RELEASE job")

    def _told(self, error: Exception) -> CtxmgrError:
        if isinstance(error, CtxmgrError):
            return error
        if isinstance(error, apsw.Error):
            return translate(error, self._url)
        return Unavailable(f"{self._url}: {error!r}; nothing was written")

    def _end(self, group: list[_Pending]) -> None:
        if not self._connection.in_transaction:
            raise Unavailable(f"{self._url}: SQLite rolled this back; nothing was written")
        started = perf_counter()
        try:
            self._connection.execute("COMMIT")
        except Exception as error:
            if isinstance(error, apsw.Error) and not isinstance(error, apsw.IOError):
                raise  # anything else may have come after it was durable
            self._roll_back()
            for pending in group:
                if isinstance(pending.outcome, Commit):
                    pending.outcome = OutcomeUnknown(pending.outcome.key, str(error))
        else:
            self._applier.end()
            taken = perf_counter() - started
            self._commit_seconds += (taken - self._commit_seconds) / _PACE

    def _roll_back(self) -> None:
        """Undo the group. Where that fails nothing more is written: closing the file undoes it."""
        self._applier.forget()
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except apsw.Error as error:
            self._broken = error


def _tell(group: list[_Pending]) -> None:
    for pending in group:
        if pending.future.done():
            continue
        if isinstance(pending.outcome, Commit):
            pending.future.set_result(pending.outcome)
        else:
            assert pending.outcome is not None
            pending.future.set_exception(pending.outcome)
