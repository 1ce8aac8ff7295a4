"""The contract of ``rewrite``: replaced documents are gone, and everything else still reads."""

from typing import Any, Final

import pytest

from ctxmgr.core.store.contract import Delete, HistoryEntry, Match, Put, Query, Store
from ctxmgr.errors import NotFound
from tests.contracts.namespace import FUTURE, Namespace, day, last_sequence, put, title_on

SECRET: Final = "sk-live-5f2d1c0b9a8e7766"
LONG: Final = "filler " * 60_000 + SECRET
"""Longer than any store keeps in one place."""


async def _history(store: Store, object_id: str) -> list[HistoryEntry]:
    return list((await store.history(object_id, corrections=True)).entries)


def _shown(entries: list[HistoryEntry]) -> list[tuple[int, Any]]:
    return [
        (entry.valid_time, None if entry.document is None else entry.document.get("title"))
        for entry in entries
    ]


def _order(entries: list[HistoryEntry]) -> list[int]:
    """Return the place of each entry's write among the writes of the object."""
    sequences = sorted({entry.sequence for entry in entries})
    return [sequences.index(entry.sequence) for entry in entries]


class RewriteContract:
    async def test_a_replaced_version_keeps_its_place_among_the_others(
        self, store: Store, namespace: Namespace
    ) -> None:
        """003-R005: corrections, ends, deletions and versions in the future stay as they were."""
        note, name = namespace.note, namespace.id()
        await put(store, note(title="one"), valid_from=day(1))
        await put(store, note(title="two"), valid_from=day(3), valid_to=day(5))
        secret = await put(store, note(title=SECRET), valid_from=day(3))
        await put(store, note(title="four"), valid_from=day(3))
        await store.commit([Delete(name, day(7))])
        await put(store, note(title="future"), valid_from=FUTURE)
        before, days = await _history(store, name), range(9)
        titles = await title_on(store, name, *days)

        done = await store.rewrite({(name, secret.sequence): note(title="[purged]")})

        after = await _history(store, name)
        assert done.versions == 1
        expected = [(at, "[purged]" if title == SECRET else title) for at, title in _shown(before)]
        assert _shown(after) == expected
        assert (day(3), "[purged]") in expected
        assert await title_on(store, name, *days) == titles
        assert _order(after) == _order(before)

    async def test_nothing_finds_a_replaced_document(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Design D9: neither its history, nor the feed, nor a search has it any more."""
        start = await last_sequence(store)
        name = namespace.id()
        first = await put(store, namespace.note(title=SECRET, text=LONG, words=[SECRET] * 900))
        second = await put(store, namespace.note(title=SECRET, rank=1))
        purged = namespace.note(title="[purged]")

        await store.rewrite({(name, first.sequence): purged, (name, second.sequence): purged})

        found = await store.find(Query(namespace.kind.name, where={"title": SECRET}))
        masked = await store.find(Query(namespace.kind.name, where={"title": "[purged]"}))
        feed = [await store.feed(after=start), await store.feed(after=start, documents=False)]
        assert found.versions == []
        assert [version.object_id for version in masked.versions] == [name]
        assert SECRET not in repr([await _history(store, name), feed, masked])

    async def test_what_other_versions_share_with_it_stays(
        self, store: Store, namespace: Namespace
    ) -> None:
        """003-R005: large values are stored once, and others may refer to the same ones."""
        words = [f"word {n} " + "x" * 200 for n in range(400)]
        fields = {"text": LONG, "words": words}
        first = await put(store, namespace.note("a", title="a", **fields))
        await put(store, namespace.note("a", title="a2", **fields))
        await put(store, namespace.note("b", title="b", **fields))

        await store.rewrite({(namespace.id("a"), first.sequence): namespace.note("a", title="-")})

        for name in "ab":
            version = await store.get(namespace.id(name))
            assert version is not None
            assert (version.document["text"], version.document["words"]) == (LONG, words)
        await put(store, namespace.note("b", title="b", text=LONG, words=[*words, "more"]))
        grown = await store.get(namespace.id("b"))
        assert grown is not None
        assert grown.document["words"] == [*words, "more"]

    async def test_an_object_is_rewritten_again(self, store: Store, namespace: Namespace) -> None:
        """Each version is found by its own sequence afterwards, and can be matched."""
        name = namespace.id()
        for n in range(3):
            await put(store, namespace.note(title=f"{SECRET} {n}"), valid_from=day(n))
        for n in range(3):
            entry = (await _history(store, name))[n]
            await store.rewrite({(name, entry.sequence): namespace.note(title=f"purged {n}")})

        current = await store.get(name)
        assert current is not None
        await store.commit([Match(name, current.token), Put(namespace.note(title="next"), day(3))])
        titles = [title for _, title in _shown(await _history(store, name))]
        assert titles == ["purged 0", "purged 1", "purged 2", "next"]
        assert len({entry.sequence for entry in await _history(store, name)}) == 4

    async def test_a_version_that_does_not_exist_changes_nothing(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A wrong sequence must not cost any version."""
        first = await put(store, namespace.note(title=SECRET))
        purged = namespace.note(title="[purged]")

        with pytest.raises(NotFound, match="has no version of transaction"):
            await store.rewrite(
                {
                    (namespace.id(), first.sequence): purged,
                    (namespace.id(), first.sequence + 1_000): purged,
                }
            )

        assert [title for _, title in _shown(await _history(store, namespace.id()))] == [SECRET]
