"""Addresses, invalid files, and the errors for them."""

import asyncio
import contextlib
import os
import random
import sys
import warnings
from pathlib import Path

import apsw
import pytest

from ctxmgr.core.store.contract import Put
from ctxmgr.core.store.documents import DOCUMENT_BYTES_MAX
from ctxmgr.core.store.transactions import check_operations, digest
from ctxmgr.errors import Corrupt, CtxmgrError, Incorrect, NewerFormat, NotFound, Unavailable
from ctxmgr.stores.sqlite import connection
from ctxmgr.stores.sqlite.body_reader import LIST_BITS
from ctxmgr.stores.sqlite.connection import APPLICATION_ID, migrations, parse_url, statements
from ctxmgr.stores.sqlite.store import SqliteStore

NOBODY = 65_534


def test_three_slashes_are_relative_and_four_absolute():
    """Other Python libraries use the same convention."""
    assert parse_url("sqlite:///x.db").path == Path.cwd() / "x.db"
    assert parse_url("sqlite:////srv/x.db").path == Path("/srv/x.db")
    assert parse_url("sqlite:////srv/a%20b.db").path == Path("/srv/a b.db")
    assert parse_url("sqlite://:memory:").path is None


@pytest.mark.parametrize(
    "url", ["mysql:///x", "sqlite://x.db", "sqlite://", "sqlite:///", "sqlite:///x.db?mode=ro", ""]
)
def test_a_bad_url_is_incorrect(url):
    """The message says what to write instead."""
    with pytest.raises(Incorrect):
        parse_url(url)


async def test_two_stores_in_memory_are_independent():
    """003-R192: experiments in memory do not see each other."""
    one = await SqliteStore.open("sqlite://:memory:")
    two = await SqliteStore.open("sqlite://:memory:")
    async with one, two:
        await one.commit([Put(_note())])

        assert await two.get("a") is None


async def test_a_key_written_by_an_earlier_release_is_recognised(tmp_path: Path):
    """Older files identify some transactions by values instead of bytes."""
    operations = [Put(_note())]
    async with await SqliteStore.open(tmp_path / "s.db") as store:
        first = await store.commit(operations, key="k")
    named = bytes.fromhex(digest(check_operations(operations, {})))
    with contextlib.closing(apsw.Connection(str(tmp_path / "s.db"))) as connection:
        connection.execute("UPDATE tx SET digest = ? WHERE key = 'k'", (named,))

    async with await SqliteStore.open(tmp_path / "s.db") as store:
        again = await store.commit(operations, key="k")

    assert (again.repeated, again.sequence) == (True, first.sequence)


async def test_a_missing_folder_is_incorrect(tmp_path: Path):
    """No folder is created unasked."""
    with pytest.raises(Incorrect, match="there is no directory"):
        await SqliteStore.open(tmp_path / "none" / "s.db")
    with pytest.raises(Incorrect, match="is a directory"):
        await SqliteStore.open(tmp_path)


@pytest.mark.parametrize("name", ["s.db", "none/s.db"])
async def test_opening_for_reading_creates_no_file(tmp_path: Path, name):
    """A mistyped path is an error and must not become an empty store."""
    with pytest.raises(NotFound, match="no store at"):
        await SqliteStore.open(tmp_path / name, create=False)

    assert _names(tmp_path) == set()


def test_the_longest_possible_list_has_enough_positions():
    """An item takes at least two bytes, so the size limit of documents also limits lists."""
    assert DOCUMENT_BYTES_MAX // 2 <= 1 << LIST_BITS


async def test_a_file_of_another_program_is_not_touched(tmp_path: Path):
    """A mistyped path must not damage another program's database."""
    path = tmp_path / "other.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = path.read_bytes()

    with pytest.raises(Incorrect, match="another program"):
        await SqliteStore.open(path)

    assert path.read_bytes() == before


