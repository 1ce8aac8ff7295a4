"""Benchmarks of resuming a session: time and memory of the first prompt. Starts processes.

lazily    a session of 100,000 objects in SQLite, resumed by a new process
whole     a session of 5,000 objects in XTDB, all of them read and verified
"""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final
from uuid import uuid4

import orjson

from ctxmgr.app import connect
from ctxmgr.bench.core.built_session import SessionPlan, build_session
from ctxmgr.bench.core.files import read_files, settle, write_files
from ctxmgr.bench.core.resume_child import Resumed
from ctxmgr.bench.measure import alternate
from ctxmgr.bench.report import Figure, Say, at_most, within
from ctxmgr.bench.stores.xtdb_server import EDN, WAIT_SECONDS, OwnXtdb
from ctxmgr.core.objects.codec import KINDS
from ctxmgr.stores.sqlite.store import SqliteStore
from ctxmgr.stores.xtdb.queries import get_query
from ctxmgr.stores.xtdb.store import XtdbStore

FIRST_PROMPT_MS: Final = 300.0
PROMPT_COPIES: Final = 3
"""Copies of each active text: as it was read, as a block, and in the joined prompt."""
LINE_BYTES: Final = 2_048
"""Memory per object of the pool: its line, its id, two hashes and the objects around them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeSizes:
    """The size of the measurement."""

    objects: int
    pool: int
    active: int
    rounds: int
    on_xtdb: int


FULL: Final = ResumeSizes(objects=100_000, pool=2_000, active=50, rounds=7, on_xtdb=5_000)
QUICK: Final = ResumeSizes(objects=2_000, pool=200, active=50, rounds=1, on_xtdb=300)

_SESSION: Final = "resumed"
_CALLS_PER_TURN: Final = 5


async def embedded_figures(sizes: ResumeSizes, *, say: Say) -> list[Figure]:
    """Build a large session and resume it lazily, each time in a new process."""
    with TemporaryDirectory(prefix="ctxmgr-bench-", dir=Path.cwd()) as folder:
        say(f"build a session of {sizes.objects:,} objects")
        url = await _built(Path(folder), sizes)
        say("resume it lazily")
        timed = [await _resumed(url) for _ in range(sizes.rounds)]
        return _lazily(sizes, timed, await _resumed(url, "--memory"))


async def xtdb_figure(sizes: ResumeSizes, xtdb: OwnXtdb, *, say: Say) -> Figure:
    """Build a session on XTDB and resume all of it."""
    with TemporaryDirectory(prefix="ctxmgr-bench-", dir=Path.cwd()) as folder:
        say(f"build a session of {sizes.on_xtdb:,} objects on XTDB")
        return await _whole(xtdb, Path(folder), objects=sizes.on_xtdb, say=say)


async def _built(folder: Path, sizes: ResumeSizes) -> str:
    files = read_files(write_files(folder / "lazily", count=sizes.pool // 2))
    plan = SessionPlan(
        session_id=_SESSION,
        calls=sizes.pool - len(files),
        calls_per_turn=_CALLS_PER_TURN,
        active=sizes.active,
        files=files,
        unseen=sizes.objects - sizes.pool,
    )
    url = f"sqlite:///{folder / 'resume.db'}"
    async with await SqliteStore.open(url, kinds=KINDS, durability="normal") as store:
        await build_session(store, plan)
    return url


def _lazily(sizes: ResumeSizes, timed: Sequence[Resumed], held: Resumed) -> list[Figure]:
    allowed = PROMPT_COPIES * held.prompt_bytes + LINE_BYTES * held.pool
    session = f"{sizes.objects:,} objects, {held.pool:,} in the pool, {held.active} active"
    return [
        within(
            f"first prompt of a lazy resume, {session}",
            median(run.seconds for run in timed) * 1e3,
            bound=FIRST_PROMPT_MS,
            unit="ms",
            against="the clock",
            note=f"fastest of {len(timed)}: {min(run.seconds for run in timed) * 1e3:.0f} ms",
        ),
        at_most(
            "memory at that prompt",
            held.held_bytes / allowed,
            bound=1,
            against=f"{PROMPT_COPIES} times the prompt's text and {LINE_BYTES} bytes "
            "for each line of the pool",
            note=f"{held.held_bytes:,} bytes of {allowed:,}; prompt {held.prompt_bytes:,}",
        ),
    ]


async def _resumed(url: str, *flags: str) -> Resumed:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ctxmgr.bench.core.resume_child", url, _SESSION, *flags),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, "the process has printed the reason"
    return Resumed(**orjson.loads(output))


async def _whole(xtdb: OwnXtdb, folder: Path, *, objects: int, say: Say) -> Figure:
    files = read_files(write_files(folder / "whole", count=objects // 2))
    plan = SessionPlan(
        session_id=f"{_SESSION}-{uuid4().hex}",
        calls=objects - len(files),
        calls_per_turn=_CALLS_PER_TURN,
        active=50,
        files=files,
    )
    record = await build_session(xtdb.store, plan)
    ids = record.session_index
    await settle()
    say(f"resume {objects:,} objects on XTDB")
    xtdb.tap.clear()
    await xtdb.store.get_many(ids)
    query, target = get_query(ids), xtdb.tap.targets("/query")[0]

    async def ours() -> None:
        async with (
            await XtdbStore.open(f"xtdb+{xtdb.base}", kinds=KINDS, timeout_s=WAIT_SECONDS) as store,
            connect(store=store, tracking=False, fingerprints=folder / "looks") as client,
        ):
            live = await client.resume(plan.session_id)
            assert len(live.sets.session_index) == objects

    async def raw() -> None:
        reply = await xtdb.direct.post(target, content=query, headers=EDN)
        assert len(reply.raise_for_status().content) > objects

    times = await alternate(ours, raw, rounds=5)
    return at_most(
        f"resume of {objects:,} objects on XTDB",
        times.ours / times.baseline,
        bound=2,
        against="one raw batch query of the same documents, not decoded",
        note=f"{times.ours:.2f} s, raw {times.baseline:.2f} s",
    )
