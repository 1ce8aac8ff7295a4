"""The index of documents: three tables, the hybrid search, repair."""

import asyncio
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import numpy as np
import pytest
import sqlite_vec
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxmgr.errors import Corrupt, Incorrect, Unavailable
from ctxmgr.search import search_index
from ctxmgr.search.documents import SearchDocument
from ctxmgr.search.embedder import Vectors
from ctxmgr.search.hybrid import HybridWeights, merge_sides
from ctxmgr.search.search_index import SearchIndex


class LetterEmbedder:
    """An embedder by the letters of a text."""

    name = "letters"

    def __init__(self, dimension: int = 26) -> None:
        self.dimension = dimension
        self.texts: list[str] = []
        self.allowed = threading.Event()
        self.allowed.set()
        self.is_broken = False

    def embed(self, texts: Sequence[str]) -> Vectors:
        assert self.allowed.wait(30)
        if self.is_broken:
            raise Unavailable("the embedder does not answer")
        self.texts += texts
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for letter in text.lower():
                if "a" <= letter <= "z":
                    row[(ord(letter) - ord("a")) % self.dimension] += 1
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        rows /= np.where(lengths > 0, lengths, np.float32(1))
        return Vectors(embedder=self.name, rows=rows)


class Folder:
    """A ``DocumentSource`` in memory."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts

    def paths(self) -> Iterable[str]:
        return sorted(self.texts)

    def read(self, path: str) -> SearchDocument | None:
        if path not in self.texts:
            return None
        return _document(path, self.texts[path])


def _document(path: str, text: str, category: str = "reference") -> SearchDocument:
    return SearchDocument(path=path, text=text, category=category, modified=1_000)


def _rows(path: Path, sql: str, *, vectors: bool = False) -> list[tuple[object, ...]]:
    connection = apsw.Connection(str(path))
    if vectors:
        connection.enable_load_extension(True)
        connection.load_extension(sqlite_vec.loadable_path())
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


@pytest.fixture(params=["vec0", "plain"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With sqlite-vec, and without."""
    if request.param == "plain":
        monkeypatch.setattr(search_index, "load_vector_extension", lambda _: False)
    return str(request.param)


async def test_a_document_is_in_all_three_tables_once(tmp_path: Path, form: str) -> None:
    """002-R158, 002-R160–R162, 002-R164, 002-A20, 002-R241: replaced everywhere, never doubled."""
    path = tmp_path / "memory.db"
    index = await SearchIndex.open(path, embedder=LetterEmbedder())
    for text in ("one", "two\nlines", "three\nwhole\nlines"):
        await index.index_file("a.md", text, "person", modified=7, tags=["x", "é"])
        await index.embedded()
    await index.close()

    assert _rows(path, "SELECT path, content, category FROM knowledge_fts") == [
        ("a.md", "three\nwhole\nlines", "person")
    ]
    (meta,) = _rows(
        path,
        "SELECT path, category, modified, token_count, line_count, tags, last_indexed > 7 "
        "FROM knowledge_meta",
    )
    assert meta == ("a.md", "person", 7, 5, 3, '["x","é"]', 1)
    assert _rows(path, "SELECT path FROM knowledge_vec", vectors=True) == [("a.md",)]
    schema = {
        str(name): str(sql) for name, sql in _rows(path, "SELECT name, sql FROM sqlite_schema")
    }
    assert "porter unicode61" in schema["knowledge_fts"]
    assert {"idx_meta_category", "idx_meta_modified"} <= schema.keys()
    assert ("vec0" in schema["knowledge_vec"]) == (form == "vec0")
    if form == "vec0":
        assert "FLOAT[26]" in schema["knowledge_vec"], "the dimension is the embedder's"


async def test_remove_leaves_nothing(tmp_path: Path, form: str) -> None:
    """002-R165: from all three tables."""
    path = tmp_path / "memory.db"
    index = await SearchIndex.open(path, embedder=LetterEmbedder())
    await index.index_file("a.md", "tea", "person")
    await index.embedded()
    assert await index.remove_file("a.md")
    assert not await index.remove_file("a.md")
    assert await index.search("tea") == []
    await index.close()
    for table in ("knowledge_fts", "knowledge_meta", "knowledge_vec"):
        assert _rows(path, f"SELECT count(*) FROM {table}", vectors=True) == [(0,)]


async def test_results_are_merged_from_words_and_vectors(tmp_path: Path, form: str) -> None:
    """002-R155–R157, 002-R166, 002-R167, 002-A23: both sides count, each document once."""
    index = await SearchIndex.open(tmp_path / "memory.db", embedder=LetterEmbedder())
    long = " ".join(f"word{number}" for number in range(100))
    await index.index_file("tea.md", f"{long} tea with milk {long}", "person")
    await index.index_file("eat.md", "eat", "procedure")
    await index.index_file("zzz.md", "zzz", "topic")
    await index.embedded()

    results = await index.search("tea", limit=2)
    assert [result.path for result in results] == ["tea.md", "eat.md"]
    tea, eat = results
    assert eat.score == pytest.approx(0.6), "the same letters: distance 0, no word in common"
    assert 0.4 + 0.6 / 2 < tea.score < 1
    assert "**tea** with milk" in tea.snippet
    assert 40 <= len(tea.snippet.split()) <= 50
    assert (eat.snippet, eat.category) == ("eat", "procedure")
    assert [r.path for r in await index.search("tea", category="person")] == ["tea.md"]
    assert await index.search("tea", category="' OR 1 = 1 --") == []
    await index.close()


