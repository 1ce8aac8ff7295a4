"""Benchmarks of importing bundles: a long session costs no more per turn. Writes stores.

The sessions are made by a client, turn by turn, as bundles hold every version.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from ctxmgr.app import connect
from ctxmgr.bench.core.built_session import MESSAGE_CHARS, OUTPUT_CHARS, Filler
from ctxmgr.bench.report import Figure, Say, at_most
from ctxmgr.core.client.client import Client

PER_TURN_MAX: Final = 1.2
"""How much more a turn of the long session may cost than one of the short session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSizes:
    """The size of the measurement."""

    short: int
    """Turns."""
    long: int
    rounds: int


FULL: Final = BundleSizes(short=100, long=800, rounds=5)
QUICK: Final = BundleSizes(short=20, long=80, rounds=3)


async def bundle_figures(sizes: BundleSizes, *, say: Say) -> list[Figure]:
    """Import a short and a long session into new stores."""
    with TemporaryDirectory(prefix="ctxmgr-bench-", dir=Path.cwd()) as folder:
        say(f"build sessions of {sizes.short} and {sizes.long} turns")
        short, long = [
            await _exported(Path(folder), turns=turns) for turns in (sizes.short, sizes.long)
        ]
        say("import them")
        times = {sizes.short: list[float](), sizes.long: list[float]()}
        for number in range(sizes.rounds):
            for path, turns in ((short, sizes.short), (long, sizes.long)):
                target = Path(folder) / f"{turns}-{number}.db"
                times[turns].append(await _imported(path, target) / turns)
    per_short, per_long = (median(times[turns]) for turns in (sizes.short, sizes.long))
    return [
        at_most(
            f"import of a bundle of {sizes.long} turns, processor time per turn",
            per_long / per_short,
            bound=PER_TURN_MAX,
            against=f"a bundle of {sizes.short} turns",
            note=f"{per_long * 1e3:.1f} ms, {per_short * 1e3:.1f} ms",
        )
    ]


async def _exported(folder: Path, *, turns: int) -> Path:
    path, url = folder / f"{turns}.bundle", f"sqlite:///{folder}/{turns}.db"
    async with connect(url, tracking=False) as client:
        await _worked(client, turns=turns)
        await client.export_session("s", path=path, replace=True)
    return path


async def _worked(client: Client, *, turns: int) -> None:
    filler = Filler(f"bundle-{turns}")
    session = await client.start("s", system_prompt=filler.text(OUTPUT_CHARS))
    for number in range(turns):
        await session.render(filler.text(MESSAGE_CHARS))
        await session.record(
            f"call-{number}",
            tool="bash",
            args={"command": f"make test TARGET={number}"},
            output=filler.text(OUTPUT_CHARS),
            discover=False,
        )
        await session.end_turn(filler.text(MESSAGE_CHARS))


async def _imported(path: Path, target: Path) -> float:
    """Import into a new store; return the processor time in seconds."""
    async with connect(f"sqlite:///{target}", tracking=False) as client:
        started = time.process_time()
        await client.import_session(path)
        return time.process_time() - started
