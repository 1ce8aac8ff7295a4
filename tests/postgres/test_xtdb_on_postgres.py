"""Several machines on one database: XTDB nodes that share a log and documents in PostgreSQL.

Each node indexes the log for itself, up to 100 ms behind, so what one acknowledged is on the other
only once it is asked for by its sequence. Nothing is guessed: whoever hands work over hands the
sequence over with it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ctxmgr.core.store.contract import AsOf, Commit, Match, Put, Query, Store
from ctxmgr.errors import Conflict, Unavailable
from ctxmgr.stores.xtdb.store import XtdbStore
from tests.contracts.namespace import Namespace, put, title
from tests.contracts.store_contract import SharedStoreContract, StoreContract
from tests.postgres.nodes import Nodes
from tests.xtdb.servers import XtdbServer

pytestmark = [pytest.mark.xtdb, pytest.mark.postgres]


async def _rank_in_batch(store: Store, namespace: Namespace, point: AsOf) -> Any:
    return (await store.get_many([namespace.id()], as_of=point))[namespace.id()].document["rank"]


async def _rank_in_history(store: Store, namespace: Namespace, point: AsOf) -> Any:
    newest = (await store.history(namespace.id(), as_of=point)).entries[-1]
    return newest.document and newest.document["rank"]


async def _rank_found(store: Store, namespace: Namespace, point: AsOf) -> Any:
    found = await store.find(Query(namespace.kind.name, {"rank": 8}), as_of=point)
    return found.versions[0].document["rank"]


READS: dict[str, Callable[[Store, Namespace, AsOf], Awaitable[Any]]] = {
    "get_many": _rank_in_batch,
    "history": _rank_in_history,
    "find": _rank_found,
}
"""The newest rank that each kind of read sees. Each is the first to ask that node for its point."""


@pytest.fixture
def namespace() -> Namespace:
    return Namespace()


@pytest.fixture
async def here(nodes: Nodes, namespace: Namespace) -> AsyncIterator[Store]:
    async with opened(nodes.one.url, namespace) as store:
        yield store


@pytest.fixture
async def there(nodes: Nodes, namespace: Namespace) -> AsyncIterator[Store]:
    async with opened(nodes.other.url, namespace) as store:
        yield store


@pytest.fixture
async def either(nodes: Nodes, namespace: Namespace) -> AsyncIterator[Store]:
    """A handle that knows both nodes and uses the first while it lives."""
    async with opened(nodes.both, namespace) as store:
        yield store


@asynccontextmanager
async def opened(url: str, namespace: Namespace) -> AsyncIterator[Store]:
    address = url if url.startswith("xtdb+") else f"xtdb+{url}"
    async with await XtdbStore.open(address, kinds=namespace.kinds) as store:
        yield store


async def test_what_is_written_on_one_node_is_read_on_the_other(
    here: Store, there: Store, namespace: Namespace
) -> None:
    """Work handed over with its sequence is never missing there (003-R006, 003-R113)."""
    for number in range(5):
        commit = await put(here, namespace.note(title=str(number)))

        point = AsOf(sequence=commit.sequence)
        assert await title(there, namespace.id(), as_of=point) == str(number)


@pytest.mark.parametrize("call", READS)
async def test_every_kind_of_read_waits_for_the_sequence_it_names(
    here: Store, there: Store, namespace: Namespace, call: str
) -> None:
    """A resumed session reads objects, their history and what it finds (003-R113, 003-R010)."""
    await put(here, namespace.note(rank=7))
    commit = await put(here, namespace.note(rank=8))

    assert await READS[call](there, namespace, AsOf(sequence=commit.sequence)) == 8


async def test_a_node_sees_its_own_writes_after_those_of_the_other(
    here: Store, there: Store, namespace: Namespace
) -> None:
    """One log, so one order: the later write wins wherever it was made (003-R124)."""
    await put(here, namespace.note(title="first"))
    later = await put(there, namespace.note(title="second"))

    assert await title(there, namespace.id()) == "second"
    assert await title(here, namespace.id(), as_of=AsOf(sequence=later.sequence)) == "second"


async def test_a_guard_holds_across_nodes(here: Store, there: Store, namespace: Namespace) -> None:
    """Whoever wrote first is known to both, however far a node is behind (003-A21)."""
    first = await put(here, namespace.note(title="first"))
    await there.commit([Match(namespace.id(), first.token), Put(namespace.note(title="second"))])

    with pytest.raises(Conflict) as conflict:
        await here.commit([Match(namespace.id(), first.token), Put(namespace.note(title="lost"))])

    assert conflict.value.object_ids == (namespace.id(),)
    assert await title(here, namespace.id()) == "second"


async def test_a_key_is_written_once_whichever_node_is_asked(
    here: Store, there: Store, namespace: Namespace
) -> None:
    """A retry goes to whoever is alive, which need not be who was asked before (003-R113)."""
    operations = [Put(namespace.note(title="once"))]
    first = await here.commit(operations, key=namespace.id("key"))

    second = await there.commit(operations, key=namespace.id("key"))

    assert second.repeated
    assert (second.sequence, second.token) == (first.sequence, first.token)


async def test_clients_of_both_nodes_count_under_a_guard_and_lose_nothing(
    here: Store, there: Store, namespace: Namespace
) -> None:
    """Two machines that race are as safe as two tasks (003-A21)."""
    await asyncio.gather(count(here, namespace, 5), count(there, namespace, 5))

    last = await put(here, namespace.note("end"))
    version = await there.get(namespace.id(), as_of=AsOf(sequence=last.sequence))
    assert version is not None
    assert version.document["rank"] == 10


async def test_reads_and_commits_go_on_when_a_node_dies(
    mortal: XtdbServer, either: Store, namespace: Namespace
) -> None:
    """One machine of several may fail without anyone stopping work (003-R006)."""
    before = await put(either, namespace.note(title="before"))

    mortal.kill()

    assert await title(either, namespace.id()) == "before"
    after = await either.commit(
        [Match(namespace.id(), before.token), Put(namespace.note(title="after"))]
    )
    assert after.sequence > before.sequence
    assert await title(either, namespace.id()) == "after"


async def test_commits_in_flight_when_a_node_dies_are_written_once_or_reported(
    mortal: XtdbServer, either: Store, there: Store, namespace: Namespace
) -> None:
    """What was acknowledged is there; a retry with the same key never doubles it (003-R113)."""
    keys = [namespace.id(f"key-{number}") for number in range(30)]
    tasks = [asyncio.create_task(keyed(either, namespace, key)) for key in keys]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)

    mortal.kill()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    retried = [await keyed(either, namespace, key) for key in keys]

    for outcome, commit in zip(outcomes, retried, strict=True):
        assert isinstance(outcome, Commit | Unavailable)
        assert isinstance(outcome, Unavailable) or outcome.sequence == commit.sequence
    for key, commit in zip(keys, retried, strict=True):
        history = await there.history(f"{key}:note", as_of=AsOf(sequence=commit.sequence))
        assert len(history.entries) == 1


async def test_a_node_that_comes_back_catches_up(
    mortal: XtdbServer, nodes: Nodes, there: Store, namespace: Namespace
) -> None:
    """Its index lasts, and the log has the rest (003-R010)."""
    mortal.kill()
    missed = await put(there, namespace.note(title="missed"))
    mortal.restart()

    async with opened(nodes.one.url, namespace) as back:
        assert await title(back, namespace.id(), as_of=AsOf(sequence=missed.sequence)) == "missed"


class TestXtdbOnPostgres(StoreContract, SharedStoreContract):
    """The promises to one client and to two of one node do not depend on where the log is."""

    # A node looks for new transactions every 100 ms, so a race of fifty takes minutes; the race
    # between two nodes above stands for it.
    test_fifty_tasks_that_increment_under_a_match_lose_no_update = None

    @pytest.fixture
    def store(self, here: Store) -> Store:
        return here

    @pytest.fixture
    async def another_store(self, nodes: Nodes, namespace: Namespace) -> AsyncIterator[Store]:
        async with opened(nodes.one.url, namespace) as store:
            yield store


async def keyed(store: Store, namespace: Namespace, key: str) -> Commit:
    """Put a document that is this key's own, under the key."""
    document = {**namespace.note(title="kept"), "xt/id": f"{key}:note"}
    return await store.commit([Put(document)], key=key)


async def count(store: Store, namespace: Namespace, times: int) -> None:
    """Add one, so many times, trying again whenever someone else was first."""
    while times:
        read = await store.get(namespace.id())
        rank = read.document["rank"] + 1 if read else 1
        guard = Match(namespace.id(), read.token if read else None)
        try:
            await store.commit([guard, Put(namespace.note(rank=rank))])
            times -= 1
        except Conflict:
            continue
