"""What a point in time promises: any past state can be asked for, by sequence or by clock."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ctxmgr.core.store import INSTANT_MAX, AsOf, Commit, Put, Query, Store
from ctxmgr.errors import Incorrect, Unavailable
from tests.contracts.corner import Corner, day, put, title

Read = Callable[[Store, Corner, AsOf], Awaitable[Any]]

READS: dict[str, Read] = {
    "get": lambda store, corner, as_of: store.get(corner.id(), as_of=as_of),
    "get_many": lambda store, corner, as_of: store.get_many([corner.id()], as_of=as_of),
    "history": lambda store, corner, as_of: store.history(corner.id(), as_of=as_of),
    "find": lambda store, corner, as_of: store.find(Query(corner.kind.name), as_of=as_of),
}
every_read = pytest.mark.parametrize("read", READS.values(), ids=READS.keys())


class PointsContract:
    async def test_every_version_can_be_fetched_by_its_sequence(
        self, store: Store, corner: Corner
    ) -> None:
        """An old turn is reproduced from what was stored then (003-R005, 003-R011)."""
        commits = [await put(store, corner.note(title=str(number))) for number in range(12)]

        titles = [
            await title(store, corner.id(), as_of=AsOf(sequence=each.sequence)) for each in commits
        ]

        assert titles == [str(number) for number in range(12)]

    async def test_an_instant_takes_in_every_transaction_of_its_millisecond(
        self, store: Store, corner: Corner
    ) -> None:
        """Two writes may share a millisecond; the later of them counts (003-A26)."""
        commits = [await put(store, corner.note(title=str(number))) for number in range(20)]
        last_of = {each.system_time: str(number) for number, each in enumerate(commits)}

        titles = {
            instant: await title(store, corner.id(), as_of=AsOf(system_time=instant))
            for instant in last_of
        }

        assert titles == last_of

    async def test_before_the_first_write_nothing_is_known(
        self, store: Store, corner: Corner
    ) -> None:
        """An instant between transactions means the ones before it (003-R005)."""
        commit = await put(store, corner.note(title="first"), valid_from=day(1))

        before = AsOf(system_time=commit.system_time - 1, valid_time=day(2))

        assert await store.get(corner.id(), as_of=before) is None
        assert await store.get(corner.id(), as_of=AsOf(system_time=0)) is None
        assert (await store.history(corner.id(), as_of=before)).entries in ([], ())
        assert await store.get_many([corner.id()], as_of=before) == {}
        found = await store.find(Query(corner.kind.name), as_of=before)
        assert len(found.versions) == 0

    @pytest.mark.parametrize("later", [1, 60_000, None], ids=["next-ms", "minute", "year-9999"])
    @every_read
    async def test_an_instant_after_the_last_transaction_means_all_that_is_known(
        self, store: Store, corner: Corner, read: Read, later: int | None
    ) -> None:
        """Whoever asks with a clock that runs ahead is answered, not refused (003-A26)."""
        commit = await put(store, corner.note(title="last"))

        instant = INSTANT_MAX if later is None else commit.system_time + later

        assert await read(store, corner, AsOf(system_time=instant)) == await read(
            store, corner, AsOf()
        )

    async def test_a_sequence_not_reached_is_unavailable(
        self, store: Store, corner: Corner
    ) -> None:
        """A reader that is behind says so; it never answers from too little (003-A26).

        All are asked at once: a store may wait a while for what it has not reached.
        """
        commit = await put(store, corner.note())

        ahead = AsOf(sequence=commit.sequence + 1_000_000)
        answers = await asyncio.gather(
            *(read(store, corner, ahead) for read in READS.values()), return_exceptions=True
        )

        assert [type(each) for each in answers] == [Unavailable] * len(READS)

    @every_read
    @pytest.mark.parametrize(
        "as_of",
        [
            AsOf(sequence=1, system_time=1),
            AsOf(sequence=-1),
            AsOf(valid_time=-1),
            AsOf(system_time=-1),
            AsOf(valid_time=INSTANT_MAX + 1),
            AsOf(system_time=INSTANT_MAX + 1),
        ],
        ids=["both", "sequence", "valid", "system", "valid-far", "system-far"],
    )
    async def test_what_is_no_point_is_refused(
        self, store: Store, corner: Corner, read: Read, as_of: AsOf
    ) -> None:
        """Two answers to one question would be worse than none (003-A26)."""
        with pytest.raises(Incorrect):
            await read(store, corner, as_of)

    async def test_both_axes_are_asked_at_once(self, store: Store, corner: Corner) -> None:
        """What did we believe then about that day? (003-R005)"""
        commits: list[Commit] = []
        for number, start in enumerate((5, 1, 3, 1)):
            commits.append(await put(store, corner.note(title=str(number)), valid_from=day(start)))

        table = [
            [
                await title(store, corner.id(), as_of=AsOf(valid_time=day(on), sequence=known))
                for on in (0, 1, 3, 5)
            ]
            for known in (each.sequence for each in commits)
        ]

        assert table == [
            [None, None, None, "0"],
            [None, "1", "1", "0"],
            [None, "1", "2", "0"],
            [None, "3", "2", "0"],
        ]

    async def test_an_old_sequence_is_read_at_the_present_valid_time(
        self, store: Store, corner: Corner
    ) -> None:
        """Only the axis that was named is moved (003-R005)."""
        first = await put(store, corner.note(title="first"))
        await put(store, corner.note(title="second"))

        version = await store.get(corner.id(), as_of=AsOf(sequence=first.sequence))

        assert version is not None
        assert (version.document["title"], version.token) == ("first", first.token)

    async def test_a_past_point_does_not_change_when_more_is_written(
        self, store: Store, corner: Corner
    ) -> None:
        """A prompt rendered from a past point is the same for ever (003-R005, 003-R010)."""
        commit = await store.commit([Put(corner.note(name, title="1")) for name in "ab"])
        point = AsOf(sequence=commit.sequence, valid_time=commit.system_time)
        ids = [corner.id(name) for name in "abc"]
        then = await store.get_many(ids, as_of=point)

        await store.commit([Put(corner.note(name, title="2")) for name in "abc"])
        await store.commit([Put(corner.note(name, title="3"), day(1)) for name in "abc"])

        assert await store.get_many(ids, as_of=point) == then
