"""What history promises: every version of an object, in order, with what replaced what."""

from typing import Any

import pytest

from ctxmgr.core.store import PAGE_MAX, AsOf, Commit, Delete, HistoryEntry, Store
from ctxmgr.errors import Incorrect
from tests.contracts.corner import FUTURE, Corner, day, put


async def _all(store: Store, object_id: str, *, limit: int, **asked: Any) -> list[HistoryEntry]:
    """Read page after page until the last."""
    entries: list[HistoryEntry] = []
    cursor: str | None = None
    while True:
        page = await store.history(object_id, limit=limit, cursor=cursor, **asked)
        assert len(page.entries) <= limit
        entries.extend(page.entries)
        cursor = page.cursor
        if cursor is None:
            return entries


async def _corrected(store: Store, corner: Corner) -> list[Commit]:
    """Three starts, of which the second was said three times and the last is to come."""
    return [
        await put(store, corner.note(title="one"), valid_from=day(1)),
        await put(store, corner.note(title="two"), valid_from=day(2)),
        await put(store, corner.note(title="two, corrected"), valid_from=day(2)),
        await store.commit([Delete(corner.id(), day(2))]),
        await put(store, corner.note(title="planned"), valid_from=FUTURE),
    ]


def _told(entries: list[HistoryEntry] | Any) -> list[str | None]:
    return [each.document["title"] if each.document else None for each in entries]


