"""Files: how soon a change is stored, what a rescan costs, and what the first indexing costs.

change      from the write's return to the commit's, on a client that follows the file
rescan      a client that starts again, with what the last one knew of the files' looks
index       of files that nobody has met, into an empty store
"""

import asyncio
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

import orjson

from ctxmgr.app import connect
from ctxmgr.bench.built_session import Filler
from ctxmgr.bench.files_on_disk import FILE_CHARS, settle, write_files
from ctxmgr.bench.measure import alternate, percentile
from ctxmgr.bench.report import Figure, Say, at_most, within
from ctxmgr.bench.stored_rows import StoredRows
from ctxmgr.core.contents import File
from ctxmgr.core.envelopes import sourced_id
from ctxmgr.core.hashes import content_hash, file_hash, identity_hash, metadata_hash, object_hash
from ctxmgr.core.index_plans import stored_file
from ctxmgr.core.objects import KINDS
from ctxmgr.core.observing import Target
from ctxmgr.core.store import Commit, Operation, Put
from ctxmgr.core.trackers import DEBOUNCE_MS
from ctxmgr.stores.sqlite import SqliteStore

FILES: Final = 10_000
LATE_MS: Final = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is measured."""

    files: int
    changes: int
    rounds: int


FULL: Final = Sizes(files=FILES, changes=200, rounds=5)
QUICK: Final = Sizes(files=1_000, changes=20, rounds=3)

_FOLLOWED: Final = 20
_CHANGE_SECONDS_MAX: Final = 30.0
"""A change that is not stored by then never will be."""


async def files_figures(sizes: Sizes, *, say: Say) -> list[Figure]:
    """Measure in a folder of the working directory, since /tmp may live in memory."""
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
    """Notes when each object was last stored."""

    stored: dict[str, float]
    news: asyncio.Event

    async def commit(self, operations: Iterable[Operation], *, key: str | None = None) -> Commit:
        given = tuple(operations)
        commit = await super().commit(given, key=key)
        at = perf_counter()
        for each in given:
            if isinstance(each, Put):
                self.stored[each.document["xt/id"]] = at
        self.news.set()
        return commit

    async def stored_since(self, object_id: str, moment: float) -> float:
        """Wait for the object's next version; return how long after that moment it was stored."""
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
    empty, names = folder / "empty.db", [str(path) for path in paths]
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
            async for _ in client.surroundings.indexing.index_many(names):
                pass

    await ours()
    rows = StoredRows.of(indexed)
    sources = await _sources(indexed)

    async def plainly() -> None:
        for source, path in sources:
            _hashes(source, path.read_bytes())
        rows.insert_into(Path(shutil.copy(empty, folder / "by-hand.db")))

    times = await alternate(ours, plainly, rounds=rounds)
    return at_most(
        f"index {len(paths):,} new files of {FILE_CHARS // 1024} KB",
        times.ours / times.baseline,
        bound=2,
        against="reading them, the five hashes, and raw inserts of the same rows",
        note=f"{times.ours:.2f} s, plainly {times.baseline:.2f} s, {rows.count:,} rows",
    )


async def _sources(path: Path) -> list[tuple[dict[str, str], Path]]:
    """What every stored file is made of."""
    files = await _files(path)
    values = [dict(each.source.to_value()) for each in files]
    return [(each, Path(each["path"])) for each in values]


async def _files(path: Path) -> list[File]:
    async with await SqliteStore.open(path, kinds=KINDS) as store:
        ids = [
            write.object_id
            for transaction in await store.feed(documents=False)
            for write in transaction.writes
        ]
        return [stored_file(each) for each in (await store.get_many(ids)).values()]


def _hashes(source: dict[str, str], data: bytes) -> str:
    content = data.decode()
    fields = {"file_type": source["path"].rpartition(".")[2], "char_count": len(content)}
    identity_hash(File.kind, source=source)
    return object_hash(
        file=file_hash(data), content=content_hash(content), metadata=metadata_hash(fields)
    )


async def _rescan(folder: Path, paths: Sequence[Path], *, rounds: int) -> Figure:
    """What lies in the store is known already; whether the disk still says it is asked."""
    targets = [Target.of(each) for each in await _files(folder / "indexed.db")]
    looks = folder / "looks"
    async with await SqliteStore.open(folder / "indexed.db", kinds=KINDS) as store:

        async def ours() -> None:
            proven = 0
            async with connect(store=store, tracking=False, fingerprints=looks) as client:
                async for batch in client.surroundings.indexing.reconcile(targets):
                    proven += len(batch.proven)
            assert proven == len(paths), f"{proven} of {len(paths)} were proven"

        async def plainly() -> None:
            stats = orjson.loads(looks.read_bytes())["files"]
            assert len(stats) == len(paths)
            for path in paths:
                os.stat(path)  # noqa: PTH116 - the baseline is the bare call

        times = await alternate(ours, plainly, rounds=rounds)
    return at_most(
        f"rescan of {len(paths):,} unchanged files",
        times.ours / times.baseline,
        bound=3,
        against="os.stat of each and one batch read of the stored stats",
        note=f"{times.ours * 1e3:.0f} ms, plainly {times.baseline * 1e3:.0f} ms",
    )
