"""No acknowledged write is lost when processes that write one file are repeatedly killed.

``kill -9`` ends a process between any two instructions, while the machine and its disk keep
running; SQLite's full durability guarantees even more. The store runs with its defaults.
"""

import asyncio
import os
import random
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from ctxmgr.core.store.contract import AsOf, Transaction
from ctxmgr.stores.sqlite.store import SqliteStore
from tests.components import ROOT

WORKERS: Final = 8
EACH: Final = 1_000
KILLS: Final = 20
ACKS_BETWEEN_KILLS: Final = 400
"""Maximum number of acknowledgements between kills; the actual number is random."""
WORKER: Final = Path(__file__).with_name("crash_worker.py")


class Workers:
    """Eight processes, which are killed one at a time and restarted."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "store.db"
        self.logs = [folder / f"worker-{number}.log" for number in range(WORKERS)]
        self.killed = 0
        self._dice = random.Random(20)
        self._running: dict[int, asyncio.subprocess.Process] = {}
        self._acknowledged = asyncio.Condition()
        self._count = 0

    async def run(self) -> None:
        """Run all workers until each has written everything."""
        for log in self.logs:
            log.touch()
        async with asyncio.TaskGroup() as tasks:
            killer = tasks.create_task(self._kill())
            await asyncio.gather(*(self._work(number) for number in range(WORKERS)))
            killer.cancel()

    async def _work(self, number: int) -> None:
        """Restart the worker until it exits on its own."""
        while await self._live(number) != 0:
            pass

    async def _live(self, number: int) -> int:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(WORKER),
            *(str(self.file), str(self.logs[number]), f"w{number}", str(EACH)),
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self._running[number] = process
        assert process.stdout is not None
        while dots := await process.stdout.read(64):
            async with self._acknowledged:
                self._count += len(dots)
                self._acknowledged.notify_all()
        del self._running[number]
        code = await process.wait()
        assert code in (0, -9), f"worker {number} ended with {code}"
        return code

    async def _kill(self) -> None:
        for _ in range(KILLS):
            target = self._count + self._dice.randrange(ACKS_BETWEEN_KILLS)
            async with self._acknowledged:
                while self._count <= target:
                    await self._acknowledged.wait()
            victim = self._dice.choice(sorted(self._running))
            # ``Process.kill`` would first ask for the status of one that has just been killed, and
            # the event loop would not learn it.
            with suppress(ProcessLookupError):
                os.kill(self._running[victim].pid, signal.SIGKILL)
                self.killed += 1


async def test_no_acknowledged_write_is_lost_by_kill_9(tmp_path: Path) -> None:
    """A machine may die at any moment; an acknowledged write is saved (003-R112, 003-A26)."""
    workers = Workers(tmp_path)

    await workers.run()

    assert workers.killed >= KILLS // 2
    async with await SqliteStore.open(workers.file) as store:
        fed = await _everything(store)
        _assert_each_pair_once(fed)
        _assert_acknowledged_are_there(fed, workers.logs)
        await _assert_halves_agree(store, fed)
        assert (await store.verify()).faults == ()


async def _everything(store: SqliteStore) -> list[Transaction]:
    fed: list[Transaction] = []
    while page := await store.feed(after=fed[-1].sequence if fed else None):
        fed.extend(page)
    return fed


def _assert_each_pair_once(fed: list[Transaction]) -> None:
    keys = [transaction.key for transaction in fed]
    assert sorted(keys) == sorted(f"w{w}-{n}" for w in range(WORKERS) for n in range(EACH))
    for transaction in fed:
        halves = [write.document or {} for write in transaction.writes]
        assert [half["xt/id"].partition("-")[2] for half in halves] == ["left", "right"]
        assert {f"{half['by']}-{half['n']}" for half in halves} == {transaction.key}


def _assert_acknowledged_are_there(fed: list[Transaction], logs: list[Path]) -> None:
    sequences = {transaction.key: transaction.sequence for transaction in fed}
    for worker, log in enumerate(logs):
        for line in log.read_text(encoding="utf-8").splitlines():
            number, sequence = line.split()
            assert sequences[f"w{worker}-{number}"] == int(sequence)


async def _assert_halves_agree(store: SqliteStore, fed: list[Transaction]) -> None:
    ids = [f"w{worker}-{half}" for worker in range(WORKERS) for half in ("left", "right")]
    for transaction in random.Random(0).sample(fed, 50):
        versions = await store.get_many(ids, as_of=AsOf(sequence=transaction.sequence))
        for worker in range(WORKERS):
            halves = [versions.get(f"w{worker}-{half}") for half in ("left", "right")]
            assert len({half and half.document["n"] for half in halves}) == 1