async def test_a_file_of_a_newer_version_is_refused(tmp_path: Path):
    """An old program would write data that the newer one does not expect."""
    path = await _made(tmp_path)
    _execute(path, "PRAGMA user_version = 99")

    with pytest.raises(NewerFormat, match="format 99"):
        await SqliteStore.open(path)


async def test_a_document_of_a_newer_format_is_refused(tmp_path: Path):
    """The rest of the file stays readable."""
    path = await _made(tmp_path)
    _execute(path, "UPDATE write SET format = 9 WHERE wid = 16384")

    async with await SqliteStore.open(path) as store:
        with pytest.raises(NewerFormat, match="format 9"):
            await store.get("n0")
        assert await store.get("n1") is not None


async def test_an_empty_file_becomes_a_store(tmp_path: Path):
    """``touch`` or a crash during creation leaves one."""
    path = tmp_path / "s.db"
    path.touch()

    async with await SqliteStore.open(path) as store:
        assert (await store.status()).sequence is None

    assert _execute(path, "PRAGMA application_id") == APPLICATION_ID


async def test_garbage_is_corrupt_and_says_what_to_do(tmp_path: Path):
    """The user needs to know the next step."""
    path = tmp_path / "s.db"
    path.write_bytes(b"SQLite format 3\0" + random.Random(1).randbytes(50_000))

    with pytest.raises(Corrupt, match="restore a backup"):
        await SqliteStore.open(path)


async def test_a_truncated_file_is_corrupt(tmp_path: Path):
    """A copy that ran out of disk space is not a valid store."""
    path = await _made(tmp_path)
    os.truncate(path, path.stat().st_size // 2)

    with pytest.raises(Corrupt):
        async with await SqliteStore.open(path) as store:
            await store.feed()


async def test_flipped_bytes_never_give_a_wrong_answer(tmp_path: Path):
    """Reading a damaged file returns what was stored or raises ``Corrupt``; verify says which."""
    path = await _made(tmp_path)
    whole = path.read_bytes()
    dice = random.Random(7)
    for page in range(1, len(whole) // 16_384):
        damaged = bytearray(whole)
        for _ in range(400):
            damaged[page * 16_384 + dice.randrange(16_384)] ^= 0xFF
        path.write_bytes(damaged)

        assert await _outcome(path) in {"right", "corrupt"}


async def test_a_full_disk_is_unavailable_and_leaves_no_partial_write(tmp_path: Path):
    """003-R010: existing data stays, and the next write that fits succeeds."""
    async with await SqliteStore.open(tmp_path / "s.db") as store:
        await store.commit([Put(_note())])
        store._writer._connection.execute("PRAGMA max_page_count = 1")
        with pytest.raises(Unavailable, match="disk is full"):
            await store.commit([Put(_note("b")), Put({**_note("c"), "text": "x" * 300_000})])
        store._writer._connection.execute("PRAGMA max_page_count = 100000")
        after = await store.commit([Put(_note("d"))])

        assert after.sequence == 2
        assert set(await store.get_many(["a", "b", "c", "d"])) == {"a", "d"}
        assert (await store.verify()).faults == ()


async def test_a_file_locked_for_long_is_unavailable(tmp_path: Path, monkeypatch):
    """The wait for other processes is bounded, and the error names its reason."""
    monkeypatch.setattr(connection, "BUSY_WAIT_MS", 20)
    async with await SqliteStore.open(tmp_path / "s.db") as store:
        other = apsw.Connection(str(tmp_path / "s.db"))
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match="locked by another process"):
            await store.commit([Put(_note())])
        other.execute("ROLLBACK")
        other.close()

        assert (await store.commit([Put(_note())])).sequence == 1


@pytest.mark.skipif(sys.platform != "linux", reason="drops the rights of a child by its user id")
@pytest.mark.parametrize(("file_mode", "folder_mode"), [(0o444, 0o777), (0o444, 0o555)])
async def test_a_read_only_file_can_be_read_and_not_written(
    tmp_path_factory, file_mode, folder_mode
):
    """An archive on a read-only share can still be queried."""
    folder = tmp_path_factory.mktemp("archive")
    path = await _made(folder)
    for parent in folder.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o055)
    path.chmod(file_mode)
    folder.chmod(folder_mode)

    assert _as_unprivileged_user(path) == ["read", "Denied"]