class HistoryContract:
    async def test_history_lists_where_versions_start_in_order(
        self, store: Store, corner: Corner
    ) -> None:
        """One object, one ordered history, the future included (003-R011, 003-R016)."""
        commits = await _corrected(store, corner)

        entries = (await store.history(corner.id())).entries

        assert [(each.valid_time, each.sequence) for each in entries] == [
            (day(1), commits[0].sequence),
            (day(2), commits[3].sequence),
            (FUTURE, commits[4].sequence),
        ]
        assert [each.deleted for each in entries] == [False, True, False]
        assert _told(entries) == ["one", None, "planned"]
        assert {each.object_id for each in entries} == {corner.id()}

    async def test_history_says_when_each_version_was_learnt(
        self, store: Store, corner: Corner
    ) -> None:
        """When it was true and when we knew stand side by side (003-R016)."""
        commits = await _corrected(store, corner)

        entries = (await store.history(corner.id(), corrections=True)).entries

        assert [each.system_time for each in entries] == [each.system_time for each in commits]

    async def test_corrections_are_listed_when_asked_for(
        self, store: Store, corner: Corner
    ) -> None:
        """Who corrects the past leaves what was corrected (003-R010)."""
        commits = await _corrected(store, corner)

        entries = (await store.history(corner.id(), corrections=True)).entries

        assert [each.sequence for each in entries] == [each.sequence for each in commits]
        assert _told(entries) == ["one", "two", "two, corrected", None, "planned"]

    @pytest.mark.parametrize("corrections", [False, True])
    async def test_newest_first_is_exactly_the_reverse(
        self, store: Store, corner: Corner, *, corrections: bool
    ) -> None:
        """Whoever wants the last three versions need not read all (003-R011)."""
        await _corrected(store, corner)

        forward = await store.history(corner.id(), corrections=corrections)
        backward = await store.history(corner.id(), corrections=corrections, newest_first=True)

        assert list(backward.entries) == list(reversed(forward.entries))

    async def test_without_documents_only_the_times_come(
        self, store: Store, corner: Corner
    ) -> None:
        """Listing a thousand versions of a large file must not fetch them (003-R011)."""
        await _corrected(store, corner)

        full = (await store.history(corner.id(), corrections=True)).entries
        bare = (await store.history(corner.id(), corrections=True, documents=False)).entries

        assert all(each.document is None for each in bare)
        assert [(each.valid_time, each.sequence, each.deleted) for each in bare] == [
            (each.valid_time, each.sequence, each.deleted) for each in full
        ]

    async def test_history_is_bounded_by_since_and_the_valid_time_both_included(
        self, store: Store, corner: Corner
    ) -> None:
        """What happened to the file between two days? (003-R005)"""
        for number in range(6):
            await put(store, corner.note(title=str(number)), valid_from=day(number))

        for newest_first in (False, True):
            page = await store.history(
                corner.id(),
                since=day(1),
                as_of=AsOf(valid_time=day(4)),
                newest_first=newest_first,
            )
            assert sorted(map(str, _told(page.entries))) == ["1", "2", "3", "4"]
        page = await store.history(corner.id(), since=day(1) + 1, as_of=AsOf(valid_time=day(4) - 1))
        assert _told(page.entries) == ["2", "3"]

    @pytest.mark.parametrize("corrections", [False, True])
    async def test_history_as_of_a_sequence_is_what_was_known_then(
        self, store: Store, corner: Corner, *, corrections: bool
    ) -> None:
        """A later correction does not appear in an earlier history (003-R005)."""
        commits = await _corrected(store, corner)

        page = await store.history(
            corner.id(), as_of=AsOf(sequence=commits[2].sequence), corrections=corrections
        )

        expected = ["one", "two", "two, corrected"] if corrections else ["one", "two, corrected"]
        assert _told(page.entries) == expected

    @pytest.mark.parametrize("corrections", [False, True])
    @pytest.mark.parametrize("newest_first", [False, True])
    @pytest.mark.parametrize("limit", [1, 2, 3, 7])
    async def test_pages_of_a_history_together_are_the_whole(
        self, store: Store, corner: Corner, limit: int, *, newest_first: bool, corrections: bool
    ) -> None:
        """A page boundary falls anywhere, between corrections of one instant too (003-R011)."""
        await _corrected(store, corner)
        asked: dict[str, Any] = {"newest_first": newest_first, "corrections": corrections}

        whole = await store.history(corner.id(), **asked)
        paged = await _all(store, corner.id(), limit=limit, **asked)

        assert whole.cursor is None
        assert paged == list(whole.entries)

    async def test_writes_of_one_millisecond_are_all_in_the_history(
        self, store: Store, corner: Corner
    ) -> None:
        """A burst of saves shares a clock tick; none of them is lost (003-R010, 003-A26)."""
        commits = [await put(store, corner.note(title=str(number))) for number in range(40)]
        shown = {each.system_time: each.sequence for each in commits}

        with_all = await _all(store, corner.id(), limit=7, corrections=True)
        newest = await _all(store, corner.id(), limit=7)

        assert [each.sequence for each in with_all] == [each.sequence for each in commits]
        assert [each.sequence for each in newest] == list(shown.values())

    async def test_an_unknown_id_has_no_entries(self, store: Store, corner: Corner) -> None:
        """Never having met a thing is no error (003-R011)."""
        page = await store.history(corner.id("never"))

        assert len(page.entries) == 0
        assert page.cursor is None

    async def test_a_cursor_of_another_question_is_refused(
        self, store: Store, corner: Corner
    ) -> None:
        """Pages of two questions mixed would look like one true history (003-R011)."""
        await _corrected(store, corner)
        await put(store, corner.note("b"))
        cursor = (await store.history(corner.id(), limit=1)).cursor
        assert cursor is not None

        for asked in ({"newest_first": True}, {"corrections": True}, {"since": day(1)}):
            with pytest.raises(Incorrect):
                await store.history(corner.id(), cursor=cursor, **asked)
        with pytest.raises(Incorrect):
            await store.history(corner.id("b"), cursor=cursor)

    @pytest.mark.parametrize("cursor", ["", "x", "bm90IGEgY3Vyc29y", "W10=", "\u00e4"])
    async def test_what_is_no_cursor_has_no_history(
        self, store: Store, corner: Corner, cursor: str
    ) -> None:
        """A mangled cursor must not quietly start from the first page (003-R011)."""
        with pytest.raises(Incorrect):
            await store.history(corner.id(), cursor=cursor)

    @pytest.mark.parametrize("limit", [0, -1, PAGE_MAX + 1])
    async def test_a_history_of_no_size_is_refused(
        self, store: Store, corner: Corner, limit: int
    ) -> None:
        """Every page has a bound, and it is not quietly another one (003-R011)."""
        with pytest.raises(Incorrect, match="limit"):
            await store.history(corner.id(), limit=limit)
