"""XTDB is killed between transactions and restarted on the same files."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ctxmgr.core.store.contract import Commit, Put, Transaction
from ctxmgr.errors import OutcomeUnknown, Unavailable
from ctxmgr.stores.xtdb.store import XtdbStore
from tests.xtdb.servers import XtdbServer, require_xtdb

pytestmark = pytest.mark.xtdb

CRASHES = 2
WRITERS = 4
COMMITS_BETWEEN = 25
"""Acknowledgements before each crash, so that it interrupts transactions in flight."""


@dataclass
class Run:
    """The results that the writers received, by key."""

    acknowledged: dict[str, Commit] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    alive: asyncio.Event = field(default_factory=asyncio.Event)
    enough: asyncio.Event = field(default_factory=asyncio.Event)
    wanted: int = COMMITS_BETWEEN

    def acknowledge(self, key: str, commit: Commit) -> None:
        self.acknowledged[key] = commit
        if len(self.acknowledged) >= self.wanted:
            self.enough.set()


async def test_a_killed_server_neither_loses_nor_repeats_a_transaction(
    tmp_path: Path,
) -> None:
    """What was acknowledged is stored once; other outcomes are found by key (003-R198)."""
    require_xtdb()
    server = XtdbServer()
    try:
        await asyncio.to_thread(server.start, config="rocksdb", data_dir=tmp_path)
        async with await XtdbStore.open(f"xtdb+{server.url}") as store:
            run = await crash_while_writing(server, store)
            before = await fed(store)
            retried = {key: await store.commit(puts(key), key=key) for key in run.unknown}
            after = await fed(store)
    finally:
        await asyncio.to_thread(server.close)

    assert len(before) == len({transaction.key for transaction in before})
    stored = {transaction.key: transaction for transaction in before}
    assert run.acknowledged.keys() <= stored.keys()
    assert all(stored[key].sequence == commit.sequence for key, commit in run.acknowledged.items())
    assert not run.failed & stored.keys()
    assert stored.keys() <= run.acknowledged.keys() | run.unknown
    assert all(is_whole(transaction) for transaction in after)
    for key, commit in retried.items():
        assert commit.repeated == (key in stored)
        assert [transaction.sequence for transaction in after if transaction.key == key] == [
            commit.sequence
        ]


async def crash_while_writing(server: XtdbServer, store: XtdbStore) -> Run:
    """Write from several tasks while the server is killed and restarted, twice."""
    run = Run()
    run.alive.set()
    writers = [asyncio.create_task(write(store, run, number)) for number in range(WRITERS)]
    try:
        for _ in range(CRASHES):
            await asyncio.wait_for(run.enough.wait(), 60)
            run.alive.clear()
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.restart)
            run.wanted = len(run.acknowledged) + COMMITS_BETWEEN
            run.enough.clear()
            run.alive.set()
        await asyncio.wait_for(run.enough.wait(), 60)
    finally:
        for writer in writers:
            writer.cancel()
        ended = await asyncio.gather(*writers, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in ended), ended
    return run


async def write(store: XtdbStore, run: Run, writer: int) -> None:
    """Commit one transaction after the other, and record each outcome."""
    number = 0
    while True:
        number += 1
        key = f"{writer}-{number}"
        run.unknown.add(key)  # also if this task is cancelled during the commit
        try:
            run.acknowledge(key, await store.commit(puts(key), key=key))
            run.unknown.discard(key)
        except OutcomeUnknown:
            await run.alive.wait()
        except Unavailable:
            run.unknown.discard(key)
            run.failed.add(key)
            await run.alive.wait()


def puts(key: str) -> list[Put]:
    """Two documents that belong together."""
    return [Put({"xt/id": f"{half}:{key}", "type": "note", "key": key}) for half in ("a", "b")]


def is_whole(transaction: Transaction) -> bool:
    ids = [written.object_id for written in transaction.writes]
    return ids == [f"a:{transaction.key}", f"b:{transaction.key}"]


async def fed(store: XtdbStore) -> list[Transaction]:
    """Return every transaction, read page by page."""
    transactions: list[Transaction] = []
    while page := await store.feed(
        after=transactions[-1].sequence if transactions else None, limit=100
    ):
        transactions.extend(page)
    return transactions
