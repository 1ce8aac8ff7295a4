"""The contract of valid time, which is independent of when a version was stored."""

from ctxmgr.core.store.contract import AsOf, Delete, Put, Store
from tests.contracts.namespace import FUTURE, Namespace, day, put, title, title_on


async def _starts(store: Store, namespace: Namespace) -> list[tuple[int, str | None]]:
    """The start and title of every version; the title is None for a deletion."""
    entries = (await store.history(namespace.id())).entries
    return [
        (entry.valid_time, entry.document["title"] if entry.document else None) for entry in entries
    ]


class ValidTimeContract:
    async def test_the_default_valid_time_is_the_system_time(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A client's wrong clock never hides a newer version behind an older one (003-A34)."""
        commit = await put(store, namespace.note(title="now"))

        version = await store.get(namespace.id())

        assert version is not None
        assert version.valid_time == commit.system_time
        just_before = AsOf(valid_time=commit.system_time - 1)
        assert await store.get(namespace.id(), as_of=just_before) is None

    async def test_a_backdated_version_is_valid_until_the_next_one(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A read can ask for the content of a file on a past day (003-A34, 003-R005)."""
        await put(store, namespace.note(title="late"), valid_from=day(10))

        await put(store, namespace.note(title="early"), valid_from=day(5))

        assert await title_on(store, namespace.id(), 4, 5, 9, 10, 11) == [
            None,
            "early",
            "early",
            "late",
            "late",
        ]
        assert await title(store, namespace.id()) == "late"

    async def test_a_version_starts_on_its_millisecond_and_ends_before_the_next(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Stores could easily differ at the boundaries (003-A26)."""
        await put(store, namespace.note(title="bounded"), valid_from=day(1), valid_to=day(2))

        points = [day(1) - 1, day(1), day(2) - 1, day(2)]
        titles = [await title(store, namespace.id(), as_of=AsOf(valid_time=at)) for at in points]

        assert titles == [None, "bounded", "bounded", None]

    async def test_a_future_version_is_hidden_until_its_time(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A planned version must not be visible yet (003-A34)."""
        await put(store, namespace.note(title="now"))
        await put(store, namespace.note(title="planned"), valid_from=FUTURE)

        assert await title(store, namespace.id()) == "now"
        assert await title(store, namespace.id(), as_of=AsOf(valid_time=FUTURE)) == "planned"
        assert await title(store, namespace.id(), as_of=AsOf(valid_time=FUTURE - 1)) == "now"

    async def test_after_a_bounded_version_the_previous_one_is_visible_again(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Correcting one week leaves the weeks after it unchanged (003-A34)."""
        base = await put(store, namespace.note(title="base"), valid_from=day(1))

        await put(store, namespace.note(title="week"), valid_from=day(3), valid_to=day(5))

        assert await title_on(store, namespace.id(), 2, 3, 4, 5, 9) == [
            "base",
            "week",
            "week",
            "base",
            "base",
        ]
        restored = (await store.history(namespace.id())).entries[-1]
        assert (restored.valid_time, restored.sequence) == (day(5), base.sequence)

    async def test_a_bounded_version_replaces_all_that_started_within(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Between its bounds only the correction is valid (003-A34)."""
        for number in (1, 3, 5, 7):
            await put(store, namespace.note(title=str(number)), valid_from=day(number))

        await put(store, namespace.note(title="x"), valid_from=day(2), valid_to=day(6))

        assert await title_on(store, namespace.id(), 1, 2, 3, 5, 6, 7) == [
            "1",
            "x",
            "x",
            "x",
            "5",
            "7",
        ]
        assert await _starts(store, namespace) == [
            (day(1), "1"),
            (day(2), "x"),
            (day(3), "x"),
            (day(5), "x"),
            (day(6), "5"),
            (day(7), "7"),
        ]

    async def test_a_bounded_deletion_is_a_gap(self, store: Store, namespace: Namespace) -> None:
        """A file can be absent for a day and exist again afterwards (003-R010)."""
        await put(store, namespace.note(title="here"), valid_from=day(1))

        await store.commit([Delete(namespace.id(), day(3), day(4))])

        assert await title_on(store, namespace.id(), 2, 3, 4) == ["here", None, "here"]
        assert await _starts(store, namespace) == [
            (day(1), "here"),
            (day(3), None),
            (day(4), "here"),
        ]

    async def test_a_bounded_version_of_a_new_object_has_nothing_around_it(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Before and after it the object does not exist (003-A34)."""
        commit = await put(store, namespace.note(title="x"), valid_from=day(1), valid_to=day(2))

        entries = (await store.history(namespace.id())).entries

        assert [(entry.valid_time, entry.sequence, entry.deleted) for entry in entries] == [
            (day(1), commit.sequence, False),
            (day(2), commit.sequence, True),
        ]

    async def test_a_deletion_in_the_past_lasts_until_the_next_version(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A file was absent between two versions, and this was learned later (003-R010)."""
        await put(store, namespace.note(title="first"), valid_from=day(1))
        await put(store, namespace.note(title="second"), valid_from=day(5))

        await store.commit([Delete(namespace.id(), day(3))])

        assert await title_on(store, namespace.id(), 2, 3, 4, 5) == ["first", None, None, "second"]

    async def test_a_new_version_replaces_the_rest_of_the_version_it_interrupts(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A bounded version that crosses a boundary is one version, and is replaced as one."""
        await put(store, namespace.note(title="old"), valid_from=day(4))
        await put(store, namespace.note(title="week"), valid_from=day(1), valid_to=day(8))

        await put(store, namespace.note(title="new"), valid_from=day(2))

        assert await title_on(store, namespace.id(), 1, 2, 4, 7, 8) == [
            "week",
            "new",
            "new",
            "new",
            "old",
        ]

    async def test_correcting_the_past_keeps_the_earlier_state_readable(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A backdated write does not change what was known before (003-R005, 003-R010)."""
        believed = await put(store, namespace.note(title="8080"), valid_from=day(1))
        await put(store, namespace.note(title="9090"), valid_from=day(1))

        now = AsOf(valid_time=day(1))
        then = AsOf(valid_time=day(1), sequence=believed.sequence)

        assert await title(store, namespace.id(), as_of=now) == "9090"
        assert await title(store, namespace.id(), as_of=then) == "8080"

    async def test_undoing_a_deletion_is_a_correction(
        self, store: Store, namespace: Namespace
    ) -> None:
        """An object deleted and restored at one instant keeps both writes (003-R010)."""
        written = await put(store, namespace.note(title="here"), valid_from=day(1))
        deleted = await store.commit([Delete(namespace.id(), day(3))])
        await store.commit([Put(namespace.note(title="here"), day(3))])

        assert await title_on(store, namespace.id(), 2, 3) == ["here", "here"]
        point = AsOf(valid_time=day(3), sequence=deleted.sequence)
        assert await store.get(namespace.id(), as_of=point) is None
        point = AsOf(valid_time=day(3), sequence=written.sequence)
        assert await title(store, namespace.id(), as_of=point) == "here"

    async def test_a_version_has_its_valid_time_start(
        self, store: Store, namespace: Namespace
    ) -> None:
        """The next version of a file must start strictly after it (003-A34)."""
        await put(store, namespace.note(title="a"), valid_from=day(2))

        version = await store.get(namespace.id(), as_of=AsOf(valid_time=day(9)))

        assert version is not None
        assert version.valid_time == day(2)

    async def test_the_first_and_the_last_instant_can_be_written(
        self, store: Store, namespace: Namespace
    ) -> None:
        """The axis runs from 1970 to 9999, ends included (003-A26)."""
        last = 253_402_300_799_999
        await put(store, namespace.note(title="first"), valid_from=0)
        await put(store, namespace.note(title="last"), valid_from=last)

        assert await title(store, namespace.id(), as_of=AsOf(valid_time=0)) == "first"
        assert await title(store, namespace.id(), as_of=AsOf(valid_time=last)) == "last"
        assert [start for start, _ in await _starts(store, namespace)] == [0, last]
