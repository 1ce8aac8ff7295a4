"""Backup, verify and vacuum."""

import asyncio
import hashlib
from pathlib import Path

import apsw
import pytest

from ctxmgr.core.objects.chat import Chat, Turn
from ctxmgr.core.objects.codec import KINDS, to_document
from ctxmgr.core.store.contract import FieldType, Kind, Match, Put, Query
from ctxmgr.errors import Conflict, Incorrect, Unavailable
from ctxmgr.stores.sqlite import maintenance
from ctxmgr.stores.sqlite.body_reader import BodyReader
from ctxmgr.stores.sqlite.store import SqliteStore

NOTE = {"note": Kind("note", {"rank": FieldType.INTEGER})}
TEXT = "x" * 9_000


@pytest.fixture
async def store(tmp_path: Path):
    async with await SqliteStore.open(tmp_path / "s.db", kinds={**KINDS, **NOTE}) as opened:
        await opened.commit([Put(_note("a", 1)), Put(_note("b", 2, text=TEXT))])
        await opened.commit([Put(_note("a", 3), 10, 20)])
        yield opened


async def test_a_backup_has_the_state_from_when_it_started(store, tmp_path: Path):
    """003-R007: a copy taken while agents work can be opened by anyone."""
    seen: list[tuple[int, int]] = []

    done = await store.backup(tmp_path / "copy.db", progress=lambda *pages: seen.append(pages))
    await store.commit([Put(_note("later", 1))])

    async with await SqliteStore.open(tmp_path / "copy.db") as copy:
        assert (await copy.verify()).faults == ()
        assert (await copy.status()).sequence == 2
        assert await copy.feed() == (await store.feed())[:2]
    assert done.file_bytes == (tmp_path / "copy.db").stat().st_size
    assert seen[-1][0] == seen[-1][1]


async def test_a_backup_does_not_overwrite_a_file(store, tmp_path: Path):
    """A typing error must not destroy the only good copy."""
    (tmp_path / "copy.db").write_text("precious", encoding="utf-8")

    with pytest.raises(Incorrect, match="file exists"):
        await store.backup(tmp_path / "copy.db")
    with pytest.raises(Incorrect, match="folder does not exist"):
        await store.backup(tmp_path / "none" / "copy.db")

    assert (tmp_path / "copy.db").read_text(encoding="utf-8") == "precious"


async def test_the_error_of_a_backup_names_the_disk_that_is_full(
    store, tmp_path: Path, monkeypatch
):
    """The user must not look for space on the store's disk, which has enough."""

    def full(source, partial: Path, progress) -> None:
        partial.write_text("half", encoding="utf-8")
        raise apsw.FullError("database or disk is full")

    monkeypatch.setattr(maintenance, "_copy", full)

    with pytest.raises(Unavailable, match=r"/copy\.db: the disk is full"):
        await store.backup(tmp_path / "copy.db")

    assert {path.name for path in _left(tmp_path)} <= {"s.db", "s.db-wal", "s.db-shm"}


async def test_writing_continues_while_a_backup_runs(store, tmp_path: Path):
    """003-R006: no client waits for it."""
    copying = asyncio.create_task(store.backup(tmp_path / "copy.db"))

    for number in range(20):
        await store.commit([Put(_note(f"n{number}", number))])
    await copying

    async with await SqliteStore.open(tmp_path / "copy.db") as copy:
        assert (await copy.verify()).faults == ()


async def test_no_token_from_before_matches_in_a_restored_backup(store, tmp_path: Path):
    """003-A21: a lost version must not be mistaken for a later one."""
    await store.backup(tmp_path / "copy.db")
    lost = await store.commit([Put(_note("a", 9))])

    async with await SqliteStore.open(tmp_path / "copy.db") as restored:
        other = await restored.commit([Put(_note("a", 5))])
        assert other.sequence == lost.sequence
        with pytest.raises(Conflict):
            await restored.commit([Match("a", lost.token), Put(_note("a", 10))])
        again = await restored.commit([Put(_note("a", 9))], key=lost.key)

    assert not again.repeated
    assert _names(tmp_path, "copy*") == {"copy.db"}


async def test_verify_reports_how_much_it_checked(store):
    """A clean report about nothing would be worthless."""
    seen: list[tuple[int, int]] = []

    report = await store.verify(progress=lambda *done: seen.append(done))

    assert (report.transactions, report.versions, report.pieces, report.faults) == (2, 3, 1, ())
    assert seen[-1] == (3, 3)


async def test_verify_recomputes_the_five_hashes(store):
    """003-R045, 003-R058: content changed by other means is detected."""
    chat = to_document(Chat(session_id="s").append(Turn(user="hello", assistant=())))
    await store.commit([Put({**chat, "metadata_hash": "0" * 64})])

    faults = (await store.verify()).faults

    assert len(faults) == 1
    assert "metadata_hash is stored as 0000" in faults[0]


