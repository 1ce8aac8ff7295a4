"""Benchmarks of resuming a long conversation in a new process, up to the next prompt.

    plain      against the library ``eventsourcing``, which reads the same texts as events
    economy    against plain: its time and its memory

The text is generated, with names that return as those of a project do. All processes are cold, but
find their modules compiled, as those of an installed package are; they alternate. Processor time is
compared, since the time of a process that starts depends on what else the machine does.
"""

import asyncio
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import orjson

from ctxmgr.app import connect
from ctxmgr.bench.core.long_chat_child import EVENTS, SESSION, WINDOW_TOKENS, ChildReport
from ctxmgr.bench.report import Figure, Say, at_most, reported
from ctxmgr.core.economy.policy import Economy
from ctxmgr.core.objects.answers import text_part, toolcall_part
from ctxmgr.core.objects.codec import KINDS
from ctxmgr.stores.sqlite.store import SqliteStore

PLAIN_BOUND: Final = 2.0
ECONOMY_BOUND: Final = 1.5
ECONOMY_MEMORY_BOUND: Final = 1.3

_NO_BYTECODE: Final = "PYTHONDONTWRITEBYTECODE"
"""If it is set, every process would compile all modules again."""

_WORDS: Final = 2_000
_LINES_MAX: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSizes:
    """The size of the measurement."""

    turns: int
    rounds: int


FULL: Final = ChatSizes(turns=2_000, rounds=5)
QUICK: Final = ChatSizes(turns=60, rounds=1)


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """One turn of the conversation, with one tool call."""

    user: str
    text: str
    command: str
    output: str


async def long_chat_figures(sizes: ChatSizes, *, say: Say) -> list[Figure]:
    """Build three stores with the same conversation, and resume each in new processes."""
    with TemporaryDirectory(prefix="ctxmgr-bench-", dir=Path.cwd()) as folder:
        say(f"build a conversation of {sizes.turns:,} turns, three times")
        turns = list(conversation(sizes.turns))
        plain, economy = (Path(folder) / name for name in ("plain.db", "economy.db"))
        await _build(plain, turns, policy=None)
        await _build(economy, turns, policy=Economy(window_tokens=WINDOW_TOKENS))
        events = _built_events(Path(folder) / "events.db", turns)
        say("resume them")
        paths = {"plain": plain, "economy": economy} | ({EVENTS: events} if events else {})
        runs: dict[str, list[ChildReport]] = {name: [] for name in paths}
        for number in range(sizes.rounds + 1):
            for name, path in paths.items():
                report = await _resumed(name, path, bytecode=Path(folder) / "bytecode")
                if number:  # the first run compiles the modules, as installing a package does
                    runs[name].append(report)
        return _figures(sizes, runs)


def conversation(turns: int) -> Iterator[ChatTurn]:
    """Yield turns of reproducible text, whose names return."""
    random = Random("a long conversation")  # noqa: S311 (filler, not a secret)
    names = [
        f"{random.choice(('load', 'parse', 'write', 'check'))}_{random.randrange(10**6):06}"
        for _ in range(_WORDS)
    ]
    for number in range(turns):
        known = names[: 20 + number % _WORDS]
        lines = [
            f"src/part{random.randrange(40)}.py:{row}:    {random.choice(known)}({row})"
            for row in range(random.randrange(_LINES_MAX))
        ]
        first, second = random.choices(known, k=2)
        yield ChatTurn(
            user=f"Now look at {first}." if number % 5 == 0 else "",
            text=f"I search where {first} calls {second}, and then change it. " * 4,
            command=f"grep -rn {first} src",
            output="\n".join(lines),
        )


async def _build(path: Path, turns: list[ChatTurn], *, policy: Economy | None) -> None:
    async with (
        await SqliteStore.open(path, kinds=KINDS, durability="normal") as store,
        connect(store=store, tracking=False, directory="/nowhere") as client,
    ):
        live = await client.start(SESSION, system_prompt="Be careful.")
        for number, turn in enumerate(turns):
            await live.render(turn.user, policy=policy)
            call, args = f"call-{number}", {"command": turn.command}
            await live.record(call, tool="bash", args=args, output=turn.output, discover=False)
            part = toolcall_part(call, call_id=call, tool="bash", args=args)
            await live.end_turn([text_part(turn.text), part])
        await client.pause(SESSION)


def _built_events(path: Path, turns: list[ChatTurn]) -> Path | None:
    """Store the same conversation as events; None if ``eventsourcing`` is not installed."""
    try:
        from ctxmgr.bench.core.event_store import store_turns  # noqa: PLC0415 (only to measure)
    except ModuleNotFoundError:
        return None
    store_turns(path, [[turn.user, turn.text, turn.command, turn.output] for turn in turns])
    return path


async def _resumed(what: str, path: Path, *, bytecode: Path) -> ChildReport:
    environment = {name: os.environ[name] for name in os.environ if name != _NO_BYTECODE}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ctxmgr.bench.core.long_chat_child", what, str(path)),
        stdout=asyncio.subprocess.PIPE,
        env=environment | {"PYTHONPYCACHEPREFIX": str(bytecode)},
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, "the process has printed the reason"
    return ChildReport(**orjson.loads(output))


def _figures(sizes: ChatSizes, runs: dict[str, list[ChildReport]]) -> list[Figure]:
    seconds = {name: median(run.seconds for run in of) for name, of in runs.items() if of}
    megabytes = {name: median(run.megabytes for run in of) for name, of in runs.items() if of}
    turns = f"{sizes.turns:,} turns, new process, with the next prompt"
    note = ", ".join(f"{name} {value:.2f} s" for name, value in seconds.items())
    against = "eventsourcing, reading the same texts as events"
    what = f"resume of {turns}: processor time, plain"
    if EVENTS in seconds:
        ratio = seconds["plain"] / seconds[EVENTS]
        first = at_most(what, ratio, bound=PLAIN_BOUND, against=against, note=note)
    else:
        first = reported(what, None, against=against, note="needs eventsourcing")
    figures = [
        first,
        at_most(
            f"resume of {turns}: processor time, economy",
            seconds["economy"] / seconds["plain"],
            bound=ECONOMY_BOUND,
            against="the plain form",
            note=note,
        ),
        at_most(
            f"resume of {turns}: peak memory, economy",
            megabytes["economy"] / megabytes["plain"],
            bound=ECONOMY_MEMORY_BOUND,
            against="the plain form",
            note=", ".join(f"{name} {value:.0f} MB" for name, value in megabytes.items()),
        ),
    ]
    if sizes.turns >= FULL.turns:
        return figures
    # Of a short conversation, only the imports would be compared.
    return [replace(figure, bound="", meets=None) for figure in figures]
