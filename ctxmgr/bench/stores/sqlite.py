"""Benchmarks of the SQLite store against plain SQLite: same driver, same rows, same durability."""

import asyncio
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias

import apsw

from ctxmgr.bench.measure import alternate
from ctxmgr.bench.report import Figure, Say, at_least, at_most
from ctxmgr.bench.stores.saved_session import saved_turns
from ctxmgr.core.objects.codec import KINDS
from ctxmgr.core.objects.hashes import identity_hash
from ctxmgr.core.store.contract import Put
from ctxmgr.stores.sqlite.store import SqliteStore

TASKS: Final = 32

_ROUNDS: Final = 15
_TURNS: Final = 1_000
_QUICK_TURNS: Final = 200
_Rows: TypeAlias = list[tuple[str, tuple[Any, ...]]]

_ROWS_OF_A_PUT: Final = {
    "name": "SELECT * FROM name WHERE nid IN (SELECT nid FROM write WHERE wid >> 14 = ?)",
    "tx": "SELECT * FROM tx WHERE seq = ?",
    "write": "SELECT * FROM write WHERE wid >> 14 = ?",
    "entry": "SELECT * FROM entry WHERE wid >> 14 = ?",
    "head": "SELECT * FROM head WHERE wid >> 14 = ?",
    "ever": "SELECT * FROM ever WHERE nid IN (SELECT nid FROM write WHERE wid >> 14 = ?)",
    "present": "SELECT * FROM present WHERE nid IN (SELECT nid FROM write WHERE wid >> 14 = ?)",
}


async def sqlite_figures(*, quick: bool, say: Say) -> list[Figure]:
    """Measure in a folder of the working directory, because /tmp may be in memory."""
    with TemporaryDirectory(prefix="ctxmgr-bench-", dir=Path.cwd()) as folder:
        say("SQLite: puts")
        figures = [
            await _one_writer(Path(folder), puts=80 if quick else 300),
            await _many_tasks(Path(folder), puts=640 if quick else 6_400),
        ]
        say("SQLite: gets")
        figures.append(await _gets(Path(folder), gets=2_000 if quick else 20_000))
        turns = _QUICK_TURNS if quick else _TURNS
        say(f"SQLite: a session of {turns} turns")
        figures.extend(await _bytes_on_disk(Path(folder), turns=turns))
    return figures


async def _one_writer(folder: Path, *, puts: int) -> Figure:
    """The hand-written loop inserts the rows that the store writes for the same puts."""
    path = folder / "one.db"
    await (await SqliteStore.open(path, kinds=KINDS)).close()
    documents = _small_documents(puts * (_ROUNDS + 1))
    rows = iter(await _rows_of(path, puts * (_ROUNDS + 1)))
    connection = _connect(_fresh_copy(path, "by-hand"))
    async with await SqliteStore.open(_fresh_copy(path, "ours"), kinds=KINDS) as store:

        async def ours() -> None:
            for document in islice(documents, puts):
                await store.commit([Put(document)])

        async def by_hand() -> None:
            for transaction in islice(rows, puts):
                connection.execute("BEGIN IMMEDIATE")
                for statement, values in transaction:
                    connection.execute(statement, values)
                connection.execute("COMMIT")

        times = await alternate(ours, by_hand, rounds=_ROUNDS)
    connection.close()
    note = f"{puts / times.ours:.0f} puts/s, by hand {puts / times.baseline:.0f}"
    return at_least(
        "SQLite durable puts, one writer",
        times.speed,
        bound=0.7,
        against="a hand-written loop inserting the same rows with the same durability",
        note=note,
    )


async def _rows_of(path: Path, puts: int) -> list[_Rows]:
    copy = _fresh_copy(path, "rows")
    async with await SqliteStore.open(f"sqlite:///{copy}", kinds=KINDS) as store:
        sequences = [
            (await store.commit([Put(document)])).sequence for document in _small_documents(puts)
        ]
    connection = _connect(copy)
    transactions: list[_Rows] = []
    for sequence in sequences:
        rows: _Rows = []
        for table, select in _ROWS_OF_A_PUT.items():
            for row in connection.execute(select, (sequence,)):
                parameters = ", ".join("?" * len(row))
                rows.append((f"INSERT INTO {table} VALUES ({parameters})", row))  # noqa: S608
        transactions.append(rows)
    connection.close()
    return transactions


