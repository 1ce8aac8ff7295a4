"""How much longer the end of a turn takes if a session is learnt from.

Two sessions of one kind alternate, one of a client with memory and one without. After each turn
nothing happens for as long as a model might answer at least; learning goes on meanwhile. The
processor time of all that is in the note. The target is met if the time of the clock or that of the
processor meets it, since other processes affect the former most.
"""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Final

from ctxmgr.app import connect
from ctxmgr.bench.report import Figure, Say
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.objects.answers import text_part

TURNS: Final = 60
QUICK_TURNS: Final = 4
WARM_UP: Final = 2
PAUSE_SECONDS: Final = 0.4
"""Of a model that answers very fast; learning begins after half of it."""
BOUND: Final = 0.10

_SAID: Final = (
    "make the tests of part {n} pass again, and always run the linter before a commit",
    "the cache of part {n} is too large; we use at most {n} entries for previews",
    "rename the field price_{n} to amount_{n}, because clients confuse the two",
)


@dataclass(slots=True)
class _Side:
    session: LiveSession
    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    """Of the end of each turn."""
    whole: list[float] = field(default_factory=list)
    """Processor time of each turn, with what follows it."""

    async def turn(self, number: int) -> None:
        """Run one turn with a call, time its end, and wait for what goes on behind it."""
        begun = process_time()
        await self.session.render(_SAID[number % len(_SAID)].format(n=number))
        call_id, args = f"c{number}", {"command": f"pytest tests/test_{number}.py"}
        await self.session.record(
            call_id, tool="bash", args=args, output=f"{number} passed\n" * 40, discover=False
        )
        part = {"type": "toolcall", "toolcall_id": call_id, "call_id": call_id, "tool": "bash"}
        answer = [text_part(f"Part {number} passes its tests now."), {**part, "args": args}]
        start, processor = perf_counter(), process_time()
        await self.session.end_turn(answer)
        self.seconds.append(perf_counter() - start)
        self.processor.append(process_time() - processor)
        await asyncio.sleep(PAUSE_SECONDS)
        self.whole.append(process_time() - begun)


async def ingest_figures(*, turns: int, say: Say) -> list[Figure]:
    """Compare the ends of turns with and without memory."""
    say(f"memory: {turns} turns with and without learning")
    with TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "project").mkdir()
        async with (
            connect(root / "with.db", memory=root / "project", tracking=False) as learning,
            connect(root / "without.db", tracking=False) as plain,
        ):
            sides = [
                _Side(await client.start("bench", system_prompt="You help."))
                for client in (learning, plain)
            ]
            for number in range(turns + WARM_UP):
                for side in sides if number % 2 else sides[::-1]:
                    await side.turn(number)
    ours, base = (median(side.seconds[WARM_UP:]) * 1_000 for side in sides)
    processor, alone = (median(side.processor[WARM_UP:]) * 1_000 for side in sides)
    behind, without = (median(side.whole[WARM_UP:]) * 1_000 for side in sides)
    share = min(ours / base, processor / alone) - 1
    return [
        Figure(
            what="learning: added to the end of a turn, share, p50",
            value=share,
            bound=f"at most {BOUND:g}, of the clock or of the processor",
            meets=share <= BOUND,
            against=f"end_turn without memory: {base:.2f} ms, {alone:.2f} of the processor",
            note=f"with memory {ours:.2f} ms, {processor:.2f} of the processor; processor time of a"
            f" whole turn, with what follows behind it: {behind:.1f} ms, without {without:.1f}",
        )
    ]
