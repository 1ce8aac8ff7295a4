"""A session is paused by one client and resumed by another; a process is stopped."""

import asyncio
import os
import signal
import sys
import uuid
from pathlib import Path
from typing import Final

import psutil
import pytest

from ctxmgr.core.store.contract import Store
from ctxmgr.stores.sqlite.store import SqliteStore
from ctxmgr.stores.xtdb.store import XtdbStore
from tests.components import ROOT
from tests.journeys.pause_resume import JOURNEY_KINDS, pause_and_resume

COMMITTING: Final = Path(__file__).with_name("committing.py")
STOP_WITHIN_S: Final = 30
"""For a process to end after a signal; a busy machine needs a moment."""
both_signals = pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])


@pytest.fixture
def mark() -> str:
    """Ids that no other test uses."""
    return uuid.uuid4().hex[:12]


async def test_a_session_paused_on_one_machine_is_resumed_on_another(
    tmp_path: Path, mark: str
) -> None:
    """Users run agents for hours and continue elsewhere (003-R112 to R115, 003-R122, 003-A21)."""

    async def opened() -> SqliteStore:
        return await SqliteStore.open(tmp_path / "store.db", kinds=JOURNEY_KINDS)

    await pause_and_resume(opened, opened, mark=mark)


@pytest.mark.xtdb
async def test_a_session_paused_on_one_machine_is_resumed_on_another_by_xtdb(
    xtdb_url: str, mark: str
) -> None:
    """Several machines share one database (003-R006, 003-R112 to R115, 003-A21)."""

    async def opened() -> XtdbStore:
        return await XtdbStore.open(xtdb_url, kinds=JOURNEY_KINDS)

    await pause_and_resume(opened, opened, mark=mark)


@both_signals
async def test_a_signal_leaves_complete_transactions_and_no_process(
    tmp_path: Path, mark: str, sent: signal.Signals
) -> None:
    """Ctrl-C and stopped containers are everyday events (003-R112, 003-R113)."""
    url = f"sqlite:///{tmp_path}/store.db"

    acknowledged = await _commit_until(sent, url, mark)

    async with await SqliteStore.open(url) as store:
        await _assert_whole(store, mark, acknowledged)


@pytest.mark.xtdb
@both_signals
async def test_a_signal_leaves_complete_transactions_in_xtdb(
    xtdb_url: str, mark: str, sent: signal.Signals
) -> None:
    """The server completes a transaction whose client has gone, or never received it (003-R113)."""
    acknowledged = await _commit_until(sent, xtdb_url, mark)

    async with await XtdbStore.open(xtdb_url) as store:
        await _assert_whole(store, mark, acknowledged)


async def _commit_until(sent: signal.Signals, url: str, mark: str) -> list[int]:
    """Return the sequences acknowledged to a process before the signal ended it."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(COMMITTING), url, mark),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    first = [await process.stdout.readline() for _ in range(20)]
    family = [process.pid, *(child.pid for child in psutil.Process(process.pid).children())]
    process.send_signal(sent)
    rest = await asyncio.wait_for(process.stdout.read(), STOP_WITHIN_S)
    code = await asyncio.wait_for(process.wait(), STOP_WITHIN_S)
    assert code == 130
    assert [pid for pid in family if psutil.pid_exists(pid)] == []
    return [int(line) for line in b"".join([*first, rest]).splitlines()]


async def _assert_whole(store: Store, mark: str, acknowledged: list[int]) -> None:
    halves = [
        [
            (entry.sequence, entry.document["n"])
            for entry in (await store.history(f"{mark}-{half}", corrections=True)).entries
            if entry.document
        ]
        for half in "ab"
    ]
    assert halves[0] == halves[1]
    assert [sequence for sequence, _ in halves[0]][: len(acknowledged)] == acknowledged
    assert len(halves[0]) <= len(acknowledged) + 1
