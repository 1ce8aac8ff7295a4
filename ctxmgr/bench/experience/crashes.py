"""Kill processes that append, fold, merge and compress, and look for what was acknowledged.

Each round starts two processes on one log, and kills them at a random moment. Then every session is
read: each of its ticks is in the log or in one cold window, none is in both or missing, compressed
records stand for as many tokens as these windows had, and all files are as they were written.
"""

import asyncio
import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from ctxmgr.bench.kill_process import lines_until_killed
from ctxmgr.bench.report import Figure, Say
from ctxmgr.experience.log.log import ExperienceLog

ROUNDS: Final = 200
QUICK_ROUNDS: Final = 1
PROCESSES: Final = 2
SECONDS_MAX: Final = 0.6
"""A process lives at most so long after its first acknowledgement."""


_FOUND: Final = """
WITH cold AS (
    SELECT session_id, unnest(range(start_tick, end_tick + 1)) AS tick
    FROM time_windows WHERE fidelity = 'cold'
), places AS (
    SELECT session_id, tick, 1 AS steps, 0 AS cold FROM timesteps
    UNION ALL SELECT session_id, tick, 0, 1 FROM cold
), ticks AS (
    SELECT session_id, tick, sum(steps) AS steps, sum(cold) AS cold FROM places GROUP BY ALL
)
SELECT session_id, sum(steps)::BIGINT, sum(cold)::BIGINT, max(tick),
    count(*) FILTER (steps + cold > 1),
    (SELECT count(*) FROM activations AS a WHERE a.session_id = t.session_id)
FROM ticks AS t GROUP BY session_id
"""

_COLD_TOKENS: Final = """
SELECT coalesce(sum(token_count), 0)::BIGINT FROM compressed_records WHERE superseded_by IS NULL
"""


async def crash_figures(rounds: int, *, say: Say) -> list[Figure]:
    """Kill processes at random moments; nothing acknowledged may be missing or there twice."""
    chance = random.Random(rounds)  # noqa: S311 (repeatable trials)
    with TemporaryDirectory(prefix="ctxmgr-bench-", dir=Path.cwd()) as folder:
        root = Path(folder) / "log"
        acknowledged: dict[str, int] = {}
        for number in range(rounds):
            say(f"experience: kill -9, round {number + 1} of {rounds}")
            names = [f"round-{number}-{process}" for process in range(PROCESSES)]
            counts = await asyncio.gather(*(killed(root, name, chance) for name in names))
            acknowledged |= dict(zip(names, counts, strict=True))
        faults = await faults_of(root, acknowledged)
    return [
        Figure(
            what=f"kill -9, {rounds} rounds of {PROCESSES} processes: sessions with a fault",
            value=len(faults),
            bound="none",
            meets=not faults,
            against="–",
            note=f"{sum(acknowledged.values()):,} steps acknowledged"
            + (f"; {faults[0]}" if faults else ""),
        )
    ]


async def killed(root: Path, session: str, chance: random.Random) -> int:
    """Start a process, kill it after a while, and return the last tick that it acknowledged."""
    seconds = chance.random() * SECONDS_MAX
    module = "ctxmgr.bench.experience.append_child"
    lines = await lines_until_killed(module, str(root), session, seconds=seconds)
    return int(lines[-1]) if lines else 0


async def faults_of(root: Path, acknowledged: dict[str, int]) -> list[str]:
    """Return what is wrong with the log after processes were killed."""
    faults = []
    async with await ExperienceLog.open(root) as log:
        await log.check(hashes=True)
        result = await log.sql(_FOUND, rows_max=1_000_000)
        found = {row[0]: row[1:] for row in result.rows}
        for session, acknowledged_tick in acknowledged.items():
            steps, cold, last, faulty, activations = found.get(session, (0, 0, 0, 0, 0))
            whole = steps + cold == last >= acknowledged_tick and not faulty
            if not whole or activations != 2 * steps:
                faults.append(
                    f"{session}: {steps} steps and {cold} cold ticks, {faulty} of them twice, last"
                    f" {last} of {acknowledged_tick}"
                )
        tokens = await log.sql(_COLD_TOKENS)
        cold_ticks = sum(row[1] for row in found.values())
        if tokens.rows != ((cold_ticks,),):
            faults.append(f"{tokens.rows[0][0]} compressed tokens stand for {cold_ticks} ticks")
    return faults
