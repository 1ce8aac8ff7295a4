"""Benchmarks of finding timesteps again, in a log of a given size. Writes and reads files.

The bounds of the issue are for ten million steps; in a smaller log the times are reported only.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Final

from ctxmgr.bench.experience.raw import OurLog
from ctxmgr.bench.experience.steps import SESSION_STEPS, START_MS, batches, concept_names
from ctxmgr.bench.measure import percentile
from ctxmgr.bench.report import Figure, Say, reported, within
from ctxmgr.experience.log.log import ExperienceLog

FULL_STEPS: Final = 1_048_576
QUICK_STEPS: Final = 131_072
BOUND_STEPS: Final = 10_000_000
SAMPLES: Final = 60
QUICK_SAMPLES: Final = 8


async def recall_figures(steps: int, *, say: Say) -> list[Figure]:
    """Measure questions of several kinds."""
    say(f"experience: recall in {steps:,} steps")
    with TemporaryDirectory(prefix="ctxmgr-bench-", dir=Path.cwd()) as folder:
        root = Path(folder) / "log"
        await asyncio.to_thread(_fill, root, steps)
        async with await ExperienceLog.open(root) as log:
            await log.fold()
            segments = (await log.status()).segments
            return [
                await _measured(what, ask, bound, steps, segments)
                for what, ask, bound in _questions(log, steps)
            ]


def _questions(
    log: ExperienceLog, steps: int
) -> list[tuple[str, Callable[[], Awaitable[object]], float]]:
    chance = random.Random(steps)  # noqa: S311 (repeatable questions)
    names = concept_names()

    def session() -> tuple[str, int]:
        number = chance.randrange(max(1, steps // SESSION_STEPS))
        return f"session-{number:05}", chance.randint(1, min(steps, SESSION_STEPS) - 200)

    def concept() -> str:
        return chance.choice(names[:400])

    async def by_id() -> None:
        name, tick = session()
        assert await log.get_timestep(f"ts-{name}-{tick}") is not None

    async def ticks() -> None:
        name, tick = session()
        found = await log.query(session_id=name, tick_range=(tick, tick + 99))
        assert len(found) == len(range(100))

    async def in_session() -> None:
        await log.query(session_id=session()[0], concept_activations={concept(): (0.5, 1.0)})

    async def in_all() -> None:
        await log.query(concept_activations={concept(): (0.5, 1.0)})

    async def top() -> None:
        await log.top_by_concept(concept(), limit=20)

    async def seven() -> None:
        name, tick = session()
        await log.query(
            session_id=name,
            tick_range=(1, tick + 100),
            time_range=(START_MS, START_MS + 10**12),
            event_types=["output"],
            concept_activations={concept(): (0.3, 1.0)},
            text_search="word1",
            limit=50,
        )

    return [
        ("by id", by_id, 15),
        ("100 ticks of a session", ticks, 25),
        ("a concept in a session, 100 records", in_session, 10),
        ("a concept in the whole log, 100 records", in_all, 15),
        ("top 20 of a concept, whole log, records", top, 200),
        ("seven filters", seven, 60),
    ]


async def _measured(
    what: str, ask: Callable[[], Awaitable[object]], bound: float, steps: int, segments: int
) -> Figure:
    times, processor = list[float](), list[float]()
    await ask()
    for _ in range(SAMPLES if steps > QUICK_STEPS else QUICK_SAMPLES):
        started, spent = perf_counter(), process_time()
        await ask()
        times.append(1e3 * (perf_counter() - started))
        processor.append(1e3 * (process_time() - spent))
    p50, p99 = percentile(times, 50), percentile(times, 99)
    note = (
        f"p50 {p50:.1f} ms, p99 {p99:.1f} ms, of processor time {percentile(processor, 50):.1f} and"
        f" {percentile(processor, 99):.1f} ms; {segments} segments"
    )
    name = f"recall in {steps:,} steps: {what}, p99"
    if steps >= BOUND_STEPS:
        return within(name, p99, bound=bound, unit="ms", against="–", note=note)
    return reported(name, p99, against="–", note=f"{note}; the bound is for {BOUND_STEPS:,} steps")


def _fill(root: Path, steps: int) -> None:
    log = OurLog(root)
    for batch in batches(steps):
        log.append(batch)
    log.close()
