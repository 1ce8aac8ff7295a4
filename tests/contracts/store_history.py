"""The contract of ``history``: every version of an object, in order, with corrections."""

from typing import Any

import pytest

from ctxmgr.core.store.contract import PAGE_MAX, AsOf, Commit, Delete, HistoryEntry, Store
from ctxmgr.errors import Incorrect
from tests.contracts.namespace import FUTURE, Namespace, day, put


async def _all(store: Store, object_id: str, *, limit: int, **options: Any) -> list[HistoryEntry]:
    """Read page after page until the last."""
    entries: list[HistoryEntry] = []
    cursor: str | None = None
    while True:
        page = await store.history(object_id, limit=limit, cursor=cursor, **options)
        assert len(page.entries) <= limit
        entries.extend(page.entries)
        cursor = page.cursor
        if cursor is None:
            return entries


async def _corrected(store: Store, namespace: Namespace) -> list[Commit]:
    """Write three starts: the second is corrected twice, and the last is in the future."""
    return [
        await put(store, namespace.note(title="one"), valid_from=day(1)),
        await put(store, namespace.note(title="two"), valid_from=day(2)),
        await put(store, namespace.note(title="two, corrected"), valid_from=day(2)),
        await store.commit([Delete(namespace.id(), day(2))]),
        await put(store, namespace.note(title="planned"), valid_from=FUTURE),
    ]


def _titles(entries: list[HistoryEntry] | Any) -> list[str | None]:
    return [entry.document["title"] if entry.document else None for entry in entries]


