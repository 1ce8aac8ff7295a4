"""XTDB killed in the middle of a run of transactions, and started again on what it left."""

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
"""Acknowledged before each crash, so that it falls among transactions in flight."""


@dataclass
class Run:
    """What the writers were told, by key."""

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


async def test_a_killed_server_loses_nothing_it_acknowledged_and_doubles_nothing(
    tmp_path: Path,
) -> None:
    """What was acknowledged is there once; the rest is reported, and its key tells (003-R198)."""
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
    found = {transaction.key: transaction for transaction in before}
    assert run.acknowledged.keys() <= found.keys()
    assert all(found[key].sequence == commit.sequence for key, commit in run.acknowledged.items())
    assert not run.failed & found.keys()
    assert found.keys() <= run.acknowledged.keys() | run.unknown
    assert all(is_whole(transaction) for transaction in after)
    for key, commit in retried.items():
        assert commit.repeated == (key in found)
        assert [transaction.sequence for transaction in after if transaction.key == key] == [
            commit.sequence
        ]


async def crash_while_writing(server: XtdbServer, store: XtdbStore) -> Run:
    """Write with several tasks, kill the server under them and start it again; twice."""
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
    """Commit one transaction after the other, and note what became of each."""
    number = 0
    while True:
        number += 1
        key = f"{writer}-{number}"
        run.unknown.add(key)  # also if this task is cancelled on the way
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
    """Every transaction there is, page by page."""
    found: list[Transaction] = []
    while page := await store.feed(after=found[-1].sequence if found else None, limit=100):
        found.extend(page)
    return found
