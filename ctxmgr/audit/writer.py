"""The system's side of the audit log: it records, and cannot read. Runs a thread.

    record() ─► pending ─► one batch: one lock, one write, one flush ─► the ids of the records

While a batch is written, the next one gathers, so that many callers share a flush. A caller waits
until its record is on disk. If more is pending than the bounds allow, callers wait for room; after
``WAIT_SECONDS_MAX`` they get ``Unavailable``.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, ParamSpec, Self, TypeVar

from ctxmgr.audit.appender import SEGMENT_BYTES, Appended, Appender
from ctxmgr.audit.folder import AuditFolder
from ctxmgr.audit.keys import SigningKey
from ctxmgr.audit.records import AuditEntry, PreparedEntry
from ctxmgr.audit.signing import make_checkpoint
from ctxmgr.core.events.event_type import EventType
from ctxmgr.core.events.events import EventOrigin
from ctxmgr.errors import CtxmgrError, Incorrect, Unavailable

BATCH_RECORDS_MAX: Final = 1_024
BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
"""What one flush covers at most. A single record may be larger."""

PENDING_RECORDS_MAX: Final = 8_192
PENDING_BYTES_MAX: Final = 64 * 1024 * 1024
"""What may wait to be written; beyond it callers wait."""

WAIT_SECONDS_MAX: Final = 30.0
"""How long a caller waits for room: far longer than a disk needs for all that is pending."""

CHECKPOINT_RECORDS: Final = 10_000
"""Records after which a checkpoint is signed, if the writer has the key."""

_log = logging.getLogger(__name__)
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class _Group:
    """Entries of one caller, and what they become."""

    def __init__(self, entries: list[PreparedEntry]) -> None:
        self.entries: Final = entries
        self.size: Final = sum(entry.size for entry in entries)
        self.written: Final[asyncio.Future[list[Appended | None]]] = (
            asyncio.get_running_loop().create_future()
        )


class AuditLogWriter:
    """Appends to one log. Several writers, also in other processes, may use the same folder."""

    def __init__(
        self,
        storage_path: Path,
        be_id: str,
        *,
        key: SigningKey | None = None,
        segment_bytes: int = SEGMENT_BYTES,
        checkpoint_records: int = CHECKPOINT_RECORDS,
    ) -> None:
        """``be_id`` names the agent in every record; ``key`` signs checkpoints on the way."""
        self._folder = AuditFolder(storage_path)
        self._folder.configuration()
        self._folder.check_access()
        self._be_id = be_id
        self._key = key
        self._checkpoint_records = checkpoint_records
        self._appender = Appender(self._folder, be_id=be_id, segment_bytes=segment_bytes)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ctxmgr-audit")
        self._pending: deque[_Group] = deque()
        self._pending_records = 0
        self._pending_bytes = 0
        self._room = asyncio.Event()
        self._flushing: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def prev_record_hash(self) -> str:
        """The hash that the next record of this writer refers to, as far as it knows."""
        return self._appender.head.record_hash

    async def record(
        self,
        *,
        session_id: str,
        tick: int | None,
        event_type: EventType,
        raw_content: str,
        lens_activations: Mapping[str, float] | None = None,
        steering_applied: Sequence[Mapping[str, Any]] = (),
        timestamp: int | None = None,
    ) -> str:
        """Record something that happened; return the record's id when it is on disk."""
        appended = await self.append(
            AuditEntry(
                session_id=session_id,
                tick=tick,
                event_type=event_type,
                raw_content=raw_content,
                lens_activations=lens_activations or {},
                steering_applied=steering_applied,
                timestamp=time.time_ns() // 1_000_000 if timestamp is None else timestamp,
            )
        )
        assert appended is not None, "only an event can have been recorded before"
        return appended.record_id

    async def append(self, entry: AuditEntry) -> Appended | None:
        """Append an entry; None if its event was recorded before."""
        return (await self.append_all([entry]))[0]

    async def append_all(self, entries: Sequence[AuditEntry]) -> list[Appended | None]:
        """Append entries in their order, with one flush; return when all are on disk.

        A crash may leave the first of them only.
        """
        if not entries:
            return []
        if len(entries) > BATCH_RECORDS_MAX:
            raise Incorrect(
                f"{len(entries):,} entries are too many at once; the limit is {BATCH_RECORDS_MAX:,}"
            )
        group = _Group([PreparedEntry(entry, be_id=self._be_id) for entry in entries])
        await self._wait_for_room()
        if self._closed:
            raise Unavailable("the audit log is closed")
        self._pending.append(group)
        self._pending_records += len(group.entries)
        self._pending_bytes += group.size
        if self._flushing is None:
            self._flushing = asyncio.create_task(self._flush())
        # A caller that is cancelled does not cancel the record.
        return await asyncio.shield(group.written)

    async def last_event(self, store: str) -> tuple[EventOrigin, int] | None:
        """Return the last event of a store that was recorded, and when it happened."""
        return await self._in_thread(self._appender.last_event, store)

    async def close(self) -> None:
        """Write what is pending, and end."""
        self._closed = True
        self._room.set()
        if self._flushing is not None:
            await self._flushing
        self._thread.shutdown()
        self._appender.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _wait_for_room(self) -> None:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not self._closed and (
            self._pending_records >= PENDING_RECORDS_MAX or self._pending_bytes >= PENDING_BYTES_MAX
        ):
            self._room.clear()
            try:
                await asyncio.wait_for(self._room.wait(), deadline - time.monotonic())
            except TimeoutError:
                raise Unavailable(
                    f"{self._pending_records:,} audit records waited for {WAIT_SECONDS_MAX:g} s"
                ) from None

    async def _flush(self) -> None:
        while self._pending:
            batch = self._next_batch()
            entries = [entry for group in batch for entry in group.entries]
            try:
                results = iter(await self._in_thread(self._appender.append, entries))
            except Exception as error:  # noqa: BLE001 (the callers raise it)
                for group in batch:
                    group.written.set_exception(error)
                    group.written.exception()  # a cancelled caller does not ask for it
            else:
                for group in batch:
                    group.written.set_result(list(islice(results, len(group.entries))))
                await self._sign_if_due()
            self._room.set()
        self._flushing = None

    def _next_batch(self) -> list[_Group]:
        batch = [self._pending.popleft()]
        records, size = len(batch[0].entries), batch[0].size
        while self._pending:
            following = self._pending[0]
            records, size = records + len(following.entries), size + following.size
            if records > BATCH_RECORDS_MAX or size > BATCH_BYTES_MAX:
                break
            batch.append(self._pending.popleft())
        self._pending_records -= sum(len(group.entries) for group in batch)
        self._pending_bytes -= sum(group.size for group in batch)
        return batch

    async def _sign_if_due(self) -> None:
        head = self._appender.head
        if self._key is None or head.number - head.checkpoint_record < self._checkpoint_records:
            return
        now = time.time_ns() // 1_000_000
        try:
            await self._in_thread(make_checkpoint, self._folder, self._key, now=now)
        except CtxmgrError:
            self._key = None  # it would fail again with every batch
            _log.exception("the audit log gets no more checkpoints; its records are on disk")

    async def _in_thread(
        self, run: Callable[_Arguments, _Result], *args: _Arguments.args, **named: _Arguments.kwargs
    ) -> _Result:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, partial(run, *args, **named))
