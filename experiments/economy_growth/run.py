"""Measure how cost grows with session length, up to 2,000 calls, on joined recorded sessions.

python -m experiments.economy_growth.run [FOLDER]    writes data, report and plot
"""

from itertools import accumulate
from pathlib import Path
from typing import Final

from ctxmgr.bench.economy.judge import CallScore
from ctxmgr.bench.economy.policies import Ours, Policy, append_only, keep
from ctxmgr.bench.economy.replay import Replay
from ctxmgr.bench.economy.sessions import RecordedSession
from ctxmgr.core.context.tokens import TokenCounter
from ctxmgr.core.economy.policy import Economy
from experiments.plot import lines
from experiments.replays import PRICES, Experiment, sessions, table

CALLS: Final = (50, 100, 200, 500, 1_000, 2_000)
NO_LIMIT: Final = 10**9
POLICIES: Final[tuple[Policy, ...]] = (
    append_only(),
    keep(5, every=10),
    Ours(Economy(window_tokens=NO_LIMIT)),
)


def joined(recorded: list[RecordedSession], *, calls: int) -> RecordedSession:
    """Join sessions as if one agent performed their tasks one after the other."""
    turns = [turn for session in recorded for turn in session.turns]
    return RecordedSession(
        session_id="joined", system_prompt=recorded[0].system_prompt, turns=tuple(turns[:calls])
    )


def spent(calls: tuple[CallScore, ...]) -> list[int]:
    """Return the cumulative prompt cost after each call."""
    call_costs = (
        PRICES.read * call.cached_tokens + PRICES.write * (call.tokens - call.cached_tokens)
        for call in calls
    )
    return [round(value) for value in accumulate(call_costs)]


def main() -> None:
    recorded = max(
        sessions().values(), key=lambda file: sum(len(session.turns) for session in file)
    )
    session = joined(recorded, calls=max(CALLS))
    replay = Replay("joined", [session], count=TokenCounter().count)
    curves = {}
    peaks = {}
    for policy in POLICIES:
        (result,) = replay.under(policy).sessions
        curves[policy.name] = spent(result.calls)
        peaks[policy.name] = [call.tokens for call in result.calls]
    rows = {
        f"{calls:,} calls": {name: curve[calls - 1] for name, curve in curves.items()}
        | {f"prompt of {name}": sizes[calls - 1] for name, sizes in peaks.items()}
        for calls in CALLS
        if calls <= len(session.turns)
    }
    plot = lines(curves, title="Cumulative prompt cost", x="call", y="uncached tokens")
    Experiment(Path(__file__).parent, "economy-growth").write(
        rows, plot=plot, table=table(rows, list(next(iter(rows.values()))))
    )


if __name__ == "__main__":
    main()
