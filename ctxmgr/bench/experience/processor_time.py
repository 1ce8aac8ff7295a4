"""Compare the processor time of questions with DuckDB and the schema of the requirements.

Both answer the same questions in turn. Processor time moves less with the load of a machine than
time on the clock; neither side uses more than one thread of DuckDB.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Final

from ctxmgr.bench.experience.raw import DuckdbRowsSchema, OurLog
from ctxmgr.bench.experience.steps import SESSION_STEPS, START_MS, batches, concept_names
from ctxmgr.bench.report import Figure, Say, at_most, reported
from ctxmgr.experience.log.log import ExperienceLog

STEPS: Final = 1_048_576
QUICK_STEPS: Final = 65_536
SAMPLES: Final = 20

Ask = Callable[[], Awaitable[object]]


async def processor_time_figures(steps: int, *, say: Say) -> list[Figure]:
    """Measure three questions on both sides."""
    say(f"experience: processor time of recall in {steps:,} steps")
    with TemporaryDirectory(prefix="ctxmgr-bench-", dir=Path.cwd()) as folder:
        root = Path(folder)
        schema = await asyncio.to_thread(_fill, root, steps)
        async with await ExperienceLog.open(root / "ours") as log:
            await log.fold()
            figures = [
                await _compared(what, ours, theirs, bound if steps >= STEPS else None)
                for what, ours, theirs, bound in _questions(log, schema, steps)
            ]
        schema.close()
    return figures


def _fill(root: Path, steps: int) -> DuckdbRowsSchema:
    ours, schema = OurLog(root / "ours"), DuckdbRowsSchema(root / "schema")
    for batch in batches(steps):
        ours.append(batch)
        schema.append(schema.prepare(batch))
    ours.close()
    return schema


def _questions(
    log: ExperienceLog, schema: DuckdbRowsSchema, steps: int
) -> list[tuple[str, Ask, Ask, float]]:
    chance = random.Random(steps)  # noqa: S311 (repeatable questions)
    names = concept_names()[:400]

    def session() -> str:
        return f"session-{chance.randrange(max(1, steps // SESSION_STEPS)):05}"

    def anywhere() -> str:
        return f"ts-{session()}-{chance.randint(1, min(steps, SESSION_STEPS))}"

    async def by_id() -> None:
        assert await log.get_timestep(anywhere()) is not None

    async def their_by_id() -> None:
        assert schema.rows("SELECT * FROM timesteps WHERE id = ?", [anywhere()])

    async def top() -> None:
        await log.top_by_concept(chance.choice(names), limit=20)

    async def their_top() -> None:
        score = _score(chance.choice(names))
        schema.rows(
            f"SELECT * FROM timesteps ORDER BY {score} DESC NULLS LAST LIMIT 20",  # noqa: S608
            [],
        )

    async def seven() -> None:
        await log.query(
            session_id=session(),
            tick_range=(1, 10_000),
            time_range=(START_MS, START_MS + 10**12),
            event_types=["output"],
            concept_activations={chance.choice(names): (0.3, 1.0)},
            text_search="word1",
            limit=50,
        )

    async def their_seven() -> None:
        score = _score(chance.choice(names))
        schema.rows(
            "SELECT * FROM timesteps WHERE session_id = ? AND tick BETWEEN 1 AND 10000 AND ts"  # noqa: S608
            f" BETWEEN epoch_ms({START_MS}) AND epoch_ms({START_MS + 10**12})"
            f" AND event_type = 'output' AND content ILIKE '%word1%' AND {score} BETWEEN 0.3 AND 1"
            " ORDER BY session_id, tick LIMIT 50",
            [session()],
        )

    return [
        ("by id", by_id, their_by_id, 3.5),
        ("top 20 of a concept", top, their_top, 0.6),
        ("seven filters", seven, their_seven, 3.5),
    ]


def _score(concept: str) -> str:
    return f"CAST(concept_activations ->> '$.\"{concept}\"' AS FLOAT)"


async def _compared(what: str, ours: Ask, theirs: Ask, bound: float | None) -> Figure:
    spent: tuple[list[float], list[float]] = ([], [])
    for number in range(SAMPLES + 1):
        for side, ask in enumerate((ours, theirs)):
            started = process_time()
            await ask()
            if number:  # the first question of each opens files
                spent[side].append(1e3 * (process_time() - started))
    our, their = median(spent[0]), median(spent[1])
    name, against = f"processor time of recall: {what}, p50", "DuckDB, the schema of the rows"
    note = f"{our:.1f} ms; baseline {their:.1f} ms"
    if bound is None:
        note += f"; the bound is for {STEPS:,} steps"
        return reported(name, our / their, against=against, note=note)
    return at_most(name, our / their, bound=bound, against=against, note=note)
