"""SqliteStore: the embedded bitemporal store. One file, no daemon, many processes.

    commit     ─► sqlite_writer (one thread, group commit) ─► sqlite_apply ─► sqlite_timeline
                  sqlite_log (another, when there is much) moves the log into the file
    get        ─► sqlite_reader, on the event loop: it takes microseconds
    the rest   ─► sqlite_history, sqlite_find, sqlite_feed in a few threads of their own

Touches the file; ``sqlite_file`` knows where it is and what may be wrong with it.
"""

import asyncio
import queue
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeVar

import apsw

from ctxmgr.core.documents import ID, check_object_id, check_sizes
from ctxmgr.core.paging import check_limit, check_query
from ctxmgr.core.store import (
    BATCH_MAX,
    LATEST,
    PAGE_MAX,
    AsOf,
    Commit,
    FoundPage,
    HistoryPage,
    Instant,
    Kind,
    Operation,
    Query,
    StoreStatus,
    Transaction,
    Version,
)
from ctxmgr.core.transactions import (
    check_after,
    check_as_of,
    check_key,
    check_operations,
    check_since,
)
from ctxmgr.errors import Corrupt, Incorrect, Unavailable
from ctxmgr.stores import sqlite_feed, sqlite_find, sqlite_history, sqlite_upkeep
from ctxmgr.stores.sqlite_declare import Opened, open_file
from ctxmgr.stores.sqlite_fields import Fields
from ctxmgr.stores.sqlite_file import (
    Address,
    Durability,
    connect,
    parse_url,
    settle,
    translate,
    translated,
)
from ctxmgr.stores.sqlite_jobs import Job, changes_of, digest_of, size_of
from ctxmgr.stores.sqlite_layout import FORMAT
from ctxmgr.stores.sqlite_log import LogKeeper
from ctxmgr.stores.sqlite_reader import Context, Reader
from ctxmgr.stores.sqlite_statements import migrations
from ctxmgr.stores.sqlite_upkeep import Backup, Progress, Vacuumed, Verification
from ctxmgr.stores.sqlite_writer import Writer

READERS: Final = 2
"""Threads for reads that may take long; more would only share the interpreter's lock."""

YIELD_EVERY: Final = 64
"""Gets after which other tasks have their turn: a get by itself never waits."""

INLINE_DIGEST_BYTES: Final = 524_288
"""JSON that is hashed on the event loop, in a millisecond at most; more in a thread."""

_UNREADABLE: Final = (TypeError, ValueError, LookupError)
"""Python's words for a row that is not what a store wrote: what is asked has been checked."""

_NO_KINDS: Final[Mapping[str, Kind]] = {}

T = TypeVar("T")


def system_clock() -> Instant:
    """UTC milliseconds of the machine's clock."""
    return time.time_ns() // 1_000_000