async def _grow(store: SqliteStore, turns: int) -> None:
    """Save a chat after every turn, as a client does."""
    chat = Chat(session_id="long")
    for number in range(turns):
        chat = chat.append(Turn(user=f"{number} " * 100, assistant=()))
        await store.commit([Put(to_document(chat))])


async def test_verify_reads_every_turn_of_a_chat_once(store, monkeypatch):
    """A session of a thousand turns has a thousand versions, each with all turns before it."""
    turns = 60
    await _grow(store, turns)
    read: list[int] = []
    items = BodyReader.items

    def counted(self, *args, **options):
        found = items(self, *args, **options)
        read.append(len(found))
        return found

    monkeypatch.setattr(BodyReader, "items", counted)

    assert (await store.verify()).faults == ()

    assert turns - 1 <= sum(read) <= turns + 1


async def test_verify_forgets_lists_that_take_too_much_memory(store, monkeypatch):
    """003-R045: with lists of any size, the answer is the same."""
    await _grow(store, 20)
    monkeypatch.setattr(maintenance, "LISTS_BYTES_MAX", 10)

    assert (await store.verify()).faults == ()


async def test_verify_finds_a_changed_turn_in_every_version_that_has_it(store):
    """003-R045: a turn whose piece was replaced, its hash included, proves no version."""
    turns, changed = 20, 7
    await _grow(store, turns)
    connection = store._writer._connection
    rows = connection.execute("SELECT pid, body FROM piece").fetchall()
    ((pid, body),) = [row for row in rows if b'"user":"6 6' in row[1]]
    forged = body.replace(b"6 6 6", b"9 9 9", 1)
    connection.execute(
        "UPDATE piece SET body = ?, address = ? WHERE pid = ?",
        (forged, hashlib.sha256(forged).digest(), pid),
    )

    faults = (await store.verify()).faults

    assert len(faults) == turns - changed + 1
    assert all("metadata_hash is stored as" in fault for fault in faults)


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        ("UPDATE piece SET body = CAST('\"other\"' AS BLOB)", "do not match its hash"),
        ("DELETE FROM piece", "piece 1 is missing"),
        ("DELETE FROM present WHERE value = 2", "the index of visible versions lacks 2"),
        ("DELETE FROM ever WHERE value = 3", "the index of all versions lacks 3"),
        ("DELETE FROM write WHERE wid = 16384", "has no document"),
        ("UPDATE write SET body = CAST('{' AS BLOB) WHERE wid = 16384", "is damaged"),
        ("UPDATE write SET nid = 2 WHERE wid = 16384", "its document has the id 'a'"),
        ("UPDATE head SET wid = 16385 WHERE nid = 1", "does not match its timeline"),
        ("UPDATE tx SET instant = 5 WHERE seq = 2", "system time is before"),
    ],
)
async def test_verify_finds_damage_in_every_part(store, damage, fault):
    """Every part of the file has a check."""
    store._writer._connection.execute(damage)

    faults = (await store.verify()).faults

    assert any(fault in line for line in faults), faults


async def test_verify_reports_a_file_whose_pages_are_broken(store, tmp_path: Path):
    """SQLite's findings are listed, and the other checks still run."""
    await store.close()
    pages = bytearray((tmp_path / "s.db").read_bytes())
    at = pages.index(TEXT[:2_000].encode())
    page = at // 16_384 * 16_384
    pages[page : page + 64] = bytes(64)
    (tmp_path / "s.db").write_bytes(pages)

    async with await SqliteStore.open(tmp_path / "s.db") as damaged:
        report = await damaged.verify()

    assert any(fault.startswith("the file: ") for fault in report.faults)


async def test_vacuum_frees_space_and_keeps_all_data(store):
    """Sequences, tokens and history are unchanged."""
    before = await store.feed()
    store._writer._connection.execute("CREATE TABLE filler (x)")
    store._writer._connection.execute("INSERT INTO filler VALUES (zeroblob(1000000))")
    store._writer._connection.execute("DROP TABLE filler")

    done = await store.vacuum()

    assert done.bytes_after < done.bytes_before - 900_000
    assert await store.feed() == before
    assert len((await store.find(Query("note"))).versions) == 2


def _names(folder: Path, pattern: str) -> set[str]:
    return {path.name for path in folder.glob(pattern)}


def _note(object_id, rank, **more):
    return {"xt/id": object_id, "type": "note", "rank": rank, **more}


def _left(folder: Path) -> list[Path]:
    return list(folder.iterdir())
