"""SqliteStore: a bitemporal store in one SQLite file, for many processes. Touches the file.

commit     ─► writer (one thread, group commit) ─► apply ─► timeline, body_writer
              checkpoint (another thread, once it is needed) empties the write-ahead log
get        ─► reader, on the event loop: it takes microseconds
the rest   ─► reader, queries, maintenance, in a few threads
"""

import asyncio
import queue
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Self, TypeVar

import apsw

from ctxmgr.core.store.contract import (
    LATEST,
    PAGE_MAX,
    AsOf,
    Commit,
    FoundPage,
    HistoryEntry,
    HistoryPage,
    Instant,
    Kind,
    Operation,
    Query,
    Rewritten,
    StoreStatus,
    Transaction,
    Version,
)
from ctxmgr.core.store.documents import (
    ID,
    Document,
    check_object_id,
    check_transaction_size,
)
from ctxmgr.core.store.queries import check_batch, check_limit, check_query
from ctxmgr.core.store.transactions import (
    check_after,
    check_as_of,
    check_key,
    check_operations,
    check_since,
)
from ctxmgr.errors import Corrupt, Incorrect, Unavailable
from ctxmgr.stores.sqlite import queries
from ctxmgr.stores.sqlite.body_format import FORMAT
from ctxmgr.stores.sqlite.checkpoint import WalCheckpointer
from ctxmgr.stores.sqlite.connection import (
    Durability,
    SqliteAddress,
    connect,
    migrations,
    parse_url,
    resolve_access,
    translate_error,
    translate_errors,
)
from ctxmgr.stores.sqlite.declare_fields import OpenedFile, open_file
from ctxmgr.stores.sqlite.reader import Reader, StoreContext
from ctxmgr.stores.sqlite.rewrite import rewrite
from ctxmgr.stores.sqlite.submission import Job, encode_change, operations_digest
from ctxmgr.stores.sqlite.writer import Writer

if TYPE_CHECKING:  # imported by the calls that need it: it loads a dozen modules
    from ctxmgr.stores.sqlite.maintenance import Backup, Progress, Vacuumed, Verification

READERS: Final = 2
"""Threads for reads that may take long; more would only compete for the interpreter's lock."""

YIELD_EVERY: Final = 64
"""Gets after which other tasks get a turn: a get on the event loop never waits."""

INLINE_DIGEST_BYTES: Final = 524_288
"""JSON below this size is hashed on the event loop, in a millisecond at most; more in a thread."""

_DAMAGED_ROW: Final = (TypeError, ValueError, LookupError)
"""What Python raises for a row that no store wrote; arguments have been checked by then."""

_NO_KINDS: Final[Mapping[str, Kind]] = {}

T = TypeVar("T")


def system_clock() -> Instant:
    """Return the machine's time in UTC milliseconds."""
    return time.time_ns() // 1_000_000


