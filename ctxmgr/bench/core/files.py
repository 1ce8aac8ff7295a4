"""Benchmarks of tracked files. Writes to the disk.

change      from the end of a write to the commit of the new version, on a client that tracks it
index       new files into an empty store; the baseline inserts the same rows by hand
rescan      a client that starts again, with the stored fingerprints of unchanged files
"""

import asyncio
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final, Self, TypeAlias

import apsw
import orjson

from ctxmgr.app import connect
from ctxmgr.bench.core.built_session import Filler
from ctxmgr.bench.measure import alternate, percentile
from ctxmgr.bench.report import Figure, Say, at_most, within
from ctxmgr.core.files.filesystem_ids import host_filesystem_id
from ctxmgr.core.files.outcomes import CLOCK_GRAIN_NS
from ctxmgr.core.objects.codec import KINDS
from ctxmgr.core.objects.envelope import sourced_id
from ctxmgr.core.objects.file import File
from ctxmgr.core.objects.hashes import (
    content_hash,
    file_hash,
    identity_hash,
    metadata_hash,
    object_hash,
)
from ctxmgr.core.objects.sources import FilesystemSource
from ctxmgr.core.store.contract import Commit, Operation, Put
from ctxmgr.core.tracking.index_plan import stored_file
from ctxmgr.core.tracking.observation import Target
from ctxmgr.core.tracking.trackers import DEBOUNCE_MS
from ctxmgr.stores.sqlite.store import SqliteStore

FILE_CHARS: Final = 4_096

_FILES_PER_FOLDER: Final = 100


def write_files(folder: Path, *, count: int) -> list[Path]:
    """Write different files of 4 KB, a hundred per folder."""
    filler, paths = Filler(folder.name), []
    for number in range(count):
        path = folder / f"{number // _FILES_PER_FOLDER:03d}" / f"{number:05d}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        head = f"{number}\n"
        path.write_text(head + filler.text(FILE_CHARS - len(head)), encoding="utf-8")
        paths.append(path)
    return paths


def read_files(paths: Iterable[Path]) -> list[File]:
    """Return the objects that a client without a sandbox would store for these files."""
    host = host_filesystem_id()
    return [
        File.read(FilesystemSource(filesystem_id=host, path=str(path)), data=path.read_bytes())
        for path in paths
    ]


async def settle() -> None:
    """Wait until files are older than the clock's resolution; younger ones are read again."""
    await asyncio.sleep(CLOCK_GRAIN_NS / 1e9 * 1.1)


Rows: TypeAlias = list[tuple[Any, ...]]

_BY_WRITE: Final = {
    "name": "SELECT n.* FROM write w JOIN name n USING (nid) WHERE w.wid >> 14 = ?",
    "write": "SELECT * FROM write WHERE wid >> 14 = ?",
    "entry": "SELECT e.* FROM write w JOIN entry e USING (nid) WHERE w.wid >> 14 = ?",
    "head": "SELECT h.* FROM write w JOIN head h USING (nid) WHERE w.wid >> 14 = ?",
}
_BY_OBJECT: Final = {table: f"SELECT * FROM {table} ORDER BY nid" for table in ("ever", "present")}  # noqa: S608
_TRANSACTIONS: Final = "SELECT * FROM tx WHERE seq > 0 ORDER BY seq"
_PIECES: Final = "SELECT * FROM piece ORDER BY pid"


@dataclass(frozen=True, slots=True)
class StoredRows:
    """All rows of a store in which every object was put once."""

    transactions: Sequence[Sequence[tuple[str, Rows]]]
    """For each transaction, the tables that it wrote to with their rows."""

    @classmethod
    def of(cls, path: Path) -> Self:
        connection = apsw.Connection(str(path))
        try:
            return cls(_by_transaction(connection))
        finally:
            connection.close()

    @property
    def count(self) -> int:
        return sum(len(rows) for tables in self.transactions for _, rows in tables)

    def insert_into(self, path: Path) -> None:
        """Insert the rows with the same transactions and durability as the store."""
        connection = apsw.Connection(str(path))
        try:
            connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
            for tables in self.transactions:
                connection.execute("BEGIN IMMEDIATE")
                for table, rows in tables:
                    parameters = ", ".join("?" * len(rows[0]))
                    connection.executemany(f"INSERT INTO {table} VALUES ({parameters})", rows)  # noqa: S608
                connection.execute("COMMIT")
        finally:
            connection.close()


