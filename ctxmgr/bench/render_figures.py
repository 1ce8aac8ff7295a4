"""Rendering a prompt: what it costs when the chat is long, and one turn longer every time."""

import hashlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

from ctxmgr.app import connect
from ctxmgr.bench.built_session import Filler, Plan, build_session
from ctxmgr.bench.measure import percentile
from ctxmgr.bench.report import Figure, Say, at_most, within
from ctxmgr.core.client import Client
from ctxmgr.core.live_session import LiveSession
from ctxmgr.core.objects import KINDS
from ctxmgr.stores.sqlite import SqliteStore

FEW, MANY, HUGE = 100, 1_000, 10_000
P99_MS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is measured."""

    sessions: int
    """Of either length."""
    turns_each: int
    """Turns that one is taken further: a session of 100 messages is soon one of 200."""
    huge: int
    """Messages of the longest one."""
    huge_turns: int


FULL: Final = Sizes(sessions=20, turns_each=10, huge=HUGE, huge_turns=40)
QUICK: Final = Sizes(sessions=3, turns_each=10, huge=2_000, huge_turns=10)

_ACTIVE: Final = 15


@dataclass(slots=True)
class _Run:
    """A session, and what each render of it took."""

    live: LiveSession
    filler: Filler
    seconds: list[float] = field(default_factory=list)
    plainly: list[float] = field(default_factory=list)
    """Joining and hashing the same text."""


async def render_figures(sizes: Sizes, *, say: Say) -> list[Figure]:
    """Measure after one more turn each time, so that no state is rendered twice."""
    huge = sizes.huge
    async with _client() as client:
        say(f"render at {FEW} and {MANY:,} messages")
        few, many = await _few_and_many(client, sizes)
        say(f"render at {huge:,} messages")
        run = await _taken_further(client, messages=huge, turns=sizes.huge_turns)
    p99_ms = percentile(many, 99) * 1e3
    return [
        at_most(
            f"render at {MANY:,} messages, one more turn each time",
            median(many) / median(few),
            bound=2,
            against=f"itself at {FEW} messages",
            note=f"{median(many) * 1e3:.2f} ms, at {FEW} {median(few) * 1e3:.2f} ms",
        ),
        within(
            f"render at {MANY:,} messages, p99 of {len(many)}",
            p99_ms,
            bound=P99_MS,
            unit="ms",
            against="the clock",
        ),
        at_most(
            f"render and hash at {huge:,} messages, one more turn each time",
            median(run.seconds) / median(run.plainly),
            bound=1,
            against="joining and hashing the same text",
            note=f"{median(run.seconds) * 1e3:.2f} ms, plainly {median(run.plainly) * 1e3:.2f} ms",
        ),
    ]


@asynccontextmanager
async def _client() -> AsyncIterator[Client]:
    with TemporaryDirectory(prefix="ctxmgr-bench-", dir=Path.cwd()) as folder:
        path = Path(folder) / "render.db"
        async with (
            await SqliteStore.open(path, kinds=KINDS, durability="normal") as store,
            connect(store=store, tracking=False) as client,
        ):
            yield client


async def _few_and_many(client: Client, sizes: Sizes) -> tuple[list[float], list[float]]:
    few: list[float] = []
    many: list[float] = []
    for number in range(sizes.sessions):
        for messages, seconds in ((FEW, few), (MANY, many)):
            run = await _resumed(client, f"at-{messages}-{number}", messages=messages)
            for _ in range(sizes.turns_each):
                await _one_more_turn(run)
                seconds.append(await _rendered(run))
            await client.pause(run.live.session_id)
    return few, many


async def _taken_further(client: Client, *, messages: int, turns: int) -> _Run:
    run = await _resumed(client, f"at-{messages}", messages=messages)
    for _ in range(turns):
        await _one_more_turn(run)
        run.seconds.append(await _rendered_and_hashed(run))
        run.plainly.append(_joined_and_hashed(run.live))
    return run


async def _resumed(client: Client, session_id: str, *, messages: int) -> _Run:
    plan = Plan(session_id=session_id, calls=messages // 2, active=_ACTIVE)
    await build_session(client.store, plan)
    return _Run(await client.resume(session_id), Filler(f"{session_id} goes on"))


async def _one_more_turn(run: _Run) -> None:
    live, made = (
        run.live,
        run.filler.toolcall(f"{run.live.session_id}-{run.live.turn}", chat_ref="-"),
    )
    await live.render(run.filler.text(100))
    await live.record(made.object_id, tool=made.tool, args=made.args, output=made.content or "")
    await live.end_turn(run.filler.text(300))


async def _rendered(run: _Run) -> float:
    user = run.filler.text(100)
    started = perf_counter()
    await run.live.render(user)
    return perf_counter() - started


async def _rendered_and_hashed(run: _Run) -> float:
    user = run.filler.text(100)
    started = perf_counter()
    await run.live.render(user)
    run.live.context(user).prompt_hash()
    return perf_counter() - started


def _joined_and_hashed(live: LiveSession) -> float:
    pieces = list(_texts(live))
    started = perf_counter()
    hashlib.sha256("".join(pieces).encode()).hexdigest()
    return perf_counter() - started


def _texts(live: LiveSession) -> Iterator[str]:
    for block in live.context().blocks():
        yield block.text
