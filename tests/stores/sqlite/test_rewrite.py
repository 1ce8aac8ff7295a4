"""Removing content for good: no byte of it is left, and everything else still reads."""

import sqlite3
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ctxmgr import Incorrect, NotFound, Unavailable
from ctxmgr.core.store.contract import Put
from ctxmgr.stores.sqlite.store import SqliteStore

NOW = 1_700_000_000_000
SECRET = "sk-live-5f2d1c0b9a8e7766"
LONG = "filler " * 400 + SECRET
"""Long enough for a piece of its own."""


def document(object_id: str, **fields: Any) -> dict[str, Any]:
    return {"xt/id": object_id, "type": "note", **fields}


def leaks(folder: Path) -> list[str]:
    """Return the files of the store that contain the secret."""
    return [path.name for path in folder.iterdir() if SECRET.encode() in path.read_bytes()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


async def test_no_byte_of_a_replaced_document_is_left(path: Path) -> None:
    """Neither in the file, nor in a free page, nor in the write-ahead log."""
    async with await SqliteStore.open(path) as store:
        short = await store.commit([Put(document("a", text=SECRET))])
        long = await store.commit([Put(document("b", text=LONG))])
        await store.commit([Put(document("c", text="harmless"))])
        assert leaks(path.parent)

        done = await store.rewrite(
            {
                ("a", short.sequence): document("a", text="[purged]"),
                ("b", long.sequence): document("b", text="[purged]"),
            }
        )

        assert done.versions == 2
        assert leaks(path.parent) == []
        texts = [(await store.get(name)).document["text"] for name in "abc"]  # type: ignore[union-attr]
        assert texts == ["[purged]", "[purged]", "harmless"]
        assert (await store.verify()).faults == ()
    assert leaks(path.parent) == []


async def test_one_version_of_many_is_replaced(path: Path) -> None:
    """The versions around it keep their text, their times and their sequences."""
    # each has a time of its own: in the same millisecond, a write corrects the one before it
    async with await SqliteStore.open(path, clock=count(NOW).__next__) as store:
        commits = [
            await store.commit([Put(document("a", text=text, same="kept " * 300))])
            for text in ("one", LONG, "three")
        ]
        before = await store.history("a")

        await store.rewrite({("a", commits[1].sequence): document("a", text="[purged]", same="")})

        after = await store.history("a")
        assert [entry.document["text"] for entry in after.entries if entry.document] == [
            "one",
            "[purged]",
            "three",
        ]
        times = [(entry.sequence, entry.valid_time) for entry in before.entries]
        assert [(entry.sequence, entry.valid_time) for entry in after.entries] == times
        assert (await store.verify()).faults == ()
    assert leaks(path.parent) == []


async def test_a_piece_that_another_version_shares_stays(path: Path) -> None:
    """Content is stored once under its hash: what somebody else still has must not break."""
    async with await SqliteStore.open(path) as store:
        first = await store.commit([Put(document("a", text=LONG))])
        await store.commit([Put(document("b", text=LONG))])

        await store.rewrite({("a", first.sequence): document("a", text="[purged]")})

        kept = await store.get("b")
        assert kept is not None
        assert kept.document["text"] == LONG
        assert (await store.verify()).faults == ()


async def test_a_version_that_was_the_base_of_others_is_replaced(path: Path) -> None:
    """A growing list is stored as what was added; the later versions keep all of theirs."""
    async with await SqliteStore.open(path) as store:
        turns: list[dict[str, str]] = []
        commits = []
        for n in range(30):
            turns = [
                *turns,
                {"user": f"turn {n} " + "x" * 200, "secret": SECRET if n == 29 else ""},
            ]
            put = Put(document("chat", turns=turns, n=n), valid_from=n)
            commits.append(await store.commit([put]))
        last = commits.pop()

        await store.rewrite(
            {("chat", last.sequence): document("chat", turns=turns[:1], n=29)}
            | {("chat", commits[0].sequence): document("chat", turns=[], n=0)}
        )

        history = await store.history("chat")
        lengths = [len(entry.document["turns"]) for entry in history.entries if entry.document]
        assert lengths == [0, *range(2, 30), 1]
        assert (await store.verify()).faults == ()
        await store.commit([Put(document("chat", turns=[*turns[:29], {"user": "next"}], n=30))])
        again = await store.get("chat")
        assert again is not None
        assert len(again.document["turns"]) == 30
        assert (await store.verify()).faults == ()
    assert leaks(path.parent) == []


async def test_short_texts_in_lists_are_removed_too(path: Path) -> None:
    """They are stored in a table of names, which the ids of objects are in as well."""
    async with await SqliteStore.open(path) as store:
        words = [f"word-{n}" for n in range(100)]
        first = await store.commit([Put(document("a", words=[*words, SECRET]))])
        await store.commit([Put(document("b", words=words))])

        await store.rewrite({("a", first.sequence): document("a", words=[])})

        kept = await store.get("b")
        assert kept is not None
        assert kept.document["words"] == words
        assert (await store.verify()).faults == ()
    assert leaks(path.parent) == []


async def test_a_store_that_is_open_elsewhere_is_not_rewritten(path: Path) -> None:
    """Whoever has it open remembers pieces that would be gone."""
    async with await SqliteStore.open(path) as store, await SqliteStore.open(path) as other:
        first = await store.commit([Put(document("a", text=SECRET))])

        with pytest.raises(Unavailable, match="is open elsewhere, and nothing was removed"):
            await store.rewrite({("a", first.sequence): document("a", text="[purged]")})

        for each in (store, other):
            kept = await each.get("a")
            assert kept is not None
            assert kept.document["text"] == SECRET
        await store.commit([Put(document("b", text="writes on"))])


async def test_a_version_that_does_not_exist_changes_nothing(path: Path) -> None:
    async with await SqliteStore.open(path) as store:
        first = await store.commit([Put(document("a", text=SECRET))])

        with pytest.raises(NotFound, match="has no version of transaction 77"):
            await store.rewrite(
                {
                    ("a", first.sequence): document("a", text="[purged]"),
                    ("a", 77): document("a", text="[purged]"),
                }
            )

        kept = await store.get("a")
        assert kept is not None
        assert kept.document["text"] == SECRET
    mode = sqlite3.connect(path).execute("PRAGMA journal_mode").fetchone()
    assert mode == ("wal",)


async def test_a_store_in_memory_is_not_rewritten() -> None:
    async with await SqliteStore.open("sqlite://:memory:") as store:
        with pytest.raises(Incorrect, match="in memory"):
            await store.rewrite({})