def test_every_statement_has_a_name_and_a_description():
    """SQL is written for readers; migrations are never edited, so their number is checked."""
    assert len(migrations()) == 1
    assert all(statement for statement in statements().values())


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def _note(object_id="a"):
    return {"xt/id": object_id, "type": "note", "text": "t"}


async def _made(folder: Path) -> Path:
    """Create and close a store of 30 notes and a long list."""
    path = folder / "s.db"
    async with await SqliteStore.open(path) as store:
        for number in range(30):
            await store.commit([Put(_note(f"n{number}"))])
        for length in range(8, 12):
            turns = [f"{n} {'x' * 2_000}" for n in range(length)]
            await store.commit([Put({**_note("list"), "turns": turns})])
    return path


def _execute(path: Path, sql: str) -> object:
    connection = apsw.Connection(str(path))
    answer = connection.execute(sql).get
    connection.close()
    return answer


async def _outcome(path: Path) -> str:
    """Return the result of reading everything."""
    turns = [f"{n} {'x' * 2_000}" for n in range(11)]
    try:
        async with await SqliteStore.open(path) as store:
            notes = [await store.get(f"n{number}") for number in range(30)]
            long = await store.get("list")
            faults = (await store.verify()).faults
    except Corrupt:
        return "corrupt"
    right = [version and version.document for version in notes] == [
        _note(f"n{number}") for number in range(30)
    ] and (long and long.document) == {**_note("list"), "turns": turns}
    return "right" if right else "corrupt" if faults else "wrong"


def _as_unprivileged_user(path: Path) -> list[str]:
    """Read and write in a child process without root privileges; return both results."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Newer Python versions warn about threads lost in a fork; the child needs none.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:  # pragma: no cover
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        os.write(writing, ",".join(_tried(path)).encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as answers:
        return answers.read().split(",")


def _tried(path: Path) -> list[str]:  # pragma: no cover
    async def try_both() -> list[str]:
        async with await SqliteStore.open(path) as store:
            read_result = "read" if await store.get("n1") else "nothing"
            try:
                await store.commit([Put(_note())])
            except CtxmgrError as error:
                return [read_result, type(error).__name__]
            return [read_result, "written"]

    asyncio.set_event_loop(None)
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(try_both())
    except Exception as error:  # noqa: BLE001
        return [repr(error)]


@pytest.mark.parametrize("size", [1, 100, 511])
async def test_a_short_foreign_file_is_not_overwritten(tmp_path: Path, size: int):
    """SQLite takes it for an empty database, so a mistyped path could destroy it."""
    path = tmp_path / "notes.txt"
    path.write_bytes(b"n" * size)

    with pytest.raises(Incorrect, match="is not a ctxmgr store"):
        await SqliteStore.open(path)

    assert path.read_bytes() == b"n" * size


def test_a_writer_that_has_waited_long_asks_as_often_as_at_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """003-R006: with eight writing processes, SQLite's growing pauses starve one for seconds."""
    pauses: list[float] = []
    monkeypatch.setattr(connection.time, "sleep", pauses.append)
    waiting = connection._LockWait()

    assert all(waiting(earlier) for earlier in range(300))

    assert max(pauses) <= connection.LOCK_PAUSES_MS[1] / 1_000


def test_a_writer_gives_up_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """003-R006: a lock that is never released is told, not waited for."""
    monkeypatch.setattr(connection, "BUSY_WAIT_MS", 20)
    waiting = connection._LockWait()

    tries = 0
    while waiting(tries):
        tries += 1

    assert 1 <= tries <= 110