async def _many_tasks(folder: Path, *, puts: int) -> Figure:
    async def save(tasks: int, name: str) -> None:
        documents = _small_documents(puts if tasks > 1 else puts // 4)

        async def work(store: SqliteStore) -> None:
            for document in documents:
                await store.commit([Put(document)])

        path = folder / f"{name}.db"
        path.unlink(missing_ok=True)
        async with await SqliteStore.open(f"sqlite:///{path}", kinds=KINDS) as store:
            await asyncio.gather(*(work(store) for _ in range(tasks)))

    times = await alternate(lambda: save(TASKS, "many"), lambda: save(1, "alone"), rounds=3)
    many, one = puts / times.ours, puts // 4 / times.baseline
    return at_least(
        f"SQLite durable puts, {TASKS} tasks, synchronous=FULL",
        many / one,
        bound=4,
        against="our one writer",
        note=f"{many:.0f} puts/s, one writer {one:.0f}",
    )


async def _gets(folder: Path, *, gets: int) -> Figure:
    path = folder / "gets.db"
    documents = list(_small_documents(1_000))
    async with await SqliteStore.open(f"sqlite:///{path}", kinds=KINDS) as store:
        for start in range(0, len(documents), 100):
            await store.commit([Put(document) for document in documents[start : start + 100]])
        ids = [documents[number % len(documents)]["xt/id"] for number in range(gets)]
        connection = _connect(path)

        async def ours() -> None:
            for object_id in ids:
                await store.get(object_id)

        async def bare() -> None:
            for object_id in ids:
                connection.execute(_BARE_SELECT, (object_id,)).fetchone()

        times = await alternate(ours, bare, rounds=7)
        connection.close()
    note = f"{gets / times.ours:.0f} gets/s, bare {gets / times.baseline:.0f}"
    return at_least(
        "SQLite get by id, small document",
        times.speed,
        bound=0.5,
        against="a bare SELECT of its body through the same driver",
        note=note,
    )


_BARE_SELECT: Final = (
    "SELECT w.body FROM name n JOIN head h ON h.nid = n.nid JOIN write w ON w.wid = h.wid "
    "WHERE n.text = ?"
)


async def _bytes_on_disk(folder: Path, *, turns: int) -> list[Figure]:
    path = folder / "session.db"
    payload, sizes = 0, {}
    async with await SqliteStore.open(
        f"sqlite:///{path}", kinds=KINDS, durability="normal"
    ) as store:
        for number, turn in enumerate(saved_turns("bench", turns=turns), 1):
            await store.commit(turn.puts)
            payload += turn.payload_bytes
            if number in (turns // 2, turns):
                connection = apsw.Connection(str(path))
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                connection.close()
                sizes[number] = (path.stat().st_size, payload)
    (half, half_payload), (whole, whole_payload) = sizes[turns // 2], sizes[turns]
    return [
        at_most(
            f"SQLite bytes on disk, session of {turns} turns saved after every turn",
            whole / whole_payload,
            bound=1.5,
            against="the bytes of its text and ids, each counted once",
            note=f"{whole:,} bytes for {whole_payload:,}",
        ),
        at_most(
            "SQLite bytes on disk per turn, second half of that session",
            (whole - half) / (half or 1),
            bound=1.1,
            against="its first half (linear is 1)",
            note=f"{half:,} bytes for {half_payload:,} at turn {turns // 2}",
        ),
    ]


def _connect(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
    return connection


def _fresh_copy(path: Path, name: str) -> Path:
    copy = path.with_name(f"{path.stem}-{name}.db")
    shutil.copy(path, copy)
    return copy


def _small_documents(count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield {
            "xt/id": f"toolu_{number:024d}",
            "type": "toolcall",
            "identity_hash": identity_hash("toolcall", object_id=f"toolu_{number:024d}"),
            "tool": "bash",
            "args": {"command": f"make test TARGET={number}"},
            "status": "ok",
            "chat_ref": "chat:bench",
            "content": "............ 12 passed in 0.31 s",
        }
