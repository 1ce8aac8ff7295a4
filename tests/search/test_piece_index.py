"""The index of a store's objects, for recall."""

from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from ctxmgr.core.store.search_index import IndexPosition, SearchEntry
from ctxmgr.errors import Corrupt, Incorrect
from ctxmgr.search.piece_index import PieceIndex
from ctxmgr.stores.fts5 import Fts5Index

TEXTS: dict[str, str | None] = {
    "camel": "def openConnection(hostName): pass",
    "snake": "retry_after_timeout = 30",
    "path": "src/ctxmgr/stores/sqlite.py: no such file",
    "prose": "The café opens at nine.",
}


@pytest.fixture
async def index(tmp_path: Path) -> AsyncIterator[PieceIndex]:
    opened = await PieceIndex.open(tmp_path / "s.search")
    await put(opened, TEXTS)
    yield opened
    await opened.close()


async def put(
    index: PieceIndex | Fts5Index, texts: dict[str, str | None], sequence: int = 1
) -> bool:
    entries = [
        SearchEntry(object_id=name, sequence=sequence, text=text) for name, text in texts.items()
    ]
    at = await index.position()
    return await index.put(entries, after=at, position=IndexPosition("store", sequence))


async def search_ids(index: PieceIndex | Fts5Index, query: str) -> list[str]:
    return [hit.object_id for hit in await index.search(query, limit=10)]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("openConnection", "camel"),
        ("connections", "camel"),
        ("host name", "camel"),
        ("retry_after_timeout", "snake"),
        ("timeouts", "snake"),
        ("stores/sqlite.py", "path"),
        ("SQLITE", "path"),
        ("cafe", "prose"),
        ("café", "prose"),
    ],
)
async def test_words_are_found_in_names_and_paths(index: PieceIndex, query: str, name: str) -> None:
    """An agent may remember part of a name, in any spelling or form."""
    assert (await search_ids(index, query))[0] == name


async def test_what_follows_a_hit_counts_for_its_object(index: PieceIndex) -> None:
    """002-R155: objects are ranked like notes and transcripts, by their best passage."""
    filler = "nothing to see in this line of the output\n" * 100
    await put(index, {"far": f"port\n{filler}timeout\n", "near": f"{filler}port timeout\n"}, 2)

    assert (await search_ids(index, "port timeout"))[0] == "near"


async def test_a_new_version_replaces_the_previous_one(index: PieceIndex) -> None:
    """Text that is no longer in a file is not found."""
    await put(index, {"snake": "retry_never = 1", "prose": None}, 2)

    assert await search_ids(index, "timeout") == []
    assert await search_ids(index, "never") == ["snake"]
    assert await search_ids(index, "cafe") == []
    hits = await index.search("retry sqlite", limit=5, wanted={"path"}.__contains__)
    assert [hit.object_id for hit in hits] == ["path"]


async def test_two_processes_skip_no_transaction(index: PieceIndex, tmp_path: Path) -> None:
    """Who continues from a position that has moved stores nothing."""
    other = await PieceIndex.open(tmp_path / "s.search")
    assert await other.position() == IndexPosition("store", 1)
    late = [SearchEntry(object_id="late", sequence=2, text="late")]
    assert not await other.put(late, after=None, position=IndexPosition("store", 2))
    assert await search_ids(other, "late") == []
    assert await put(other, {"new": "late"}, 2)
    assert await search_ids(index, "late") == ["new"]
    await index.clear()
    assert await other.position() is None
    assert await search_ids(other, "late") == []
    await other.close()


async def test_the_file_has_no_text(index: PieceIndex, tmp_path: Path) -> None:
    """The text stays in the store, where it can be purged."""
    await index.close()
    data = (tmp_path / "s.search").read_bytes()
    assert b"retri" in data, "the stem of a word"
    assert b"at nine" not in data
    assert b"no such file" not in data


async def test_an_index_of_the_other_kind_is_replaced(tmp_path: Path) -> None:
    """Files of earlier versions, and of installations without NumPy, are simply rebuilt."""
    path = tmp_path / "s.search"
    for kind in (Fts5Index, PieceIndex, Fts5Index):
        index = await kind.open(path)
        assert await index.position() is None
        await put(index, {"a": "alpha"})
        assert await search_ids(index, "alpha") == ["a"]
        assert index.is_at(path)
        await index.close()


async def test_a_damaged_file_is_replaced_but_no_other_one(tmp_path: Path) -> None:
    """Derived data is built again; what somebody else wrote is not touched."""
    path = tmp_path / "s.search"
    index = await PieceIndex.open(path)
    await put(index, {f"o{n}": f"alpha {n} " * 200 for n in range(50)})
    await index.close()
    data = bytearray(path.read_bytes())
    data[100:] = b"\xff" * (len(data) - 100)
    path.write_bytes(data)
    index = await PieceIndex.open(path)
    assert await index.position() is None
    await index.close()
    other = tmp_path / "other"
    other.write_bytes(b"my notes " * 1_000)
    with pytest.raises((Corrupt, Incorrect)):
        await PieceIndex.open(other)
    assert other.read_bytes() == b"my notes " * 1_000
    precious = apsw.Connection(str(tmp_path / "precious.db"))
    precious.execute("CREATE TABLE precious (x)")
    precious.close()
    with pytest.raises(Incorrect, match="not a search index"):
        await PieceIndex.open(tmp_path / "precious.db")
