"""The search index in a file."""

import asyncio
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxmgr.errors import Corrupt, Incorrect
from ctxmgr.search.embedder import Vectors
from ctxmgr.search.pieces import SearchSource
from ctxmgr.search.static_vectors import StaticEmbedder
from ctxmgr.search.text_index import TextIndex


class _CountingEmbedder(StaticEmbedder):
    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.embedded: list[str] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.embedded.extend(texts)
        return super().embed(texts)


def _note(path: str, text: str, category: str = "reference") -> SearchSource:
    return SearchSource.from_text(text, source_id=path, category=category)


async def test_a_source_is_found_until_it_is_removed(tmp_path: Path) -> None:
    """002-R157, 002-R164, 002-R165: replacing and removing leave nothing behind."""
    index = await TextIndex.open(tmp_path / "index.db")
    await index.put([_note("a.md", "The boiler is broken."), _note("b.md", "Violin lessons.")])

    (found,) = await index.search("boilers")
    assert (found.path, found.category) == ("a.md", "reference")
    assert found.snippet == "The boiler is broken."
    assert found.score > 0
    await index.put([_note("a.md", "The kettle is new.")])
    assert await index.search("boiler") == []
    assert [result.path for result in await index.search("kettle")] == ["a.md"]
    assert await index.remove(["a.md", "missing.md"]) == 1
    assert await index.search("kettle") == []
    index.close()


async def test_a_category_limits_the_search(tmp_path: Path) -> None:
    """002-R166, 002-A22: the category is a value, never a part of a statement."""
    index = await TextIndex.open(tmp_path / "index.db")
    await index.put([_note("a.md", "tea", "person"), _note("b.md", "tea", "project")])

    assert [r.path for r in await index.search("tea", category="project")] == ["b.md"]
    assert await index.search("tea", category="' OR 1 = 1 --") == []
    with pytest.raises(Incorrect, match="limit is 0"):
        await index.search("tea", limit=0)
    index.close()


async def test_a_change_of_another_process_is_seen(tmp_path: Path) -> None:
    """002-R168: several processes use one index, and one may rebuild it meanwhile."""
    one = await TextIndex.open(tmp_path / "index.db")
    two = await TextIndex.open(tmp_path / "index.db")
    await one.put([_note("a.md", "tea")])
    assert [r.path for r in await two.search("tea")] == ["a.md"]

    await asyncio.gather(
        *(one.put([_note(f"one-{n}.md", f"coffee {n}")]) for n in range(5)),
        *(two.put([_note(f"two-{n}.md", f"coffee {n}")]) for n in range(5)),
    )
    assert len(await one.search("coffee", limit=20)) == 10
    await two.rebuild([_note("c.md", "cocoa")])
    assert await one.search("coffee") == []
    assert [r.path for r in await one.search("cocoa")] == ["c.md"]
    one.close()
    two.close()


async def test_what_has_vectors_is_not_embedded_again(tmp_path: Path) -> None:
    """002-R077: a small change costs what is new, also when segments are merged."""
    embedder = _CountingEmbedder.load()
    index = await TextIndex.open(tmp_path / "index.db", embedder=embedder)
    await index.put([_note(f"{n}.md", f"weather report {n}") for n in range(3)])
    await index.embed_missing()
    embedder.embedded.clear()

    for change in range(4):
        await index.put([_note(f"new-{change}.md", f"storm {change}")])
        assert await index.embed_missing() == 1

    assert sorted(set(embedder.embedded)) == [f"storm {change}" for change in range(4)]
    assert len(await index.search("weather storm", limit=10)) == 7
    index.close()


async def test_text_is_found_before_it_is_embedded(tmp_path: Path) -> None:
    """002-R163: indexing never waits for vectors, which are added later."""
    index = await TextIndex.open(tmp_path / "index.db", embedder=StaticEmbedder.load())
    notes = [_note(f"{n}.md", f"weather report {n}") for n in range(6)]
    await index.put([*notes, _note("dog.md", "Our puppy barks at strangers")])

    assert [r.path for r in await index.search("barking")] == ["dog.md"]
    assert await index.search("dog") == []
    assert await index.embed_missing() == 1
    assert (await index.search("dog"))[0].path == "dog.md"
    assert await index.embed_missing() == 0
    index.close()


async def test_vectors_of_two_embedders_are_not_mixed(tmp_path: Path) -> None:
    """X-C16, 002-A36: another embedder is refused until the texts are embedded again."""

    class Renamed(StaticEmbedder):
        @property
        def name(self) -> str:
            return "another"

    index = await TextIndex.open(tmp_path / "index.db", embedder=StaticEmbedder.load())
    await index.put([_note("a.md", "tea")])
    await index.embed_missing()
    index.close()
    index = await TextIndex.open(tmp_path / "index.db", embedder=Renamed.load())

    with pytest.raises(Incorrect, match="embed its texts again"):
        await index.search("tea")
    assert await index.embed_missing(replace=True) == 1
    assert [r.path for r in await index.search("tea")] == ["a.md"]
    index.close()


async def test_damage_is_an_error_and_never_an_empty_result(tmp_path: Path) -> None:
    """002-R006: whoever sees nothing must be able to trust that there is nothing."""
    path = tmp_path / "index.db"
    index = await TextIndex.open(path)
    await index.put([_note("a.md", "tea"), _note("b.md", "coffee")])
    index.close()
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE segment_array SET body = x'00000001' WHERE name = 'slots'")
    connection.close()
    index = await TextIndex.open(path)

    with pytest.raises(Corrupt, match="damaged"):
        await index.search("tea")
    await index.rebuild([_note("a.md", "tea")])
    assert [r.path for r in await index.search("tea")] == ["a.md"]
    index.close()


EMBEDDER = StaticEmbedder.load()
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["put", "remove", "embed"]),
        st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4, unique=True),
        st.lists(
            st.sampled_from(["tea", "coffee", "hiking", "kitten", "noon"]), min_size=1, max_size=6
        ),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=25, deadline=None)
@given(changes=CHANGES)
def test_an_index_equals_a_rebuild(
    changes: list[tuple[str, list[str], list[str]]],
) -> None:
    """002-R006, 002-R168: however it came about, the same sources rank the same."""
    embedder = EMBEDDER

    async def compare() -> None:
        with TemporaryDirectory() as folder:
            index = await TextIndex.open(Path(folder) / "index.db", embedder=embedder)
            kept: dict[str, SearchSource] = {}
            for action, paths, text in changes:
                if action == "put":
                    sources = [
                        SearchSource.from_turns(
                            [("Ann" if place % 2 else None, word) for word in text],
                            source_id=path,
                            category="conversation",
                            day=date(2023, 5, 1 + place),
                        )
                        for place, path in enumerate(paths)
                    ]
                    kept |= {source.source_id: source for source in sources}
                    await index.put(sources)
                elif action == "remove":
                    await index.remove(paths)
                    kept = {path: kept[path] for path in kept if path not in paths}
                else:
                    await index.embed_missing()
            await index.embed_missing()
            rebuilt = await TextIndex.open(Path(folder) / "rebuilt.db", embedder=embedder)
            await rebuilt.rebuild(list(kept.values()))
            await rebuilt.embed_missing()
            for question in ("tea kitten", "What did Ann say on 2 May 2023?", "dog"):
                expected = await rebuilt.search(question)
                assert await index.search(question) == expected
            index.close()
            rebuilt.close()

    asyncio.run(compare())