class HistoryContract:
    async def test_history_lists_versions_in_order_of_their_start(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Every object has one ordered history, including future versions (003-R011, 003-R016)."""
        commits = await _corrected(store, namespace)

        entries = (await store.history(namespace.id())).entries

        assert [(entry.valid_time, entry.sequence) for entry in entries] == [
            (day(1), commits[0].sequence),
            (day(2), commits[3].sequence),
            (FUTURE, commits[4].sequence),
        ]
        assert [entry.deleted for entry in entries] == [False, True, False]
        assert _titles(entries) == ["one", None, "planned"]
        assert {entry.object_id for entry in entries} == {namespace.id()}

    async def test_history_has_the_system_time_of_every_version(
        self, store: Store, namespace: Namespace
    ) -> None:
        """An entry has both the valid time and the system time (003-R016)."""
        commits = await _corrected(store, namespace)

        entries = (await store.history(namespace.id(), corrections=True)).entries

        assert [entry.system_time for entry in entries] == [
            commit.system_time for commit in commits
        ]

    async def test_corrections_are_listed_on_request(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Correcting the past keeps the corrected versions (003-R010)."""
        commits = await _corrected(store, namespace)

        entries = (await store.history(namespace.id(), corrections=True)).entries

        assert [entry.sequence for entry in entries] == [commit.sequence for commit in commits]
        assert _titles(entries) == ["one", "two", "two, corrected", None, "planned"]

    @pytest.mark.parametrize("corrections", [False, True])
    async def test_newest_first_is_the_exact_reverse(
        self, store: Store, namespace: Namespace, *, corrections: bool
    ) -> None:
        """A caller that needs the last three versions need not read all (003-R011)."""
        await _corrected(store, namespace)

        forward = await store.history(namespace.id(), corrections=corrections)
        backward = await store.history(namespace.id(), corrections=corrections, newest_first=True)

        assert list(backward.entries) == list(reversed(forward.entries))

    async def test_history_without_documents_has_only_the_times(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Listing a thousand versions of a large file must not load them (003-R011)."""
        await _corrected(store, namespace)

        full = (await store.history(namespace.id(), corrections=True)).entries
        without_documents = (
            await store.history(namespace.id(), corrections=True, documents=False)
        ).entries

        assert all(version.document is None for version in without_documents)
        assert [
            (version.valid_time, version.sequence, version.deleted) for version in without_documents
        ] == [(version.valid_time, version.sequence, version.deleted) for version in full]

    async def test_history_is_bounded_by_since_and_the_valid_time_both_included(
        self, store: Store, namespace: Namespace
    ) -> None:
        """What happened to the file between two days? (003-R005)"""
        for number in range(6):
            await put(store, namespace.note(title=str(number)), valid_from=day(number))

        for newest_first in (False, True):
            page = await store.history(
                namespace.id(),
                since=day(1),
                as_of=AsOf(valid_time=day(4)),
                newest_first=newest_first,
            )
            assert sorted(map(str, _titles(page.entries))) == ["1", "2", "3", "4"]
        page = await store.history(
            namespace.id(), since=day(1) + 1, as_of=AsOf(valid_time=day(4) - 1)
        )
        assert _titles(page.entries) == ["2", "3"]

    @pytest.mark.parametrize("corrections", [False, True])
    async def test_history_as_of_a_sequence_omits_later_writes(
        self, store: Store, namespace: Namespace, *, corrections: bool
    ) -> None:
        """A later correction does not appear in an earlier history (003-R005)."""
        commits = await _corrected(store, namespace)

        page = await store.history(
            namespace.id(), as_of=AsOf(sequence=commits[2].sequence), corrections=corrections
        )

        expected = ["one", "two", "two, corrected"] if corrections else ["one", "two, corrected"]
        assert _titles(page.entries) == expected

    @pytest.mark.parametrize("corrections", [False, True])
    @pytest.mark.parametrize("newest_first", [False, True])
    @pytest.mark.parametrize("limit", [1, 2, 3, 7])
    async def test_pages_of_a_history_together_are_complete(
        self,
        store: Store,
        namespace: Namespace,
        limit: int,
        *,
        newest_first: bool,
        corrections: bool,
    ) -> None:
        """A page may end anywhere, even between corrections of one instant (003-R011)."""
        await _corrected(store, namespace)
        options: dict[str, Any] = {"newest_first": newest_first, "corrections": corrections}

        whole = await store.history(namespace.id(), **options)
        paged = await _all(store, namespace.id(), limit=limit, **options)

        assert whole.cursor is None
        assert paged == list(whole.entries)

    async def test_writes_of_one_millisecond_are_all_in_the_history(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Writes may share a clock tick, and none of them is lost (003-R010, 003-A26)."""
        commits = [await put(store, namespace.note(title=str(number))) for number in range(40)]
        last_of_millisecond = {commit.system_time: commit.sequence for commit in commits}

        with_all = await _all(store, namespace.id(), limit=7, corrections=True)
        newest = await _all(store, namespace.id(), limit=7)

        assert [version.sequence for version in with_all] == [commit.sequence for commit in commits]
        assert [version.sequence for version in newest] == list(last_of_millisecond.values())

    async def test_an_unknown_id_has_no_entries(self, store: Store, namespace: Namespace) -> None:
        """An unknown id is not an error (003-R011)."""
        page = await store.history(namespace.id("never"))

        assert len(page.entries) == 0
        assert page.cursor is None

    async def test_a_cursor_of_another_history_is_refused(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Mixed pages of two histories would look like one (003-R011)."""
        await _corrected(store, namespace)
        await put(store, namespace.note("b"))
        cursor = (await store.history(namespace.id(), limit=1)).cursor
        assert cursor is not None

        for options in ({"newest_first": True}, {"corrections": True}, {"since": day(1)}):
            with pytest.raises(Incorrect):
                await store.history(namespace.id(), cursor=cursor, **options)
        with pytest.raises(Incorrect):
            await store.history(namespace.id("b"), cursor=cursor)

    @pytest.mark.parametrize("cursor", ["", "x", "bm90IGEgY3Vyc29y", "W10=", "\u00e4"])
    async def test_an_invalid_cursor_is_refused_by_history(
        self, store: Store, namespace: Namespace, cursor: str
    ) -> None:
        """A damaged cursor must not silently restart at the first page (003-R011)."""
        with pytest.raises(Incorrect):
            await store.history(namespace.id(), cursor=cursor)

    @pytest.mark.parametrize("limit", [0, -1, PAGE_MAX + 1])
    async def test_an_invalid_limit_is_refused_by_history(
        self, store: Store, namespace: Namespace, limit: int
    ) -> None:
        """Every page is bounded, and an invalid limit is not replaced silently (003-R011)."""
        with pytest.raises(Incorrect, match="limit"):
            await store.history(namespace.id(), limit=limit)

    async def test_the_last_versions_of_many_objects_are_one_request(
        self, store: Store, namespace: Namespace
    ) -> None:
        """003-R115: a resume asks for the history of all its files at once, not of each."""
        for name in "ab":
            for number in (1, 2, 3):
                note = namespace.note(name, title=f"{name}{number}")
                await put(store, note, valid_from=day(number))
        await put(store, namespace.note("a", title="planned"), valid_from=FUTURE)
        ids = [namespace.id(name) for name in "bac"]

        histories = await store.history_many(ids, limit=2)

        assert {key: _titles(entries) for key, entries in histories.items()} == {
            namespace.id("b"): ["b3", "b2"],
            namespace.id("a"): ["a3", "a2"],
        }
        assert list(histories) == ids[:2]
        for object_id, entries in histories.items():
            page = await store.history(
                object_id, as_of=AsOf(valid_time=day(3)), newest_first=True, limit=2
            )
            assert list(entries) == list(page.entries)

    async def test_the_last_versions_of_many_objects_are_those_of_a_point(
        self, store: Store, namespace: Namespace
    ) -> None:
        """What an object was like at a time depends on nothing that was stored later (003-R005)."""
        first = await put(store, namespace.note("a", title="old"), valid_from=day(1))
        await put(store, namespace.note("a", title="new"), valid_from=day(2))
        await store.commit([Delete(namespace.id("a"), day(3))])
        ids = [namespace.id("a")]

        at_first = await store.history_many(ids, as_of=AsOf(sequence=first.sequence), limit=5)
        at_day = await store.history_many(ids, as_of=AsOf(valid_time=day(2)), limit=5)
        now = await store.history_many(ids, limit=5, without={"title"})

        assert _titles(at_first[ids[0]]) == ["old"]
        assert _titles(at_day[ids[0]]) == ["new", "old"]
        assert [entry.deleted for entry in now[ids[0]]] == [True, False, False]
        assert all("title" not in (entry.document or {}) for entry in now[ids[0]])

    async def test_a_batch_of_histories_is_checked_like_any_batch(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A wrong id is an error, not an object without a history (PG-18)."""
        assert await store.history_many([], limit=1) == {}
        with pytest.raises(Incorrect):
            await store.history_many([""], limit=1)
        with pytest.raises(Incorrect):
            await store.history_many([namespace.id()], limit=0)
