"""Resumes one session and prints time and memory as JSON. Run by ``embedded_figures``.

    python -m ctxmgr.bench.core.resume_child URL SESSION [--memory]

A new process has nothing cached, and its memory can be measured separately. Measuring memory slows
Python down, so time and memory need two runs.
"""

import argparse
import asyncio
import gc
import sys
import tracemalloc
from dataclasses import asdict, dataclass
from time import perf_counter

import orjson

from ctxmgr.app import connect


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """Time and memory of a lazy resume, up to the first prompt."""

    seconds: float
    held_bytes: int
    """Increase of Python's memory; 0 if it was not measured."""
    prompt_bytes: int
    pool: int
    active: int


async def measure(url: str, session_id: str, *, memory: bool) -> Resumed:
    """Resume and render once; background work is stopped afterwards."""
    async with connect(url, tracking=False) as client:
        if memory:
            gc.collect()
            tracemalloc.start()
        started = perf_counter()
        live = await client.resume(session_id, eager=False)
        await live.render("and now?")
        seconds = perf_counter() - started
        held = 0
        if memory:
            gc.collect()
            held, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        context = live.context("and now?")
        await client.pause(session_id)
        return Resumed(
            seconds=seconds,
            held_bytes=held,
            prompt_bytes=sum(len(chunk.encode()) for chunk in context.chunks()),
            pool=len(live.sets.metadata_pool),
            active=len(live.sets.active_set),
        )


def main() -> None:
    """Print the measurement as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("session_id")
    parser.add_argument("--memory", action="store_true")
    args = parser.parse_args()
    resumed = asyncio.run(measure(args.url, args.session_id, memory=args.memory))
    sys.stdout.buffer.write(orjson.dumps(asdict(resumed)))


if __name__ == "__main__":
    main()