async def test_no_query_is_a_syntax_error(tmp_path: Path) -> None:
    """002-A21: punctuation, operators and odd characters are no syntax."""
    index = await SearchIndex.open(tmp_path / "memory.db")
    await index.index_file("a.md", "don't use state-of-the-art AND tools", "reference")
    for query in (
        '"',
        "state-of-the-art",
        "don't",
        "AND OR NOT",
        "a*",
        "(",
        "^tools",
        "\0",
        "\ud800",
    ):
        await index.search(query)
    assert [r.path for r in await index.search("state-of-the-art")] == ["a.md"]
    assert [r.score for r in await index.search("tools")] == [1.0]
    with pytest.raises(Incorrect, match="limit is 0"):
        await index.search("tools", limit=0)
    await index.close()


async def test_text_is_found_while_it_is_embedded(tmp_path: Path) -> None:
    """002-R162, 002-R163: indexing does not wait for the embedder, which gets 8,000 characters."""
    embedder = LetterEmbedder()
    index = await SearchIndex.open(tmp_path / "memory.db")
    await index.close()
    index = await SearchIndex.open(tmp_path / "memory.db", embedder=embedder)
    embedder.allowed.clear()
    indexing = asyncio.create_task(index.index_file("a.md", "tea " * 5_000, "person"))
    await asyncio.wait_for(indexing, 60)
    embedder.allowed.set()
    assert [r.path for r in await index.search("tea")] == ["a.md"]
    await index.embedded()
    assert max(map(len, embedder.texts)) == 8_000
    await index.close()


async def test_an_embedder_that_fails_costs_only_its_side(tmp_path: Path) -> None:
    """002-R163: words are searched without it, and vectors follow when it is back."""
    embedder = LetterEmbedder()
    embedder.is_broken = True
    index = await SearchIndex.open(tmp_path / "memory.db", embedder=embedder)
    await index.index_file("a.md", "tea", "person")
    with pytest.raises(Unavailable):
        await index.embedded()
    assert [r.path for r in await index.search("tea")] == ["a.md"]
    embedder.is_broken = False
    await index.embedded()
    assert [r.path for r in await index.search("eat")] == ["a.md"]
    await index.close()


async def test_vectors_of_two_embedders_are_not_mixed(tmp_path: Path, form: str) -> None:
    """X-C16: the dimension is the embedder's; another one is refused until a rebuild."""
    folder = Folder({"a.md": "tea"})
    index = await SearchIndex.open(tmp_path / "i.db", embedder=LetterEmbedder(), source=folder)
    await index.embedded()
    await index.close()

    other = await SearchIndex.open(tmp_path / "i.db", embedder=LetterEmbedder(8), source=folder)
    with pytest.raises(Incorrect, match=r"vectors of letters \(26 numbers\).*rebuild"):
        await other.search("tea")
    await other.rebuild_full()
    await other.embedded()
    assert [r.path for r in await other.search("eat")] == ["a.md"]
    await other.close()
    without = await SearchIndex.open(tmp_path / "i.db")
    assert [r.path for r in await without.search("tea")] == ["a.md"]
    await without.close()


async def test_vectors_of_a_missing_extension_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """002-R160: an index moves to a machine without sqlite-vec."""
    folder = Folder({"a.md": "tea"})
    index = await SearchIndex.open(tmp_path / "i.db", embedder=LetterEmbedder(), source=folder)
    await index.embedded()
    await index.close()
    monkeypatch.setattr(search_index, "load_vector_extension", lambda _: False)
    with pytest.raises(Corrupt, match="sqlite-vec"):
        await SearchIndex.open(tmp_path / "i.db")
    index = await SearchIndex.open(tmp_path / "i.db", embedder=LetterEmbedder(), source=folder)
    await index.embedded()
    assert [r.path for r in await index.search("eat")] == ["a.md"]
    await index.close()


@pytest.mark.parametrize("damage", ["deleted", "garbage", "emptied", "page"])
async def test_a_lost_file_is_filled_before_it_answers(tmp_path: Path, damage: str) -> None:
    """002-R168: never an empty answer from an index that was deleted or damaged in use."""
    path = tmp_path / "memory.db"
    folder = Folder({f"{number}.md": f"tea {number} " * 50 for number in range(40)})
    index = await SearchIndex.open(path, source=folder)
    assert len(await index.search("tea", limit=50)) == 40
    if damage == "page":
        await index.close()
        data = bytearray(path.read_bytes())
        data[4096:] = b"\xff" * (len(data) - 4096)
        path.write_bytes(data)
        index = await SearchIndex.open(path, source=folder)
    else:
        for name in ("memory.db", "memory.db-wal", "memory.db-shm"):
            (tmp_path / name).unlink()
        if damage != "deleted":
            path.write_bytes(b"no database " * 1_000 if damage == "garbage" else b"")

    assert len(await index.search("tea", limit=50)) == 40
    await index.close()


