"""The full-text index: words in code, several processes, a file that may be deleted."""

from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr import Corrupt, Incorrect
from ctxmgr.core.store.search_index import IndexPosition, SearchEntry
from ctxmgr.stores.fts5 import Fts5Index, _match_expression

TEXTS = {
    "camel": "def openConnection(hostName): pass",
    "snake": "retry_after_timeout = 30",
    "path": "src/ctxmgr/stores/sqlite.py: no such file",
    "prose": "The café opens at nine.",
}


@pytest.fixture
async def index(tmp_path: Path) -> AsyncIterator[Fts5Index]:
    opened = await Fts5Index.open(tmp_path / "search.db")
    await put(opened, TEXTS)
    yield opened
    await opened.close()


async def put(index: Fts5Index, texts: dict[str, str | None], sequence: int = 1) -> bool:
    entries = [SearchEntry(object_id=name, sequence=sequence, text=texts[name]) for name in texts]
    at = await index.position()
    return await index.put(entries, after=at, position=IndexPosition("store", sequence))


async def search_ids(index: Fts5Index, query: str) -> list[str]:
    return [hit.object_id for hit in await index.search(query, limit=10)]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("openConnection", "camel"),
        ("connection", "camel"),
        ("host name", "camel"),
        ("retry_after_timeout", "snake"),
        ("timeout", "snake"),
        ("stores/sqlite.py", "path"),
        ("SQLITE", "path"),
        ("cafe", "prose"),
    ],
)
async def test_words_are_found_in_names_and_paths(index: Fts5Index, query: str, name: str) -> None:
    """An agent may remember part of a name, in any spelling."""
    assert await search_ids(index, query) == [name]


async def test_the_best_match_comes_first(index: Fts5Index) -> None:
    """Only the first few results are shown."""
    await put(index, {"one": "port", "two": "port timeout", "three": "x " * 500 + "port"}, 2)

    assert await search_ids(index, "port timeout") == ["two", "snake", "one", "three"]


async def test_a_new_version_replaces_the_previous_one(index: Fts5Index) -> None:
    """Text that is no longer in a file is not found."""
    await put(index, {"snake": "retry_never = 1", "prose": None}, 2)

    assert await search_ids(index, "timeout") == []
    assert await search_ids(index, "never") == ["snake"]
    assert await search_ids(index, "cafe") == []


async def test_only_the_given_ids_are_searched(index: Fts5Index) -> None:
    """A session finds only the objects it has seen."""
    hits = await index.search("nine timeout connection", limit=10, wanted={"prose"}.__contains__)

    assert [hit.object_id for hit in hits] == ["prose"]


async def test_a_put_fails_if_another_process_has_moved_the_index(tmp_path: Path) -> None:
    """Two processes may update one index; neither may leave a gap."""
    one, two = [await Fts5Index.open(tmp_path / "s.db") for _ in range(2)]
    entry = SearchEntry(object_id="a", sequence=1, text="alpha")

    first = await one.put([entry], after=None, position=IndexPosition("store", 1))
    second = await two.put([entry], after=None, position=IndexPosition("store", 5))

    assert (first, second) == (True, False)
    assert await two.position() == IndexPosition("store", 1)
    await one.close()
    await two.close()


async def test_the_index_persists_after_reopening(tmp_path: Path, index: Fts5Index) -> None:
    """A large store must not be read again at every start."""
    again = await Fts5Index.open(tmp_path / "search.db")

    assert await again.position() == IndexPosition("store", 1)
    assert await search_ids(again, "timeout") == ["snake"]
    await again.close()


async def test_a_cleared_index_is_empty(index: Fts5Index) -> None:
    """It is derived data, so clearing it loses nothing."""
    await index.clear()

    assert await index.position() is None
    assert await search_ids(index, "timeout") == []


async def test_an_index_of_another_layout_is_rebuilt(tmp_path: Path, index: Fts5Index) -> None:
    """Derived data is rebuilt rather than migrated."""
    with apsw.Connection(str(tmp_path / "search.db")) as file:
        file.execute("PRAGMA user_version = 77")

    again = await Fts5Index.open(tmp_path / "search.db")

    assert await again.position() is None
    await again.close()


async def test_a_file_of_another_program_is_not_touched(tmp_path: Path) -> None:
    """A mistyped path must not damage another database."""
    theirs = tmp_path / "theirs.db"
    with apsw.Connection(str(theirs)) as file:
        file.execute("CREATE TABLE precious (x); INSERT INTO precious VALUES (1)")

    with pytest.raises(Incorrect, match="another program"):
        await Fts5Index.open(theirs)

    assert apsw.Connection(str(theirs)).execute("SELECT x FROM precious").get == 1


async def test_a_damaged_index_says_that_it_may_be_deleted(tmp_path: Path) -> None:
    """Only this file can be deleted without loss."""
    (tmp_path / "bad.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 5_000)

    with pytest.raises(Corrupt, match="delete the file"):
        await Fts5Index.open(tmp_path / "bad.db")


async def test_a_missing_folder_is_incorrect(tmp_path: Path) -> None:
    """The error says what is wrong and what to do."""
    with pytest.raises(Incorrect, match="folder does not exist"):
        await Fts5Index.open(tmp_path / "no" / "s.db")


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=60))
def test_any_query_is_accepted(query: str) -> None:
    """Models write quotes, operators and fragments, which are special in FTS5 queries."""
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE word USING fts5(text, parts)")
    expression = _match_expression(query)

    if expression:
        connection.execute("SELECT * FROM word WHERE word MATCH ?", (expression,)).fetchall()

    assert expression.count('"') % 2 == 0
