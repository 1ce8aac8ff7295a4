"""Compare the cost of prompt layouts under a prefix cache, on recorded sessions.

    python -m experiments.economy_layouts.run [FOLDER]    writes data, report and plot

Every layout but the first is rendered by a client with its own store; all are evaluated on the
messages that are sent.
"""

import asyncio
from collections.abc import AsyncIterator
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType
from typing import Final

from ctxmgr.bench.economy.judge import CallScore, Judge, Score
from ctxmgr.bench.economy.needs import needs
from ctxmgr.bench.economy.policies import append_only
from ctxmgr.bench.economy.replay import replayed
from ctxmgr.bench.economy.sent_messages import SentMessage, SentMessages, of_payload
from ctxmgr.bench.economy.sessions import RecordedSession
from ctxmgr.core.context.tokens import TokenCounter
from ctxmgr.core.economy.policy import Economy
from ctxmgr.core.sessions.collapse import Window
from experiments.plot import lines
from experiments.replays import PRICES, Experiment, row, sessions, table

NEVER: Final = 10**6
SESSIONS_MAX: Final = 5
"""Per file: the plain layouts are slow to render."""

LAYOUTS: Final = MappingProxyType(
    {
        "four sections, nothing folded": (None, Window(per_turn=NEVER, turns_back=NEVER)),
        "four sections, sliding window": (None, Window()),
        "one stream, economy": (Economy(), Window()),
    }
)
STREAM: Final = "one stream, nothing folded"
COUNT: Final = TokenCounter().count


async def measure(recorded: RecordedSession, layout: str) -> Judge:
    """Replay one session in one layout."""
    judge, needed = Judge(count=COUNT), iter(needs(recorded))
    answers = iter(turn.raw for turn in recorded.turns)
    async for sent in _sent(recorded, layout):
        judge.judge(sent, next(needed), answer=next(answers))
    return judge


async def _sent(recorded: RecordedSession, layout: str) -> AsyncIterator[list[SentMessage]]:
    if layout == STREAM:
        messages = SentMessages(count=COUNT)
        for context in append_only().contexts(recorded, count=COUNT):
            yield messages.of(context)
        return
    policy, window = LAYOUTS[layout]
    async for payload in replayed(recorded, policy, window=window):
        yield of_payload(payload, count=COUNT)


def costs(calls: list[CallScore]) -> list[int]:
    """Return the cumulative prompt cost after each call."""
    call_costs = (
        PRICES.read * call.cached_tokens + PRICES.write * (call.tokens - call.cached_tokens)
        for call in calls
    )
    return [round(value) for value in accumulate(call_costs)]


async def main() -> None:
    rows, drawn = {}, {}
    for name, recorded in sessions().items():
        scores = {}
        for layout in (STREAM, *LAYOUTS):
            scores[layout] = Score()
            for session in recorded[:SESSIONS_MAX]:
                judge = await measure(session, layout)
                scores[layout].add(judge.score)
                if len(recorded) == 1:
                    drawn[layout] = costs(judge.calls)
        full = scores[STREAM]
        rows |= {f"{name}: {layout}": row(score, full) for layout, score in scores.items()}
    plot = lines(drawn, title="Cumulative prompt cost", x="call", y="uncached tokens")
    columns = ("cost", "keep", "line", "tokens", "written", "breaks_per_100", "peak_tokens")
    experiment = Experiment(Path(__file__).parent, "economy-layouts")
    experiment.write(rows, plot=plot, table=table(rows, columns))


if __name__ == "__main__":
    asyncio.run(main())
