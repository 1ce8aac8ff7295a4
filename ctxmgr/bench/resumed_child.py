"""A process that resumes one session and tells what that took. Run by ``resume_figures``.

    python -m ctxmgr.bench.resumed_child URL SESSION [--memory]

A process of its own has read nothing yet, as one that resumes a session elsewhere, and its memory
is its own. Measuring memory slows Python down, so time and memory are taken in two runs.
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
from ctxmgr.core.assembly import Context


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """What a lazy resume came to, up to its first prompt."""

    seconds: float
    held_bytes: int
    """Python's memory then, beyond what there was before; 0: not measured."""
    prompt_bytes: int
    pool: int
    active: int


async def measure(url: str, session_id: str, *, memory: bool) -> Resumed:
    """Resume and render once; what would go on behind that is stopped."""
    async with connect(url, tracking=False) as client:
        if memory:
            gc.collect()
            tracemalloc.start()
        started = perf_counter()
        live = await client.resume(session_id, eager=False)
        await live.render("and now?")
        seconds = perf_counter() - started
        held = _held() if memory else 0
        context = live.context("and now?")
        await client.pause(session_id)
        return Resumed(
            seconds=seconds,
            held_bytes=held,
            prompt_bytes=_size(context),
            pool=len(live.sets.metadata_pool),
            active=len(live.sets.active_set),
        )


def _held() -> int:
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held


def _size(context: Context) -> int:
    return sum(len(chunk.encode()) for chunk in context.chunks())


def main() -> None:
    """Print what it took as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("session_id")
    parser.add_argument("--memory", action="store_true")
    given = parser.parse_args()
    told = asyncio.run(measure(given.url, given.session_id, memory=given.memory))
    sys.stdout.buffer.write(orjson.dumps(asdict(told)))


if __name__ == "__main__":
    main()
