"""The contract of concurrent tasks: no lost update, no partial transaction, a clean close."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ctxmgr.core.store.contract import Match, Put, Query, Store
from ctxmgr.errors import Conflict, CtxmgrError
from tests.contracts.namespace import Namespace, put, title

CONTENDERS = 50
AT_ONCE = 5
"""How many of them run at once; losers retry, so attempts grow with the square of this."""
CANCELLED_AFTER_TURNS = range(0, 60, 3)
"""Loop iterations before a commit is cancelled: from immediately to certainly finished."""

CALLS: dict[str, Callable[[Store, Namespace], Awaitable[Any]]] = {
    "commit": lambda store, namespace: store.commit([Put(namespace.note())]),
    "get": lambda store, namespace: store.get(namespace.id()),
    "get_many": lambda store, namespace: store.get_many([namespace.id()]),
    "history": lambda store, namespace: store.history(namespace.id()),
    "find": lambda store, namespace: store.find(Query(namespace.kind.name)),
    "feed": lambda store, _: store.feed(),
    "status": lambda store, _: store.status(),
}


async def _increment(store: Store, namespace: Namespace) -> None:
    """Increment a counter under a match; retry until no other writer came first."""
    while True:
        read = await store.get(namespace.id())
        rank = read.document["rank"] + 1 if read else 1
        try:
            await store.commit(
                [
                    Match(namespace.id(), read.token if read else None),
                    Put(namespace.note(rank=rank)),
                ]
            )
        except Conflict:
            continue
        return


class ConcurrencyContract:
    async def test_fifty_tasks_that_increment_under_a_match_lose_no_update(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Two clients on one session never lose each other's changes (003-A21)."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def count() -> None:
            async with gate:
                await _increment(store, namespace)

        await asyncio.gather(*(count() for _ in range(CONTENDERS)))

        version = await store.get(namespace.id())
        assert version is not None
        assert version.document["rank"] == CONTENDERS
        entries = (await store.history(namespace.id(), corrections=True)).entries
        ranks = [entry.document["rank"] for entry in entries if entry.document]
        assert ranks == list(range(1, CONTENDERS + 1))

    async def test_only_one_of_many_concurrent_creations_of_an_id_succeeds(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A source that many tasks index at the same time is created once (003-R063)."""
        tries = [
            store.commit([Match(namespace.id(), None), Put(namespace.note(rank=number))])
            for number in range(20)
        ]

        outcomes = await asyncio.gather(*tries, return_exceptions=True)

        conflicts = [outcome for outcome in outcomes if isinstance(outcome, Conflict)]
        assert len(conflicts) == 19
        assert {conflict.object_ids for conflict in conflicts} == {(namespace.id(),)}
        assert len((await store.history(namespace.id(), corrections=True)).entries) == 1

    async def test_many_tasks_that_write_different_ids_all_succeed(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Parallel sessions do not disturb each other (003-R006, 003-R122, 003-R125)."""
        names = [f"{number:03}" for number in range(200)]

        commits = await asyncio.gather(
            *(put(store, namespace.note(name, title=name)) for name in names)
        )

        assert len({commit.sequence for commit in commits}) == 200
        versions = await store.get_many([namespace.id(name) for name in names])
        assert [version.document["title"] for version in versions.values()] == names

    async def test_writes_without_a_match_by_many_tasks_are_all_kept(
        self, store: Store, namespace: Namespace
    ) -> None:
        """The highest sequence wins, and every write is a version (003-R124)."""
        commits = await asyncio.gather(
            *(put(store, namespace.note(title=str(number))) for number in range(60))
        )

        last = max(range(60), key=lambda number: commits[number].sequence)
        entries = (await store.history(namespace.id(), corrections=True)).entries
        assert await title(store, namespace.id()) == str(last)
        assert [entry.sequence for entry in entries] == sorted(
            commit.sequence for commit in commits
        )

    async def test_an_invalid_transaction_does_not_affect_concurrent_ones(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Transactions that share a disk flush fail or succeed independently (003-R006)."""
        await put(store, namespace.note("taken"))
        tries = [
            store.commit([Match(namespace.id("taken"), None), Put(namespace.note(str(number)))])
            if number % 3 == 0
            else store.commit([Put(namespace.note(str(number)))])
            for number in range(30)
        ]

        outcomes = await asyncio.gather(*tries, return_exceptions=True)

        refused = {
            number for number, outcome in enumerate(outcomes) if isinstance(outcome, Conflict)
        }
        assert refused == set(range(0, 30, 3))
        versions = await store.get_many([namespace.id(str(number)) for number in range(30)])
        assert len(versions) == 20

    async def test_a_cancelled_commit_is_atomic(self, store: Store, namespace: Namespace) -> None:
        """Ctrl-C during a save leaves all of the transaction or nothing (003-R112)."""
        for turns in CANCELLED_AFTER_TURNS:
            notes = [namespace.note(f"{turns}{half}", content="x" * 50_000) for half in "ab"]
            task = asyncio.create_task(store.commit([Put(note) for note in notes]))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            outcome = (await asyncio.gather(task, return_exceptions=True))[0]

            versions = await store.get_many([note["xt/id"] for note in notes])
            assert len(versions) in (0, 2)
            if not isinstance(outcome, BaseException):
                assert len(versions) == 2
        await put(store, namespace.note("after", title="still works"))
        assert await title(store, namespace.id("after")) == "still works"

    async def test_a_cancelled_read_leaves_the_store_usable(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Cancelling one read must not break the store for others (003-R006)."""
        await put(store, namespace.note(title="here", content="x" * 200_000))
        for turns in range(0, 24, 2):
            task = asyncio.create_task(store.get(namespace.id()))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        titles = await asyncio.gather(*(title(store, namespace.id()) for _ in range(10)))
        assert titles == ["here"] * 10


class ClosingContract:
    @pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
    async def test_a_closed_store_raises_unavailable(
        self, store: Store, namespace: Namespace, call: Callable[[Store, Namespace], Awaitable[Any]]
    ) -> None:
        """Use after close raises a clear error, not one of the driver's (003-R113)."""
        await put(store, namespace.note())
        await store.close()

        with pytest.raises(CtxmgrError, match="closed"):
            await call(store, namespace)

    async def test_closing_twice_is_not_an_error(self, store: Store, namespace: Namespace) -> None:
        """Cleanup code need not check first (003-R113)."""
        await put(store, namespace.note())

        await store.close()
        await store.close()

    async def test_status_reports_the_location_and_the_last_sequence(
        self, store: Store, namespace: Namespace
    ) -> None:
        """The user sees which store this is and how far it has been written (003-R016)."""
        commit = await put(store, namespace.note())

        status = await store.status()

        assert (status.sequence, status.system_time) == (commit.sequence, commit.system_time)
        assert status.url
        assert any(letter.isdigit() for letter in status.engine)