async def test_another_programs_file_is_not_touched(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "other.db"))
    connection.execute("CREATE TABLE precious (x)")
    connection.close()
    with pytest.raises(Incorrect, match="not a knowledge index"):
        await SearchIndex.open(tmp_path / "other.db", source=Folder({}))
    assert _rows(tmp_path / "other.db", "SELECT name FROM sqlite_schema") == [("precious",)]


async def test_changed_paths_are_read_again(tmp_path: Path) -> None:
    """002-R164, 002-R165, 002-A24: after a commit, only what it names."""
    folder = Folder({"a.md": "tea", "b.md": "coffee"})
    index = await SearchIndex.open(tmp_path / "memory.db", source=folder)
    folder.texts.update({"a.md": "cocoa", "c.md": "cocoa"})
    del folder.texts["b.md"]
    await index.update(["a.md", "b.md", "b.md"])
    assert [r.path for r in await index.search("cocoa")] == ["a.md"]
    assert await index.search("coffee") == []
    assert await index.refresh() == 1
    assert [r.path for r in await index.search("cocoa")] == ["a.md", "c.md"]
    assert await index.refresh() == 0
    await index.close()
    assert _rows(tmp_path / "memory.db", "SELECT modified FROM knowledge_meta") == [(1_000,)] * 2


async def test_two_processes_write_and_one_rebuilds(tmp_path: Path) -> None:
    """002-R168: safe at any time, while others index and search."""
    folder = Folder({f"{number}.md": f"tea {number}" for number in range(20)})
    one = await SearchIndex.open(tmp_path / "memory.db", source=folder)
    two = await SearchIndex.open(tmp_path / "memory.db", source=folder)

    async def ask() -> None:
        for _ in range(10):
            assert len(await two.search("tea", limit=50)) >= 20

    async def add(index: SearchIndex, name: str) -> None:
        for number in range(5):
            folder.texts[f"{name}-{number}.md"] = f"tea {name}"
            await index.update([f"{name}-{number}.md"])

    await asyncio.gather(ask(), add(one, "one"), add(two, "two"), one.rebuild_full(), ask())
    assert len(await one.search("tea", limit=50)) == 30
    await one.close()
    await two.close()


_names = st.sampled_from(["a.md", "b.md", "c.md"])
_texts = st.lists(st.sampled_from(["tea", "teas", "coffee", "milk", "the"]), max_size=6)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(_names, st.none() | _texts.map(" ".join)), max_size=8))
def test_changes_one_by_one_equal_a_rebuild(changes: list[tuple[str, str | None]]) -> None:
    """002-R164, 002-R165, 002-R168: the same results, scores and vectors."""

    async def run() -> None:
        with TemporaryDirectory() as name:
            folder = Path(name)
            one = await SearchIndex.open(folder / "one.db", embedder=LetterEmbedder())
            final: dict[str, str] = {}
            for path, text in changes:
                if text is None:
                    await one.remove_file(path)
                    final.pop(path, None)
                else:
                    await one.index_file(path, text, "reference")
                    final[path] = text
            two = await SearchIndex.open(folder / "two.db", embedder=LetterEmbedder())
            assert await two.rebuild_full(_document(*item) for item in final.items()) == len(final)
            await one.embedded()
            await two.embedded()
            for query in ("tea", "milk coffee", "the", "nothing"):
                assert await one.search(query) == await two.search(query)
                if not final:
                    assert await one.search(query) == []
            await one.close()
            await two.close()

    asyncio.run(run())


def test_the_merge_weighs_and_sorts() -> None:
    """002-R145, 002-R156, 002-A23: a lone match does not score 0, ties go by path."""
    merged = merge_sides({"a": 2.0, "b": 1.0}, {"b": 0.0, "c": 2.0}, HybridWeights())
    assert merged == [("b", pytest.approx(0.8)), ("a", pytest.approx(0.4)), ("c", 0.0)]
    assert merge_sides({"b": 3.0, "a": 3.0}, None, HybridWeights()) == [("a", 1.0), ("b", 1.0)]
    assert merge_sides({"a": 0.0}, {}, HybridWeights()) == [("a", 0.4)]
    assert merge_sides({}, {"a": 0.0}, HybridWeights()) == [("a", 0.6)]
    assert merge_sides({}, {}, HybridWeights()) == []
    for weights in ((0.0, 0.0), (-1.0, 1.0), (float("nan"), 1.0)):
        with pytest.raises(Incorrect, match="weights"):
            HybridWeights(bm25=weights[0], vector=weights[1])
