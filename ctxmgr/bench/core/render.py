"""Benchmarks of rendering a prompt in sessions whose long chat grows by a turn each time."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

from ctxmgr.app import connect
from ctxmgr.bench.core.built_session import Filler, SessionPlan, build_session
from ctxmgr.bench.measure import percentile
from ctxmgr.bench.report import Figure, Say, at_most, within
from ctxmgr.core.client.client import Client
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.objects.codec import KINDS
from ctxmgr.stores.sqlite.store import SqliteStore

FEW, MANY, HUGE = 100, 1_000, 10_000
P99_MS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderSizes:
    """The size of the measurement."""

    sessions: int
    """Number of sessions of each length."""
    turns_each: int
    """Turns added to each session: few, so that its length hardly changes."""
    huge: int
    """Messages of the longest session."""
    huge_turns: int


FULL: Final = RenderSizes(sessions=20, turns_each=10, huge=HUGE, huge_turns=40)
QUICK: Final = RenderSizes(sessions=3, turns_each=10, huge=2_000, huge_turns=10)

_ACTIVE: Final = 15


@dataclass(slots=True)
class _RenderRun:
    """A session, and the times of its renders."""

    live: LiveSession
    filler: Filler
    seconds: list[float] = field(default_factory=list)
    plainly: list[float] = field(default_factory=list)
    """Seconds for joining and hashing the same text."""


async def render_figures(sizes: RenderSizes, *, say: Say) -> list[Figure]:
    """Add a turn before each measurement, so that no state is rendered twice."""
    huge = sizes.huge
    with TemporaryDirectory(prefix="ctxmgr-bench-", dir=Path.cwd()) as folder:
        path = Path(folder) / "render.db"
        async with (
            await SqliteStore.open(path, kinds=KINDS, durability="normal") as store,
            connect(store=store, tracking=False) as client,
        ):
            say(f"render at {FEW} and {MANY:,} messages")
            few, many = await _few_and_many(client, sizes)
            say(f"render at {huge:,} messages")
            run = await _resumed(client, f"at-{huge}", messages=huge)
            for _ in range(sizes.huge_turns):
                await _add_turn(run)
                user = run.filler.text(100)
                started = perf_counter()
                await run.live.render(user)
                run.live.context(user).prompt_hash()
                run.seconds.append(perf_counter() - started)
                texts = [block.text for block in run.live.context().blocks()]
                started = perf_counter()
                hashlib.sha256("".join(texts).encode()).hexdigest()
                run.plainly.append(perf_counter() - started)
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


async def _few_and_many(client: Client, sizes: RenderSizes) -> tuple[list[float], list[float]]:
    few: list[float] = []
    many: list[float] = []
    for number in range(sizes.sessions):
        for messages, seconds in ((FEW, few), (MANY, many)):
            run = await _resumed(client, f"at-{messages}-{number}", messages=messages)
            for _ in range(sizes.turns_each):
                await _add_turn(run)
                user = run.filler.text(100)
                started = perf_counter()
                await run.live.render(user)
                seconds.append(perf_counter() - started)
            await client.pause(run.live.session_id)
    return few, many


async def _resumed(client: Client, session_id: str, *, messages: int) -> _RenderRun:
    plan = SessionPlan(session_id=session_id, calls=messages // 2, active=_ACTIVE)
    await build_session(client.store, plan)
    return _RenderRun(await client.resume(session_id), Filler(f"{session_id} goes on"))


async def _add_turn(run: _RenderRun) -> None:
    live = run.live
    call = run.filler.toolcall(f"{live.session_id}-{live.turn}", chat_ref="-")
    await live.render(run.filler.text(100))
    await live.record(call.object_id, tool=call.tool, args=call.args, output=call.content or "")
    await live.end_turn(run.filler.text(300))
