"""Benchmarks of ending turns in a long chat, and of past prompts. Processor time; writes to disk.

    end_turn   in a chat of thousands of turns, beside one of a hundred, turn by turn
    past       the prompt of an earlier turn, proven by its hash

The hash of a chat covers every byte of it (003-R054, 003-R082), so hashing cannot depend on what is
new alone. It is measured separately: the same bytes, hashed in the same minute.
"""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Final
from uuid import uuid4

from ctxmgr.app import connect
from ctxmgr.bench.core.built_session import OUTPUT_CHARS, Filler, SessionPlan, build_session
from ctxmgr.bench.report import Figure, Say, at_most, within
from ctxmgr.bench.stores.xtdb_server import WAIT_SECONDS, OwnXtdb
from ctxmgr.core.client.client import Client
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.economy.policy import Economy
from ctxmgr.core.objects.codec import KINDS
from ctxmgr.core.store.canonical import canonical_items
from ctxmgr.core.store.contract import Store
from ctxmgr.stores.sqlite.store import SqliteStore
from ctxmgr.stores.xtdb.store import XtdbStore

FEW: Final = 100
GROWTH_MAX: Final = 1.5
END_TURN_MS: Final = 5.0
PAST_PROMPT_MS: Final = 40.0
MESSAGE_CHARS: Final = 210
"""Two messages of a turn have 420 characters, as in recorded sessions."""

_POLICIES: Final = {"plain": None, "economy": Economy(window_tokens=100_000_000)}
"""The window is large, because filler has many tokens and messages are not folded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSizes:
    """The size of the measurement."""

    turns: int
    """Of the long chat."""
    measured: int
    """Turns added to each chat."""
    past: int
    """Turns of the session whose past prompts are built."""
    rounds: int


FULL: Final = TurnSizes(turns=5_000, measured=40, past=1_000, rounds=9)
QUICK: Final = TurnSizes(turns=200, measured=8, past=60, rounds=3)


@dataclass(slots=True)
class _Growing:
    """A chat that grows, with the processor time of its turns."""

    live: LiveSession
    filler: Filler
    policy: Economy | None
    seconds: list[float] = field(default_factory=list)
    hashing: list[float] = field(default_factory=list)
    """Seconds for hashing the bytes that the turn's hashes cover."""

    async def add_turn(self) -> None:
        live, filler = self.live, self.filler
        await live.render(filler.text(MESSAGE_CHARS), policy=self.policy)
        call_id, output = f"{live.session_id}-{live.turn}", filler.text(OUTPUT_CHARS)
        await live.record(call_id, tool="bash", args={}, output=output, discover=False)
        answer = filler.text(MESSAGE_CHARS)
        started = process_time()
        await live.end_turn(answer)
        self.seconds.append(process_time() - started)
        grown = (*live.chat.grown().values(), *live.sets.to_record().grown().values())
        parts = [part for items in grown for part in canonical_items(items).parts]
        started = process_time()
        hashed = hashlib.sha256()
        for part in parts:
            hashed.update(part)
        hashed.digest()
        self.hashing.append(process_time() - started)

    @property
    def ms(self) -> float:
        """Median time of a turn."""
        return median(self.seconds) * 1e3

    @property
    def hashing_ms(self) -> float:
        return median(self.hashing) * 1e3


async def sqlite_turn_figures(sizes: TurnSizes, *, say: Say) -> list[Figure]:
    """Measure end_turn in SQLite, under both policies."""
    figures: list[Figure] = []
    for name in _POLICIES:
        say(f"end_turn at {sizes.turns:,} turns, {name}, SQLite")
        async with _sqlite() as store:
            few, many = await _grown(store, sizes, policy=name)
        figures += [
            _growth(sizes, few, many, where=f"{name}, SQLite"),
            within(
                f"end_turn at {sizes.turns:,} turns, {name}, SQLite, processor time",
                many.ms,
                bound=END_TURN_MS,
                unit="ms",
                against="the clock",
                note=f"{many.hashing_ms:.1f} ms of it hash the chat and the sets",
            ),
        ]
    return figures


async def xtdb_turn_figures(sizes: TurnSizes, xtdb: OwnXtdb, *, say: Say) -> list[Figure]:
    """Measure the client's own time in XTDB, under both policies."""
    figures: list[Figure] = []
    for name in _POLICIES:
        say(f"end_turn at {sizes.turns:,} turns, {name}, XTDB")
        async with await XtdbStore.open(
            f"xtdb+{xtdb.base}", kinds=KINDS, timeout_s=WAIT_SECONDS
        ) as store:
            few, many = await _grown(store, sizes, policy=name)
        figures.append(_growth(sizes, few, many, where=f"{name}, XTDB"))
    return figures


async def past_figures(sizes: TurnSizes, *, say: Say) -> list[Figure]:
    """Measure the prompt as of a turn near the beginning, in the middle and near the end."""
    turns = sizes.past
    say(f"past prompts of {turns:,} turns")
    figures = []
    async with _sqlite() as store, _client(store) as client:
        live = await client.start("past", system_prompt="-")
        growing = _Growing(live, Filler("past"), None)
        for _ in range(turns):
            await growing.add_turn()
        for turn in (10, turns // 2, turns - 2):
            seconds = []
            for _ in range(sizes.rounds):
                started = process_time()
                await client.prompt_as_of("past", turn=turn)
                seconds.append(process_time() - started)
            figures.append(
                within(
                    f"prompt as of turn {turn} of {turns:,}, processor time",
                    median(seconds) * 1e3,
                    bound=PAST_PROMPT_MS,
                    unit="ms",
                    against="the clock",
                    note=f"fastest of {sizes.rounds}: {min(seconds) * 1e3:.0f} ms",
                )
            )
    return figures


def _growth(sizes: TurnSizes, few: _Growing, many: _Growing, *, where: str) -> Figure:
    beyond = (many.ms - many.hashing_ms) / (few.ms - few.hashing_ms)
    return at_most(
        f"end_turn at {sizes.turns:,} turns beyond hashing, {where}, processor time",
        beyond,
        bound=GROWTH_MAX,
        against=f"itself at {FEW} turns",
        note=f"{many.ms:.1f} ms, {many.hashing_ms:.1f} ms of it hash what the hashes must cover; "
        f"at {FEW} turns {few.ms:.1f} ms; hashing included {many.ms / few.ms:.2f}×",
    )


async def _grown(store: Store, sizes: TurnSizes, *, policy: str) -> tuple[_Growing, _Growing]:
    """Add turns to a short and to a long chat, alternately."""
    async with _client(store) as client:
        chats = []
        for turns in (FEW, sizes.turns):
            session_id = f"{policy}-{turns}-{uuid4().hex[:8]}"
            plan = SessionPlan(
                session_id=session_id, calls=turns, active=15, message_chars=MESSAGE_CHARS
            )
            await build_session(store, plan)
            live = await client.resume(session_id)
            chats.append(_Growing(live, Filler(session_id), _POLICIES[policy]))
        for _ in range(sizes.measured):
            for chat in chats:
                await chat.add_turn()
    return chats[0], chats[1]


@asynccontextmanager
async def _sqlite() -> AsyncIterator[SqliteStore]:
    with TemporaryDirectory(prefix="ctxmgr-bench-", dir=Path.cwd()) as folder:
        path = Path(folder) / "turns.db"
        async with await SqliteStore.open(path, kinds=KINDS, durability="normal") as store:
            yield store


@asynccontextmanager
async def _client(store: Store) -> AsyncIterator[Client]:
    async with connect(store=store, tracking=False) as client:
        yield client
