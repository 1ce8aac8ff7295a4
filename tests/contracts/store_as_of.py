"""The contract of ``AsOf``: any past state can be read, by sequence or by system time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ctxmgr.core.store.contract import INSTANT_MAX, AsOf, Commit, Put, Query, Store
from ctxmgr.errors import Incorrect, Unavailable
from tests.contracts.namespace import Namespace, day, put, title

Read = Callable[[Store, Namespace, AsOf], Awaitable[Any]]

READS: dict[str, Read] = {
    "get": lambda store, namespace, as_of: store.get(namespace.id(), as_of=as_of),
    "get_many": lambda store, namespace, as_of: store.get_many([namespace.id()], as_of=as_of),
    "history": lambda store, namespace, as_of: store.history(namespace.id(), as_of=as_of),
    "find": lambda store, namespace, as_of: store.find(Query(namespace.kind.name), as_of=as_of),
}
every_read = pytest.mark.parametrize("read", READS.values(), ids=READS.keys())


class AsOfContract:
    async def test_every_version_can_be_fetched_by_its_sequence(
        self, store: Store, namespace: Namespace
    ) -> None:
        """An old turn is reproduced from what was stored then (003-R005, 003-R011)."""
        commits = [await put(store, namespace.note(title=str(number))) for number in range(12)]

        titles = [
            await title(store, namespace.id(), as_of=AsOf(sequence=commit.sequence))
            for commit in commits
        ]

        assert titles == [str(number) for number in range(12)]

    async def test_an_instant_includes_every_transaction_of_its_millisecond(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Two writes may share a millisecond; the later one is visible (003-A26)."""
        commits = [await put(store, namespace.note(title=str(number))) for number in range(20)]
        last_of = {commit.system_time: str(number) for number, commit in enumerate(commits)}

        titles = {
            instant: await title(store, namespace.id(), as_of=AsOf(system_time=instant))
            for instant in last_of
        }

        assert titles == last_of

    async def test_nothing_is_visible_before_the_first_write(
        self, store: Store, namespace: Namespace
    ) -> None:
        """An instant between transactions selects the ones before it (003-R005)."""
        commit = await put(store, namespace.note(title="first"), valid_from=day(1))

        before = AsOf(system_time=commit.system_time - 1, valid_time=day(2))

        assert await store.get(namespace.id(), as_of=before) is None
        assert await store.get(namespace.id(), as_of=AsOf(system_time=0)) is None
        assert (await store.history(namespace.id(), as_of=before)).entries in ([], ())
        assert await store.get_many([namespace.id()], as_of=before) == {}
        found = await store.find(Query(namespace.kind.name), as_of=before)
        assert len(found.versions) == 0

    @pytest.mark.parametrize("later", [1, 60_000, None], ids=["next-ms", "minute", "year-9999"])
    @every_read
    async def test_an_instant_after_the_last_transaction_reads_the_latest_state(
        self, store: Store, namespace: Namespace, read: Read, later: int | None
    ) -> None:
        """A caller whose clock runs ahead gets an answer, not an error (003-A26)."""
        commit = await put(store, namespace.note(title="last"))

        instant = INSTANT_MAX if later is None else commit.system_time + later

        assert await read(store, namespace, AsOf(system_time=instant)) == await read(
            store, namespace, AsOf()
        )

    async def test_a_sequence_not_yet_reached_is_unavailable(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A lagging reader raises an error; it never answers from incomplete data (003-A26).

        All reads run concurrently because a store may wait for a sequence before it fails.
        """
        commit = await put(store, namespace.note())

        ahead = AsOf(sequence=commit.sequence + 1_000_000)
        answers = await asyncio.gather(
            *(read(store, namespace, ahead) for read in READS.values()), return_exceptions=True
        )

        assert [type(answer) for answer in answers] == [Unavailable] * len(READS)

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
    async def test_an_invalid_point_is_refused(
        self, store: Store, namespace: Namespace, read: Read, as_of: AsOf
    ) -> None:
        """A point with contradictory parts has no single meaning (003-A26)."""
        with pytest.raises(Incorrect):
            await read(store, namespace, as_of)

    async def test_both_time_axes_can_be_combined(self, store: Store, namespace: Namespace) -> None:
        """A read can select what was known at one time about another time (003-R005)."""
        commits: list[Commit] = []
        for number, start in enumerate((5, 1, 3, 1)):
            commits.append(
                await put(store, namespace.note(title=str(number)), valid_from=day(start))
            )

        table = [
            [
                await title(store, namespace.id(), as_of=AsOf(valid_time=day(on), sequence=known))
                for on in (0, 1, 3, 5)
            ]
            for known in (commit.sequence for commit in commits)
        ]

        assert table == [
            [None, None, None, "0"],
            [None, "1", "1", "0"],
            [None, "1", "2", "0"],
            [None, "3", "2", "0"],
        ]

    async def test_an_old_sequence_is_read_at_the_present_valid_time(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Only the given axis moves (003-R005)."""
        first = await put(store, namespace.note(title="first"))
        await put(store, namespace.note(title="second"))

        version = await store.get(namespace.id(), as_of=AsOf(sequence=first.sequence))

        assert version is not None
        assert (version.document["title"], version.token) == ("first", first.token)

    async def test_a_past_point_does_not_change_after_later_writes(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A prompt rendered from a past point never changes (003-R005, 003-R010)."""
        commit = await store.commit([Put(namespace.note(name, title="1")) for name in "ab"])
        point = AsOf(sequence=commit.sequence, valid_time=commit.system_time)
        ids = [namespace.id(name) for name in "abc"]
        then = await store.get_many(ids, as_of=point)

        await store.commit([Put(namespace.note(name, title="2")) for name in "abc"])
        await store.commit([Put(namespace.note(name, title="3"), day(1)) for name in "abc"])

        assert await store.get_many(ids, as_of=point) == then