class SqliteStore:
    """A ``Store`` in one SQLite file. Made by ``open``; ``async with`` closes it."""

    def __init__(
        self,
        address: Address,
        *,
        fields: Fields,
        writer: Writer,
        log: LogKeeper,
        readers: Sequence[Reader],
    ) -> None:
        self._address = address
        self._fields = fields
        self._kinds = fields.kinds()
        self._writer = writer
        self._log = log
        self._inline, *others = readers
        self._current = self._inline.current
        self._free: queue.SimpleQueue[Reader] = queue.SimpleQueue()
        for reader in others:
            self._free.put(reader)
        self._readers = readers
        self._threads = ThreadPoolExecutor(len(others), thread_name_prefix="ctxmgr-sqlite-reader")
        self._reads = 0
        self._closed = False
        self._closing: asyncio.Task[None] | None = None

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
        """Open the store, making the file if it is not there; ``NotFound`` without ``create``.

        What ``kinds`` declares is added to what the file declares, and indexed. Raises
        ``Incorrect`` for a bad address or a file of another program, ``NewerFormat`` for one of a
        newer ctxmgr, ``Corrupt`` for a damaged one, ``Denied`` or ``Unavailable`` when it cannot be
        opened.
        """
        address = settle(parse_url(url_or_path), create=create)

        def connected() -> Opened:
            with translated(address.url):
                return open_file(
                    address, kinds=tuple(kinds.values()), durability=durability, readers=READERS + 1
                )

        opened = await asyncio.to_thread(connected)
        context = Context(address.url, opened.store_name, clock)
        return cls(
            address,
            fields=opened.fields,
            writer=Writer(opened.writing, context),
            log=LogKeeper(
                opened.writing,
                url=address.url,
                open_=lambda: connect(address, durability=durability, writes=True),
            ),
            readers=[Reader(each, context) for each in opened.reading],
        )

    async def commit(self, operations: Iterable[Operation], *, key: str | None = None) -> Commit:
        checked = check_operations(operations, self._kinds)
        if key is not None:
            check_key(key)
        self._require_open()
        changes = changes_of(checked)
        size = size_of(changes)
        check_sizes(size)
        named = None
        if key is not None and size < INLINE_DIGEST_BYTES:
            named = digest_of(checked.matches, changes)
        elif key is not None:
            named = await asyncio.to_thread(digest_of, checked.matches, changes)
        return await self._writer.commit(Job(checked.matches, changes, key, named, size))

    async def get(self, object_id: str, *, as_of: AsOf = LATEST) -> Version | None:
        found: Version | Literal[False] | None = False
        if as_of is LATEST and not self._closed and isinstance(object_id, str):
            try:
                found = self._current(object_id)
            except apsw.Error as error:
                raise translate(error, self._address.url) from error
            except _UNREADABLE:
                found = False  # no text, so no id, or a damaged row: what follows says it
            self._reads += 1
            if self._reads >= YIELD_EVERY:
                self._reads = 0
                await asyncio.sleep(0)
        if found:
            return found
        check_object_id(object_id)
        if found is None:
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
        ids = list(dict.fromkeys(object_ids))
        if len(ids) > BATCH_MAX:
            raise Incorrect(f"{len(ids)} ids in one batch; {BATCH_MAX} at most")
        for object_id in ids:
            check_object_id(object_id)
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
        point = [as_of.valid_time, as_of.sequence, as_of.system_time]
        asked: list[Any] = ["history", object_id, *point, since, newest_first, corrections]
        return await self._read(
            lambda reader: sqlite_history.history(
                reader,
                object_id,
                as_of=as_of,
                low=-1 if since is None else since,
                newest_first=newest_first,
                corrections=corrections,
                documents=documents,
                limit=limit,
                cursor=cursor,
                asked=asked,
            )
        )

    async def find(
        self, query: Query, *, as_of: AsOf = LATEST, limit: int = 100, cursor: str | None = None
    ) -> FoundPage:
        check_query(query, self._kinds)
        check_as_of(as_of)
        check_limit(limit)
        return await self._read(
            lambda reader: sqlite_find.find(reader, query, as_of=as_of, limit=limit, cursor=cursor)
        )

    async def feed(
        self, *, after: int | None = None, limit: int = PAGE_MAX, documents: bool = True
    ) -> Sequence[Transaction]:
        check_after(after)
        check_limit(limit)
        return await self._read(
            lambda reader: sqlite_feed.feed(reader, after=after, limit=limit, documents=documents)
        )

    async def status(self) -> StoreStatus:
        last = await self._read(lambda reader: reader.last())
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

    async def backup(self, path: Path, *, progress: Progress | None = None) -> Backup:
        """Copy the store to a new file while it is in use."""
        return await self._read(lambda _: sqlite_upkeep.backup(self._address, path, progress))

    async def verify(self, *, progress: Progress | None = None) -> Verification:
        """Check the file, every hash and every index; faults are listed, not raised."""
        return await self._read(lambda _: sqlite_upkeep.verify(self._address, progress))

    async def vacuum(self) -> Vacuumed:
        """Give unused space back. Writers wait meanwhile."""
        return await self._read(lambda _: sqlite_upkeep.vacuum(self._address))

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
        await self._writer.close()
        await asyncio.to_thread(self._log.close)
        await asyncio.to_thread(self._threads.shutdown)
        for reader in self._readers:
            reader.close()

    async def _read(self, ask: Callable[[Reader], T]) -> T:
        """Read in a thread, with a connection of its own."""
        self._require_open()

        def answer() -> T:
            reader = self._free.get()
            try:
                with translated(self._address.url):
                    return ask(reader)
            except _UNREADABLE as error:
                raise Corrupt(f"{self._address.url}: a row is damaged ({error!r})") from error
            finally:
                self._free.put(reader)

        return await asyncio.get_running_loop().run_in_executor(self._threads, answer)

    def _require_open(self) -> None:
        if self._closed:
            raise Unavailable(f"{self._address.url}: closed")