def _by_transaction(connection: apsw.Connection) -> list[list[tuple[str, Rows]]]:
    pieces = iter(_rows(connection, _PIECES))
    indexed: dict[str, dict[int, Rows]] = {}
    for table, select in _BY_OBJECT.items():
        by_object = indexed.setdefault(table, {})
        for row in _rows(connection, select):
            by_object.setdefault(row[-1], []).append(row)
    transactions = []
    for tx in _rows(connection, _TRANSACTIONS):
        written = [(table, _rows(connection, sql, tx[0])) for table, sql in _BY_WRITE.items()]
        objects = [row[0] for row in written[0][1]]
        searched = [
            (table, [row for nid in objects for row in by_object.get(nid, ())])
            for table, by_object in indexed.items()
        ]
        large = [("piece", [row for _, row in zip(objects, pieces, strict=False)])]
        tables = [("tx", [tx]), *written, *searched, *large]
        transactions.append([(table, rows) for table, rows in tables if rows])
    return transactions


def _rows(connection: apsw.Connection, sql: str, *values: int) -> Rows:
    return list(connection.execute(sql, values))


FILES: Final = 10_000
LATE_MS: Final = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSizes:
    """The size of the measurement."""

    files: int
    changes: int
    rounds: int


FULL: Final = FileSizes(files=FILES, changes=200, rounds=5)
QUICK: Final = FileSizes(files=300, changes=10, rounds=3)

_FOLLOWED: Final = 20
_CHANGE_SECONDS_MAX: Final = 30.0
"""Time limit for storing a change."""


async def files_figures(sizes: FileSizes, *, say: Say) -> list[Figure]:
    """Measure in a folder of the working directory, because /tmp may be in memory."""
    files = sizes.files
    with TemporaryDirectory(prefix="ctxmgr-bench-", dir=Path.cwd()) as name:
        folder = Path(name)
        say("a change on disk")
        figures = [await _change(folder, changes=sizes.changes)]
        say(f"{files:,} files")
        paths = write_files(folder / "files", count=files)
        await settle()
        say(f"index {files:,} new files")
        figures.append(await _index(folder, paths, rounds=sizes.rounds))
        say(f"rescan {files:,} unchanged files")
        figures.append(await _rescan(folder, paths, rounds=sizes.rounds))
    return figures


class _Stamped(SqliteStore):
    """Records when each object was last stored."""

    stored: dict[str, float]
    news: asyncio.Event

    async def commit(self, operations: Iterable[Operation], *, key: str | None = None) -> Commit:
        batch = tuple(operations)
        commit = await super().commit(batch, key=key)
        now = perf_counter()
        for operation in batch:
            if isinstance(operation, Put):
                self.stored[operation.document["xt/id"]] = now
        self.news.set()
        return commit

    async def stored_since(self, object_id: str, moment: float) -> float:
        """Wait for the object's next version; return the seconds from ``moment`` to its commit."""
        async with asyncio.timeout(_CHANGE_SECONDS_MAX):
            while self.stored.get(object_id, 0.0) < moment:
                self.news.clear()
                await self.news.wait()
        return self.stored[object_id] - moment


async def _change(folder: Path, *, changes: int) -> Figure:
    filler = Filler("changes")
    paths = write_files(folder / "followed", count=_FOLLOWED)
    _Stamped.stored, _Stamped.news = {}, asyncio.Event()
    late: list[float] = []
    async with (
        await _Stamped.open(folder / "changes.db", kinds=KINDS) as store,
        connect(store=store, directory=str(folder)) as client,
    ):
        session = await client.start("changes", system_prompt="-")
        files = [await session.read(str(path)) for path in paths]
        for number in range(changes):
            path, file = paths[number % _FOLLOWED], files[number % _FOLLOWED]
            path.write_text(f"{number}\n{filler.text(FILE_CHARS)}", encoding="utf-8")
            late.append(await store.stored_since(file.object_id, perf_counter()))
    p99_ms, debounce = percentile(late, 99) * 1e3, f"the debounce setting of {DEBOUNCE_MS} ms"
    return within(
        f"change on disk to new version stored, p99 of {changes}, beyond the debounce",
        p99_ms - DEBOUNCE_MS,
        bound=LATE_MS,
        unit="ms",
        against=debounce,
        note=f"{p99_ms:.0f} ms in all, median {percentile(late, 50) * 1e3:.0f} ms",
    )


