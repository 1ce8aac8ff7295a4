"""Group commit: one thread writes for all tasks of a store. Owns a thread, a pipe, a connection.

    tasks ── jobs ─► queue ─► BEGIN IMMEDIATE · job · job · … · COMMIT ─► outcomes ─► tasks
    one task, a small job, a fast disk ─► the same, inline on the event loop
    a batch ─► BEGIN IMMEDIATE · job ─► outcome · job ─► outcome · … · COMMIT, inline

While one group is flushed to disk, the next one collects in the queue. Every job is atomic and
fails alone. An outcome is delivered only after the COMMIT that makes it durable. If the thread
ends, for whatever reason, every waiting task gets an error.

A batch (``core.store.batched``) answers a job before the COMMIT that makes it durable. It holds the
write lock, so it is bounded; a job that is not of the batch ends it first.

Waking two threads costs a third of a COMMIT on a fast disk, which a task that commits alone can
save. Every COMMIT is timed, and the inline path is used only while the average is short and no
other process holds the write lock.
"""

import asyncio
import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import perf_counter
from typing import Final

import apsw

from ctxmgr.core.store.contract import Commit
from ctxmgr.errors import CtxmgrError, OutcomeUnknown, Unavailable
from ctxmgr.stores.sqlite.apply import Applier
from ctxmgr.stores.sqlite.connection import translate_error, wait_for_lock
from ctxmgr.stores.sqlite.reader import StoreContext
from ctxmgr.stores.sqlite.submission import Job

QUEUE_MAX: Final = 1_024
"""Transactions in the queue; further tasks wait for a free slot."""

GROUP_MAX: Final = 256
"""Transactions per COMMIT: enough to share its cost, few enough for a short wait."""

INLINE_SECONDS_MAX: Final = 0.002
"""Average duration of a COMMIT up to which the event loop may wait for it."""

INLINE_BYTES_MAX: Final = 16_384
INLINE_CHANGES_MAX: Final = 8
"""What one turn of an agent writes. Encoding more takes milliseconds even before the COMMIT."""

BATCH_JOBS_MAX: Final = 512
"""Transactions of a batch."""

BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
"""JSON of a batch; the write-ahead log grows by about as much before it can be checkpointed."""

BATCH_SECONDS_MAX: Final = 0.5
"""How long a batch holds the write lock; other processes wait up to twenty times as long."""

_AVERAGED_COMMITS: Final = 8
"""COMMITs in the running average, so that a single slow flush does not change the path."""

_GROUP_ERRORS: Final = (
    apsw.IOError,
    apsw.FullError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.NoMemError,
    apsw.ReadOnlyError,
    apsw.BusyError,
    apsw.InterruptError,
)
"""Errors of the file or the machine rather than of one job. On these SQLite may have rolled back
the whole transaction, so the whole group fails."""

_PIPE_READ_BYTES: Final = 4_096
"""Wake-ups read at once. The thread writes one per group, and the queue holds fewer groups."""


@dataclass(slots=True)
class _Pending:
    job: Job
    future: asyncio.Future[Commit]
    outcome: Commit | CtxmgrError | None = None


@dataclass(slots=True)
class _Batch:
    until: float
    """When it has to end, by ``perf_counter``."""
    timer: asyncio.TimerHandle
    """Ends it if no job does."""
    jobs: int = 0
    size: int = 0

    @property
    def is_full(self) -> bool:
        return (
            self.jobs >= BATCH_JOBS_MAX
            or self.size >= BATCH_BYTES_MAX
            or perf_counter() >= self.until
        )