class SqliteStore:
    """A ``Store`` in one SQLite file. Call ``open`` to get one; ``async with`` closes it."""

    def __init__(
        self,
        address: SqliteAddress,
        *,
        open_: Callable[[], OpenedFile],
        clock: Callable[[], Instant],
        given: Mapping[str, Kind],
        opened: OpenedFile,
        durability: Durability,
    ) -> None:
        self._address = address
        self._open_file = open_
        self._clock = clock
        self._given = given
        self._durability = durability
        self._start(opened)
        self._reads = 0
        self._closed = False
        self._closing: asyncio.Task[None] | None = None

    def _start(self, opened: OpenedFile) -> None:
        """Begin to use the connections of a file."""
        address = self._address
        self._kinds = opened.fields.kinds(self._given)
        context = StoreContext(address.url, opened.store_name, self._clock, self._kinds)
        self._writer = Writer(opened.writing, context)
        self._checkpointer = WalCheckpointer(
            opened.writing,
            url=address.url,
            open_=lambda: connect(address, durability=self._durability, writes=True),
        )
        readers = [Reader(connection, context) for connection in opened.reading]
        inline, *others = readers
        self._latest = inline.latest
        self._free: queue.SimpleQueue[Reader] = queue.SimpleQueue()
        for reader in others:
            self._free.put(reader)
        self._readers = readers
        self._threads = ThreadPoolExecutor(len(others), thread_name_prefix="ctxmgr-sqlite-reader")

    @classmethod
    async def open(
        cls,
        url_or_path: str | Path,
        *,
        kinds: Mapping[str, Kind] = _NO_KINDS,
        durability: Durability = "full",
        clock: Callable[[], Instant] = system_clock,
        create: bool = True,
    ) -> Self:
        """Open the store, creating the file if there is none; ``NotFound`` without ``create``.

        Declarations in ``kinds`` are added to those of the file, and existing documents are
        indexed. Raises ``Incorrect`` for a malformed address or another program's file,
        ``NewerFormat`` for a file of a newer ctxmgr, ``Corrupt`` for a damaged one, and ``Denied``
        or ``Unavailable`` if the file cannot be opened.
        """
        address = resolve_access(parse_url(url_or_path), create=create)

        def connect_all() -> OpenedFile:
            with translate_errors(address.url):
                return open_file(
                    address, kinds=tuple(kinds.values()), durability=durability, readers=READERS + 1
                )

        opened = await asyncio.to_thread(connect_all)
        return cls(
            address,
            open_=connect_all,
            clock=clock,
            given=kinds,
            opened=opened,
            durability=durability,
        )

    async def commit(self, operations: Iterable[Operation], *, key: str | None = None) -> Commit:
        return await self._writer.commit(await self._job(operations, key))

    async def commit_in_batch(
        self, operations: Iterable[Operation], *, key: str | None = None
    ) -> Commit:
        """Apply a transaction that becomes durable with its batch (``core.store.batched``)."""
        return await self._writer.commit_in_batch(await self._job(operations, key))

    async def end_batch(self) -> None:
        """Make the batch durable; ``Unavailable`` if one was lost."""
        self._writer.end_batch()

    async def _job(self, operations: Iterable[Operation], key: str | None) -> Job:
        """Check and encode a transaction."""
        checked = check_operations(operations, self._kinds)
        if key is not None:
            check_key(key)
        self._require_open()
        # Encoded before the first await, after which the caller may change its documents.
        changes = tuple(map(encode_change, checked.writes))
        encoded = [change.encoded for change in changes if change.encoded is not None]
        check_transaction_size(sum(document.size for document in encoded))
        size = sum(document.new_bytes for document in encoded)
        digest = None
        if key is not None and size < INLINE_DIGEST_BYTES:
            digest = operations_digest(checked.matches, changes)
        elif key is not None:
            digest = await asyncio.to_thread(operations_digest, checked.matches, changes)
        return Job(checked.matches, changes, key, digest, size)

    async def get(self, object_id: str, *, as_of: AsOf = LATEST) -> Version | None:
        version: Version | Literal[False] | None = False
        if as_of is LATEST and not self._closed and isinstance(object_id, str):
            try:
                version = self._latest(object_id)
            except apsw.Error as error:
                raise translate_error(error, self._address.url) from error
            except _DAMAGED_ROW:
                version = False  # an invalid id or a damaged row: the slow path reports which
            self._reads += 1
            if self._reads >= YIELD_EVERY:
                self._reads = 0
                await asyncio.sleep(0)
        if version:
            return version
        check_object_id(object_id)  # only now: an id that was found is valid
        if version is None:
            return None
        check_as_of(as_of)
        return await self._read(lambda reader: reader.get(object_id, as_of))

    async def get_many(
        self,
        object_ids: Iterable[str],
        *,
        as_of: AsOf = LATEST,
        without: Collection[str] = (),
    ) -> dict[str, Version]:
        ids = check_batch(object_ids)
        check_as_of(as_of)
        return await self._read(
            lambda reader: reader.get_many(ids, as_of, frozenset(without) - {ID})
        )

    async def history(
        self,
        object_id: str,
        *,
        as_of: AsOf = LATEST,
        since: Instant | None = None,
        newest_first: bool = False,
        corrections: bool = False,
        documents: bool = True,
        limit: int = PAGE_MAX,
        cursor: str | None = None,
    ) -> HistoryPage:
        check_object_id(object_id)
        check_as_of(as_of)
        check_since(since)
        check_limit(limit)
        return await self._read(
            lambda reader: queries.history(
                reader,
                object_id,
                as_of=as_of,
                since=since,
                newest_first=newest_first,
                corrections=corrections,
                documents=documents,
                limit=limit,
                cursor=cursor,
            )
        )

    async def history_many(
        self,
        object_ids: Iterable[str],
        *,
        as_of: AsOf = LATEST,
        without: Collection[str] = (),
        limit: int,
    ) -> dict[str, Sequence[HistoryEntry]]:
        ids = check_batch(object_ids)
        check_as_of(as_of)
        check_limit(limit)
        return await self._read(
            lambda reader: queries.history_many(
                reader, ids, as_of=as_of, without=frozenset(without) - {ID}, limit=limit
            )
        )

    async def find(
        self,
        query: Query,
        *,
        as_of: AsOf = LATEST,
        without: Collection[str] = (),
        limit: int = 100,
        cursor: str | None = None,
    ) -> FoundPage:
        check_query(query, self._kinds)
        check_as_of(as_of)
        check_limit(limit)
        left_out = frozenset(without) - {ID, query.order and query.order.field}
        return await self._read(
            lambda reader: queries.find(
                reader, query, as_of=as_of, without=left_out, limit=limit, cursor=cursor
            )
        )

    async def feed(
        self, *, after: int | None = None, limit: int = PAGE_MAX, documents: bool = True
    ) -> Sequence[Transaction]:
        check_after(after)
        check_limit(limit)
        return await self._read(
            lambda reader: queries.feed(reader, after=after, limit=limit, documents=documents)
        )

    async def finish_rewrites(self) -> int:
        """Return 0: a rewrite replaces the file as a whole, or not at all."""
        return 0

    async def rewrite(self, documents: Mapping[tuple[str, int], Document]) -> Rewritten:
        """Replace the documents of versions, by object and sequence, and leave no trace of the old.

        Each gets another document of its kind under the same id; sequences and times stay. It needs
        the file for itself: ``Unavailable`` if others have it open, and other calls of this store
        fail with it meanwhile.
        """
        if self._address.path is None:
            raise Incorrect(f"{self._address.url}: a store in memory is gone when it is closed")
        self._require_open()
        self._closed = True  # other calls fail until it is open again
        await asyncio.shield(asyncio.create_task(self._release()))
        try:
            return await asyncio.shield(asyncio.create_task(self._rewritten(documents)))
        finally:
            if self._closing is None:
                self._start(await asyncio.to_thread(self._open_file))
                self._closed = False

    async def _rewritten(self, documents: Mapping[tuple[str, int], Document]) -> Rewritten:
        def run() -> Rewritten:
            with translate_errors(self._address.url):
                return rewrite(self._address, documents)

        return await asyncio.to_thread(run)

    async def status(self) -> StoreStatus:
        last = await self._read(lambda reader: reader.last_transaction())
        return StoreStatus(
            url=self._address.url,
            engine=f"SQLite {apsw.sqlite_lib_version()}",
            sequence=last[0] if last else None,
            system_time=last[1] if last else None,
            details={
                "file": None if self._address.path is None else str(self._address.path),
                "layout": len(migrations()),
                "document_format": FORMAT,
            },
        )

    async def backup(self, path: Path, *, progress: "Progress | None" = None) -> "Backup":
        """Copy the store to a new file; it may be in use meanwhile."""
        from ctxmgr.stores.sqlite import maintenance  # noqa: PLC0415

        return await self._read(lambda _: maintenance.backup(self._address, path, progress))

    async def verify(self, *, progress: "Progress | None" = None) -> "Verification":
        """Check the file, every hash and every index; faults are listed, not raised."""
        from ctxmgr.stores.sqlite import maintenance  # noqa: PLC0415

        return await self._read(lambda _: maintenance.verify(self._address, progress))

    async def vacuum(self) -> "Vacuumed":
        """Return unused space to the file system. Writers wait meanwhile."""
        from ctxmgr.stores.sqlite import maintenance  # noqa: PLC0415

        return await self._read(lambda _: maintenance.vacuum(self._address))

    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _close(self) -> None:
        self._closed = True
        await self._release()

    async def _release(self) -> None:
        await self._writer.close()
        await asyncio.to_thread(self._checkpointer.close)
        await asyncio.to_thread(self._threads.shutdown)
        for reader in self._readers:
            reader.close()

    async def _read(self, query: Callable[[Reader], T]) -> T:
        """Run a query in a thread, with a connection that no other thread uses."""
        self._require_open()

        def run() -> T:
            reader = self._free.get()
            try:
                with translate_errors(self._address.url):
                    return query(reader)
            except _DAMAGED_ROW as error:
                raise Corrupt(f"{self._address.url}: a row is damaged ({error!r})") from error
            finally:
                self._free.put(reader)

        return await asyncio.get_running_loop().run_in_executor(self._threads, run)

    def _require_open(self) -> None:
        if self._closed:
            raise Unavailable(f"{self._address.url}: the store is closed")
