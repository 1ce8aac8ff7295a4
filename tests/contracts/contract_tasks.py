"""What a store promises to many tasks at once: nothing lost, nothing halved, a clean end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ctxmgr.core.store import Match, Put, Query, Store
from ctxmgr.errors import Conflict, CtxmgrError
from tests.contracts.corner import Corner, put, title

CONTENDERS = 50
AT_ONCE = 5
"""Of them: whoever loses tries again, so the tries grow with the square of this."""
CANCELLED_AFTER_TURNS = range(0, 60, 3)
"""How often the loop goes round before a commit is cancelled: from at once to surely done."""

CALLS: dict[str, Callable[[Store, Corner], Awaitable[Any]]] = {
    "commit": lambda store, corner: store.commit([Put(corner.note())]),
    "get": lambda store, corner: store.get(corner.id()),
    "get_many": lambda store, corner: store.get_many([corner.id()]),
    "history": lambda store, corner: store.history(corner.id()),
    "find": lambda store, corner: store.find(Query(corner.kind.name)),
    "feed": lambda store, _: store.feed(),
    "status": lambda store, _: store.status(),
}


async def _increment(store: Store, corner: Corner) -> None:
    """Count one up under a guard, again and again until nobody else was first."""
    while True:
        read = await store.get(corner.id())
        rank = read.document["rank"] + 1 if read else 1
        try:
            await store.commit(
                [Match(corner.id(), read.token if read else None), Put(corner.note(rank=rank))]
            )
        except Conflict:
            continue
        return


class TasksContract:
    async def test_fifty_tasks_that_count_under_a_guard_lose_nothing(
        self, store: Store, corner: Corner
    ) -> None:
        """Two clients on one session never lose each other's changes (003-A21)."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def count() -> None:
            async with gate:
                await _increment(store, corner)

        await asyncio.gather(*(count() for _ in range(CONTENDERS)))

        version = await store.get(corner.id())
        assert version is not None
        assert version.document["rank"] == CONTENDERS
        entries = (await store.history(corner.id(), corrections=True)).entries
        ranks = [each.document["rank"] for each in entries if each.document]
        assert ranks == list(range(1, CONTENDERS + 1))

    async def test_of_many_that_create_one_id_one_succeeds(
        self, store: Store, corner: Corner
    ) -> None:
        """A source indexed by all at once is created once (003-R063)."""
        tries = [
            store.commit([Match(corner.id(), None), Put(corner.note(rank=number))])
            for number in range(20)
        ]

        outcomes = await asyncio.gather(*tries, return_exceptions=True)

        conflicts = [each for each in outcomes if isinstance(each, Conflict)]
        assert len(conflicts) == 19
        assert {each.object_ids for each in conflicts} == {(corner.id(),)}
        assert len((await store.history(corner.id(), corrections=True)).entries) == 1

    async def test_many_tasks_that_write_different_ids_all_succeed(
        self, store: Store, corner: Corner
    ) -> None:
        """Sessions side by side do not disturb each other (003-R006, 003-R122, 003-R125)."""
        names = [f"{number:03}" for number in range(200)]

        commits = await asyncio.gather(
            *(put(store, corner.note(name, title=name)) for name in names)
        )

        assert len({each.sequence for each in commits}) == 200
        found = await store.get_many([corner.id(name) for name in names])
        assert [each.document["title"] for each in found.values()] == names

    async def test_unguarded_writes_of_many_tasks_are_all_kept(
        self, store: Store, corner: Corner
    ) -> None:
        """The last wins, by sequence, and each is a version (003-R124)."""
        commits = await asyncio.gather(
            *(put(store, corner.note(title=str(number))) for number in range(60))
        )

        last = max(range(60), key=lambda number: commits[number].sequence)
        entries = (await store.history(corner.id(), corrections=True)).entries
        assert await title(store, corner.id()) == str(last)
        assert [each.sequence for each in entries] == sorted(each.sequence for each in commits)

    async def test_one_bad_transaction_does_not_harm_its_neighbours(
        self, store: Store, corner: Corner
    ) -> None:
        """Writers that share a disk flush do not share a fate (003-R006)."""
        await put(store, corner.note("taken"))
        tries = [
            store.commit([Match(corner.id("taken"), None), Put(corner.note(str(number)))])
            if number % 3 == 0
            else store.commit([Put(corner.note(str(number)))])
            for number in range(30)
        ]

        outcomes = await asyncio.gather(*tries, return_exceptions=True)

        refused = {number for number, each in enumerate(outcomes) if isinstance(each, Conflict)}
        assert refused == set(range(0, 30, 3))
        found = await store.get_many([corner.id(str(number)) for number in range(30)])
        assert len(found) == 20

    async def test_a_cancelled_commit_is_whole_or_nothing(
        self, store: Store, corner: Corner
    ) -> None:
        """Ctrl-C in the middle of a save leaves a state somebody meant (003-R112)."""
        for turns in CANCELLED_AFTER_TURNS:
            notes = [corner.note(f"{turns}{half}", content="x" * 50_000) for half in "ab"]
            task = asyncio.create_task(store.commit([Put(each) for each in notes]))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            outcome = (await asyncio.gather(task, return_exceptions=True))[0]

            found = await store.get_many([each["xt/id"] for each in notes])
            assert len(found) in (0, 2)
            if not isinstance(outcome, BaseException):
                assert len(found) == 2
        await put(store, corner.note("after", title="still works"))
        assert await title(store, corner.id("after")) == "still works"

    async def test_a_cancelled_read_harms_nobody(self, store: Store, corner: Corner) -> None:
        """A prompt that is no longer wanted must not take the store with it (003-R006)."""
        await put(store, corner.note(title="here", content="x" * 200_000))
        for turns in range(0, 24, 2):
            task = asyncio.create_task(store.get(corner.id()))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        titles = await asyncio.gather(*(title(store, corner.id()) for _ in range(10)))
        assert titles == ["here"] * 10


class ClosingContract:
    @pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
    async def test_a_closed_store_says_so(
        self, store: Store, corner: Corner, call: Callable[[Store, Corner], Awaitable[Any]]
    ) -> None:
        """Use after the end is a mistake with a name, not a driver's riddle (003-R113)."""
        await put(store, corner.note())
        await store.close()

        with pytest.raises(CtxmgrError, match="closed"):
            await call(store, corner)

    async def test_closing_twice_is_no_mistake(self, store: Store, corner: Corner) -> None:
        """Whoever cleans up need not ask first (003-R113)."""
        await put(store, corner.note())

        await store.close()
        await store.close()

    async def test_status_says_where_and_how_far(self, store: Store, corner: Corner) -> None:
        """A person sees at a glance which store this is and what it last wrote (003-R016)."""
        commit = await put(store, corner.note())

        status = await store.status()

        assert (status.sequence, status.system_time) == (commit.sequence, commit.system_time)
        assert status.url
        assert any(letter.isdigit() for letter in status.engine)