class LoopWaker:
    """Calls a function on the event loop when another thread asks for it, through a pipe.

    ``call_soon_threadsafe`` drains a socket until it would block before the callback runs. That
    costs 15 µs per durable put, more than half of what delivering its outcome takes.
    """

    def __init__(self, callback: Callable[[], None]) -> None:
        """Must be called on the event loop."""
        self._callback = callback
        self._loop = asyncio.get_running_loop()
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)
        os.set_blocking(self._write_fd, False)
        self._loop.add_reader(self._read_fd, self._on_readable)

    def wake(self) -> None:
        """Schedule the callback; safe in any thread. Several calls may share one callback."""
        with suppress(BlockingIOError):  # the pipe is full, so a wake-up is already pending
            os.write(self._write_fd, b"!")

    def close(self) -> None:
        """Close the pipe, on the event loop, after the last ``wake``."""
        self._loop.remove_reader(self._read_fd)
        os.close(self._read_fd)
        os.close(self._write_fd)

    def _on_readable(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._read_fd, _PIPE_READ_BYTES)
        self._callback()


class Writer:
    """Takes jobs from the event loop and commits them in groups."""

    def __init__(self, connection: apsw.Connection, context: StoreContext) -> None:
        self._connection = connection
        # Starts at the limit: the first commits run in the thread until the disk proves fast.
        self._commit_seconds = INLINE_SECONDS_MAX
        self._waiting = 0
        """Tasks inside ``commit``."""
        self._thread_jobs = 0
        """Jobs given to the thread and not yet delivered. While there are any, the connection
        belongs to the thread."""
        self._url = context.url
        self._applier = Applier(connection, context)
        self._queue: queue.SimpleQueue[_Pending | None] = queue.SimpleQueue()
        self._slots = asyncio.Semaphore(QUEUE_MAX)
        self._group: list[_Pending] = []
        self._done: deque[list[_Pending]] = deque()
        self._broken: apsw.Error | None = None
        self._closing = False
        self._ended = False
        self._batch: _Batch | None = None
        """Applied jobs that are not durable yet. While there are any, the connection is in use."""
        self._lost: CtxmgrError | None = None
        """Why a batch is lost whose jobs were answered."""
        self._waker = LoopWaker(self._deliver_done)
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="ctxmgr-sqlite-writer", daemon=True)
        self._thread.start()

    async def commit(self, job: Job) -> Commit:
        """Wait until the job is durable. Once it is queued, cancelling does not stop it."""
        async with self._slots:
            self._waiting += 1
            try:
                return await (await self._submit(job))
            finally:
                self._waiting -= 1

    async def commit_in_batch(self, job: Job) -> Commit:
        """Apply the job and answer; it is durable when its batch has ended."""
        if self._lost is not None:
            raise self._lost
        if self._closing:
            raise self._refusal()
        if self._batch is None and not self._begin_batch():
            return await self.commit(job)  # the thread writes, or another process does
        batch = self._batch
        assert batch is not None
        try:
            commit = self._applier.apply(job)
        except Exception as error:
            if self._applier.wrote or isinstance(error, _GROUP_ERRORS):
                self._lose_batch(error)
            raise self._as_ctxmgr_error(error) from error
        except BaseException as error:
            self._lose_batch(Unavailable(f"{self._url}: interrupted by {error!r}"))
            raise
        batch.jobs += 1
        batch.size += job.size
        if batch.is_full:
            self.end_batch()
        return commit

    def end_batch(self) -> None:
        """Make the batch durable; raises if it, or an earlier one, is lost."""
        if self._batch is not None:
            self._commit_batch()
        if self._lost is not None:
            raise self._lost

    def _begin_batch(self) -> bool:
        if self._thread_jobs or not self._begin_inline():
            return False
        try:
            self._applier.begin()
        except BaseException:
            self._roll_back()
            raise
        timer = self._loop.call_later(BATCH_SECONDS_MAX, self._commit_batch)
        self._batch = _Batch(perf_counter() + BATCH_SECONDS_MAX, timer)
        return True

    def _commit_batch(self) -> None:
        """COMMIT; what is lost if that fails is reported by the next call that concerns it."""
        batch, self._batch = self._batch, None
        if batch is None:
            return
        batch.timer.cancel()
        try:
            if not self._connection.in_transaction:
                raise Unavailable(f"{self._url}: SQLite rolled a batch back")  # noqa: TRY301
            self._connection.execute("COMMIT")
        except BaseException as error:
            self._lose_batch(error)
            if not isinstance(error, Exception):
                raise
        else:
            self._applier.end()

    def _lose_batch(self, error: BaseException) -> None:
        self._roll_back()
        if self._batch is not None:
            self._batch.timer.cancel()
            self._batch = None
        self._lost = Unavailable(
            f"{self._url}: the last transactions of a batch were not written ({error}); "
            "do it again from what is stored"
        )
        if self._broken is not None:
            self._queue.put(None)  # end the thread, which would wait for jobs forever

    async def close(self) -> None:
        """Write what is queued, then end the thread."""
        self._commit_batch()
        self._closing = True
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        self._deliver_done()
        self._waker.close()
        self._connection.close()

    async def _submit(self, job: Job) -> asyncio.Future[Commit]:
        pending = _Pending(job, self._loop.create_future())
        if self._fits_inline(job):
            # Give other tasks that are about to commit a chance to form a group with this one.
            await asyncio.sleep(0)
        if self._closing:
            raise self._refusal()
        # Checked again, because other tasks ran meanwhile.
        self._commit_batch()
        if self._waiting > 1 or not self._fits_inline(job) or not self._commit_inline(pending):
            self._thread_jobs += 1
            self._queue.put(pending)
        return pending.future

    def _fits_inline(self, job: Job) -> bool:
        return (
            not self._thread_jobs
            and self._commit_seconds < INLINE_SECONDS_MAX
            and job.size <= INLINE_BYTES_MAX
            and len(job.changes) <= INLINE_CHANGES_MAX
        )

    def _run(self) -> None:
        """Commit groups until the store is closed or the connection is broken."""
        try:
            while True:
                self._group, is_open = self._next_group()
                if self._group:
                    self._commit_group(self._group)
                    self._done.append(self._group)
                    self._waker.wake()
                # Not in a finally block: ``_abandon`` must find a group that the thread died in.
                self._group = []
                if not is_open or self._broken is not None:
                    break
        finally:
            self._ended = True
            self._waker.wake()

    def _next_group(self) -> tuple[list[_Pending], bool]:
        """Wait for a job and take those queued behind it; False: the store is closing."""
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

    def _deliver_done(self) -> None:
        while self._done:
            group = self._done.popleft()
            self._thread_jobs -= len(group)
            _deliver(group)
        if self._ended:
            self._abandon()

    def _abandon(self) -> None:
        """Fail every job that the thread will not finish.

        Runs on the event loop, where jobs are queued, so none is missed. Whether a job that was
        applied by a group in which the thread died is durable cannot be known.
        """
        self._closing = True
        left, self._group = self._group, []
        while not self._queue.empty():
            queued = self._queue.get()
            if queued is not None:
                left.append(queued)
        for pending in left:
            if isinstance(pending.outcome, Commit):
                pending.outcome = OutcomeUnknown(pending.outcome.key, self._reason())
            elif pending.outcome is None:
                pending.outcome = self._refusal()
        _deliver(left)

    def _refusal(self) -> Unavailable:
        remedy = "" if self._broken is None else "; open the store again"
        return Unavailable(f"{self._url}: {self._reason()}, nothing was written{remedy}")

    def _reason(self) -> str:
        if self._broken is None:
            return "the store was closed"
        return f"writing stopped after an error ({self._broken})"

    def _commit_group(self, group: list[_Pending]) -> None:
        with self._failing_together(group):
            self._connection.execute("BEGIN IMMEDIATE")
            self._write(group)

    def _commit_inline(self, pending: _Pending) -> bool:
        """Commit on the event loop; False: the thread has to wait for the lock or report why."""
        if not self._begin_inline():
            return False
        with self._failing_together([pending]):
            self._write([pending])
        _deliver([pending])
        if self._broken is not None:
            self._queue.put(None)  # end the thread, which would wait for jobs forever
        return True

    def _begin_inline(self) -> bool:
        """Begin a transaction on the event loop; False: another process holds the lock."""
        # No busy timeout: the event loop must not sleep while another process writes.
        self._connection.set_busy_timeout(0)
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except apsw.Error:
            return False
        finally:
            wait_for_lock(self._connection)
        return True

    @contextmanager
    def _failing_together(self, group: list[_Pending]) -> Iterator[None]:
        """Roll back and fail the whole group on an error that is not one job's."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  a bug must not end the thread
            self._roll_back()
            for pending in group:
                pending.outcome = self._as_ctxmgr_error(error)
        except BaseException:
            # Ctrl-C on the event loop: the next commit must not become part of this transaction.
            self._roll_back()
            raise

    def _write(self, group: list[_Pending]) -> None:
        self._applier.begin()
        if not self._apply_without_savepoints(group):
            # Outcomes of the first attempt are void: the whole group is applied again.
            self._connection.execute("ROLLBACK")
            self._applier.forget()
            self._connection.execute("BEGIN IMMEDIATE")
            self._applier.begin()
            for pending in group:
                self._apply_in_savepoint(pending)
        self._end(group)

    def _apply_without_savepoints(self, group: list[_Pending]) -> bool:
        """Apply all jobs; False: one of several failed after it had written something.

        A savepoint makes SQLite copy every page before it is changed. Most jobs that fail (on a
        match, or on their key) do so before their first write and need none.
        """
        for pending in group:
            try:
                pending.outcome = self._applier.apply(pending.job)
            except _GROUP_ERRORS:
                raise
            except Exception as error:
                if self._applier.wrote and len(group) == 1:
                    raise  # rolling back the group rolls back this job alone
                if self._applier.wrote:
                    return False
                pending.outcome = self._as_ctxmgr_error(error)
        return True

    def _apply_in_savepoint(self, pending: _Pending) -> None:
        self._connection.execute("SAVEPOINT job")
        try:
            pending.outcome = self._applier.apply(pending.job)
        except _GROUP_ERRORS:
            raise
        except Exception as error:  # noqa: BLE001  only this job fails
            pending.outcome = self._as_ctxmgr_error(error)
            self._connection.execute("ROLLBACK TO job")
            self._applier.undo()
        self._connection.execute("RELEASE job")

    def _as_ctxmgr_error(self, error: Exception) -> CtxmgrError:
        if isinstance(error, CtxmgrError):
            return error
        if isinstance(error, apsw.Error):
            return translate_error(error, self._url)
        return Unavailable(f"{self._url}: {error!r}; nothing was written")

    def _end(self, group: list[_Pending]) -> None:
        # SQLite rolls back by itself on some errors; a COMMIT after that would not fail.
        if not self._connection.in_transaction:
            raise Unavailable(f"{self._url}: SQLite rolled this back; nothing was written")
        started = perf_counter()
        try:
            self._connection.execute("COMMIT")
        except Exception as error:
            # An I/O error may hide a flush that reached the disk, and an exception of the WAL
            # hook comes after the flush. Any other SQLite error leaves nothing written.
            if isinstance(error, apsw.Error) and not isinstance(error, apsw.IOError):
                raise
            self._roll_back()
            for pending in group:
                if isinstance(pending.outcome, Commit):
                    pending.outcome = OutcomeUnknown(pending.outcome.key, str(error))
        else:
            self._applier.end()
            elapsed = perf_counter() - started
            self._commit_seconds += (elapsed - self._commit_seconds) / _AVERAGED_COMMITS

    def _roll_back(self) -> None:
        """Undo the group. If that fails, writing stops: closing the file undoes it."""
        self._applier.forget()
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except apsw.Error as error:
            self._broken = error


def _deliver(group: list[_Pending]) -> None:
    for pending in group:
        if pending.future.done():  # its task was cancelled
            continue
        if isinstance(pending.outcome, Commit):
            pending.future.set_result(pending.outcome)
        else:
            assert pending.outcome is not None
            pending.future.set_exception(pending.outcome)
