"""What valid time promises: when a thing was true is another question than when we learnt it."""

from ctxmgr.core.store import AsOf, Delete, Put, Store
from tests.contracts.corner import FUTURE, Corner, day, put, title, title_on


async def _starts(store: Store, corner: Corner) -> list[tuple[int, str | None]]:
    """Where each version starts, and what it is called; None: deleted."""
    entries = (await store.history(corner.id())).entries
    return [
        (each.valid_time, each.document["title"] if each.document else None) for each in entries
    ]


class ValidTimeContract:
    async def test_without_a_valid_time_it_is_the_moment_of_the_transaction(
        self, store: Store, corner: Corner
    ) -> None:
        """A client's wrong clock never hides a newer version behind an older one (003-A34)."""
        commit = await put(store, corner.note(title="now"))

        version = await store.get(corner.id())

        assert version is not None
        assert version.valid_time == commit.system_time
        just_before = AsOf(valid_time=commit.system_time - 1)
        assert await store.get(corner.id(), as_of=just_before) is None

    async def test_a_backdated_version_is_true_from_its_time_until_the_next(
        self, store: Store, corner: Corner
    ) -> None:
        """What did the file say on that day? (003-A34, 003-R005)"""
        await put(store, corner.note(title="late"), valid_from=day(10))

        await put(store, corner.note(title="early"), valid_from=day(5))

        assert await title_on(store, corner.id(), 4, 5, 9, 10, 11) == [
            None,
            "early",
            "early",
            "late",
            "late",
        ]
        assert await title(store, corner.id()) == "late"

    async def test_a_version_starts_on_its_millisecond_and_ends_before_the_next(
        self, store: Store, corner: Corner
    ) -> None:
        """Boundaries are where stores differ when nobody looks (003-A26)."""
        await put(store, corner.note(title="bounded"), valid_from=day(1), valid_to=day(2))

        points = [day(1) - 1, day(1), day(2) - 1, day(2)]
        titles = [await title(store, corner.id(), as_of=AsOf(valid_time=at)) for at in points]

        assert titles == [None, "bounded", "bounded", None]

    async def test_a_future_version_waits_for_its_time(self, store: Store, corner: Corner) -> None:
        """What is planned must not be taken for what is (003-A34)."""
        await put(store, corner.note(title="now"))
        await put(store, corner.note(title="planned"), valid_from=FUTURE)

        assert await title(store, corner.id()) == "now"
        assert await title(store, corner.id(), as_of=AsOf(valid_time=FUTURE)) == "planned"
        assert await title(store, corner.id(), as_of=AsOf(valid_time=FUTURE - 1)) == "now"

    async def test_after_a_bounded_version_the_former_one_holds_again(
        self, store: Store, corner: Corner
    ) -> None:
        """A correction of one week leaves the weeks after it as they were (003-A34)."""
        base = await put(store, corner.note(title="base"), valid_from=day(1))

        await put(store, corner.note(title="week"), valid_from=day(3), valid_to=day(5))

        assert await title_on(store, corner.id(), 2, 3, 4, 5, 9) == [
            "base",
            "week",
            "week",
            "base",
            "base",
        ]
        restored = (await store.history(corner.id())).entries[-1]
        assert (restored.valid_time, restored.sequence) == (day(5), base.sequence)

    async def test_a_bounded_version_replaces_all_that_started_within(
        self, store: Store, corner: Corner
    ) -> None:
        """Between its bounds a correction is the only truth (003-A34)."""
        for number in (1, 3, 5, 7):
            await put(store, corner.note(title=str(number)), valid_from=day(number))

        await put(store, corner.note(title="x"), valid_from=day(2), valid_to=day(6))

        assert await title_on(store, corner.id(), 1, 2, 3, 5, 6, 7) == [
            "1",
            "x",
            "x",
            "x",
            "5",
            "7",
        ]
        assert await _starts(store, corner) == [
            (day(1), "1"),
            (day(2), "x"),
            (day(3), "x"),
            (day(5), "x"),
            (day(6), "5"),
            (day(7), "7"),
        ]

    async def test_a_bounded_deletion_is_a_gap(self, store: Store, corner: Corner) -> None:
        """A file that was away for a day was away, and came back (003-R010)."""
        await put(store, corner.note(title="here"), valid_from=day(1))

        await store.commit([Delete(corner.id(), day(3), day(4))])

        assert await title_on(store, corner.id(), 2, 3, 4) == ["here", None, "here"]
        assert await _starts(store, corner) == [
            (day(1), "here"),
            (day(3), None),
            (day(4), "here"),
        ]

    async def test_a_bounded_version_of_nothing_ends_in_nothing(
        self, store: Store, corner: Corner
    ) -> None:
        """Before and after it the object does not exist (003-A34)."""
        commit = await put(store, corner.note(title="x"), valid_from=day(1), valid_to=day(2))

        entries = (await store.history(corner.id())).entries

        assert [(each.valid_time, each.sequence, each.deleted) for each in entries] == [
            (day(1), commit.sequence, False),
            (day(2), commit.sequence, True),
        ]

    async def test_a_deletion_in_the_past_lasts_until_the_next_version(
        self, store: Store, corner: Corner
    ) -> None:
        """The file was gone between two versions, and we learnt it later (003-R010)."""
        await put(store, corner.note(title="first"), valid_from=day(1))
        await put(store, corner.note(title="second"), valid_from=day(5))

        await store.commit([Delete(corner.id(), day(3))])

        assert await title_on(store, corner.id(), 2, 3, 4, 5) == ["first", None, None, "second"]

    async def test_a_new_version_takes_the_rest_of_the_one_it_interrupts(
        self, store: Store, corner: Corner
    ) -> None:
        """A bounded version that crossed a boundary is one version, and is overtaken as one."""
        await put(store, corner.note(title="old"), valid_from=day(4))
        await put(store, corner.note(title="week"), valid_from=day(1), valid_to=day(8))

        await put(store, corner.note(title="new"), valid_from=day(2))

        assert await title_on(store, corner.id(), 1, 2, 4, 7, 8) == [
            "week",
            "new",
            "new",
            "new",
            "old",
        ]

    async def test_correcting_the_past_keeps_what_we_believed_then(
        self, store: Store, corner: Corner
    ) -> None:
        """A backdated write changes what was true, not what we knew (003-R005, 003-R010)."""
        believed = await put(store, corner.note(title="8080"), valid_from=day(1))
        await put(store, corner.note(title="9090"), valid_from=day(1))

        now = AsOf(valid_time=day(1))
        then = AsOf(valid_time=day(1), sequence=believed.sequence)

        assert await title(store, corner.id(), as_of=now) == "9090"
        assert await title(store, corner.id(), as_of=then) == "8080"

    async def test_a_deletion_taken_back_is_a_correction(
        self, store: Store, corner: Corner
    ) -> None:
        """Deleted by mistake, restored at the same instant: both acts are kept (003-R010)."""
        written = await put(store, corner.note(title="here"), valid_from=day(1))
        deleted = await store.commit([Delete(corner.id(), day(3))])
        await store.commit([Put(corner.note(title="here"), day(3))])

        assert await title_on(store, corner.id(), 2, 3) == ["here", "here"]
        point = AsOf(valid_time=day(3), sequence=deleted.sequence)
        assert await store.get(corner.id(), as_of=point) is None
        point = AsOf(valid_time=day(3), sequence=written.sequence)
        assert await title(store, corner.id(), as_of=point) == "here"

    async def test_a_version_says_where_it_starts(self, store: Store, corner: Corner) -> None:
        """The next version of a file must start strictly after it (003-A34)."""
        await put(store, corner.note(title="a"), valid_from=day(2))

        version = await store.get(corner.id(), as_of=AsOf(valid_time=day(9)))

        assert version is not None
        assert version.valid_time == day(2)

    async def test_the_first_and_the_last_instant_can_be_written(
        self, store: Store, corner: Corner
    ) -> None:
        """The axis runs from 1970 to 9999, ends included (003-A26)."""
        last = 253_402_300_799_999
        await put(store, corner.note(title="first"), valid_from=0)
        await put(store, corner.note(title="last"), valid_from=last)

        assert await title(store, corner.id(), as_of=AsOf(valid_time=0)) == "first"
        assert await title(store, corner.id(), as_of=AsOf(valid_time=last)) == "last"
        assert [start for start, _ in await _starts(store, corner)] == [0, last]