async def _index(folder: Path, paths: Sequence[Path], *, rounds: int) -> Figure:
    empty, host = folder / "empty.db", host_filesystem_id()
    await (await SqliteStore.open(empty, kinds=KINDS)).close()
    indexed, looks = folder / "indexed.db", folder / "looks"

    async def ours() -> None:
        shutil.copy(empty, indexed)
        looks.unlink(missing_ok=True)
        sourced_id.cache_clear()
        async with (
            await SqliteStore.open(indexed, kinds=KINDS) as store,
            connect(store=store, tracking=False, fingerprints=looks) as client,
        ):
            sources = (FilesystemSource(filesystem_id=host, path=str(path)) for path in paths)
            targets = [
                Target(
                    source=source,
                    object_id=sourced_id(File.kind, source),
                    object_hash=None,
                    is_stub=False,
                )
                for source in sources
            ]
            async for _ in client.runtime.indexing.reconcile(targets):
                pass

    await ours()
    rows = StoredRows.of(indexed)
    values = [dict(file.source.to_value()) for file in await _files(indexed)]
    stored_sources = [(source, Path(source["path"])) for source in values]

    async def plainly() -> None:
        for source, path in stored_sources:
            data = path.read_bytes()
            content = data.decode()
            fields = {"file_type": source["path"].rpartition(".")[2], "char_count": len(content)}
            identity_hash(File.kind, source=source)
            object_hash(
                file=file_hash(data), content=content_hash(content), metadata=metadata_hash(fields)
            )
        rows.insert_into(Path(shutil.copy(empty, folder / "by-hand.db")))

    times = await alternate(ours, plainly, rounds=rounds)
    return at_most(
        f"index {len(paths):,} new files of {FILE_CHARS // 1024} KB",
        times.ours / times.baseline,
        bound=2,
        against="reading them, the five hashes, and raw inserts of the same rows",
        note=f"{times.ours:.2f} s, plainly {times.baseline:.2f} s, {rows.count:,} rows",
    )


async def _files(path: Path) -> list[File]:
    async with await SqliteStore.open(path, kinds=KINDS) as store:
        ids = [
            write.object_id
            for transaction in await store.feed(documents=False)
            for write in transaction.writes
        ]
        return [stored_file(version) for version in (await store.get_many(ids)).values()]


async def _rescan(folder: Path, paths: Sequence[Path], *, rounds: int) -> Figure:
    targets = [Target.of(file) for file in await _files(folder / "indexed.db")]
    looks = folder / "looks"
    async with await SqliteStore.open(folder / "indexed.db", kinds=KINDS) as store:

        async def ours() -> None:
            proven = 0
            async with connect(store=store, tracking=False, fingerprints=looks) as client:
                async for batch in client.runtime.indexing.reconcile(targets):
                    proven += len(batch.proven)
            assert proven == len(paths), f"{proven} of {len(paths)} were proven"

        async def plainly() -> None:
            stats = orjson.loads(looks.read_bytes())["files"]
            assert len(stats) == len(paths)
            for path in paths:
                os.stat(path)  # noqa: PTH116 (the baseline is the plain call)

        times = await alternate(ours, plainly, rounds=rounds)
    return at_most(
        f"rescan of {len(paths):,} unchanged files",
        times.ours / times.baseline,
        bound=3,
        against="os.stat of each and one batch read of the stored stats",
        note=f"{times.ours * 1e3:.0f} ms, plainly {times.baseline * 1e3:.0f} ms",
    )
