"""Measure what each lever of the economy policy saves by removing it, on recorded sessions.

python -m experiments.economy_levers.run [FOLDER]    writes data, report and plot
"""

from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from ctxmgr.bench.economy.policies import Ours, append_only
from ctxmgr.bench.economy.replay import Replay
from ctxmgr.core.context.tokens import TokenCounter
from ctxmgr.core.discovery.known_tools import OutputKind
from ctxmgr.core.economy.folding import FoldLimits
from ctxmgr.core.economy.policy import Economy
from experiments.plot import bars
from experiments.replays import Experiment, row, sessions, table

ALL: Final = 10**9
SESSIONS_MAX: Final = 30
"""Per file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutArrival(Economy):
    """Outputs are not shortened on arrival."""

    def arriving(self, kind: OutputKind, *, tokens: int, asked_back: int = 0) -> FoldLimits:
        limits = Economy.arriving(self, kind, tokens=tokens, asked_back=asked_back)
        return limits if kind is OutputKind.ARGUMENT else replace(limits, tokens=ALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutArguments(Economy):
    """Arguments are never folded."""

    def arriving(self, kind: OutputKind, *, tokens: int, asked_back: int = 0) -> FoldLimits:
        limits = Economy.arriving(self, kind, tokens=tokens, asked_back=asked_back)
        return replace(limits, tokens=ALL) if kind is OutputKind.ARGUMENT else limits

    def aged(self, kind: OutputKind, *, tokens: int) -> FoldLimits:
        limits = Economy.aged(self, kind, tokens=tokens)
        return replace(limits, tokens=ALL) if kind is OutputKind.ARGUMENT else limits


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutNames(Economy):
    """Hidden names are not listed."""

    def arriving(self, kind: OutputKind, *, tokens: int, asked_back: int = 0) -> FoldLimits:
        limits = Economy.arriving(self, kind, tokens=tokens, asked_back=asked_back)
        return replace(limits, names_tokens=0)

    def aged(self, kind: OutputKind, *, tokens: int) -> FoldLimits:
        return replace(Economy.aged(self, kind, tokens=tokens), names_tokens=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutChoice(Economy):
    """Head and tail are kept instead of chosen lines."""

    def arriving(self, kind: OutputKind, *, tokens: int, asked_back: int = 0) -> FoldLimits:
        limits = Economy.arriving(self, kind, tokens=tokens, asked_back=asked_back)
        return replace(limits, ends=1.0)

    def aged(self, kind: OutputKind, *, tokens: int) -> FoldLimits:
        return replace(Economy.aged(self, kind, tokens=tokens), ends=1.0)


LEVERS: Final = MappingProxyType(
    {
        "all levers": Economy(),
        "no planned folds": Economy(calls_expected=0),
        "outputs arrive whole": WithoutArrival(),
        "arguments stay": WithoutArguments(),
        "no hidden names": WithoutNames(),
        "head and tail instead of chosen lines": WithoutChoice(),
    }
)


def main() -> None:
    count = TokenCounter().count
    rows = {}
    for name, recorded in sessions().items():
        replay = Replay(name, recorded[:SESSIONS_MAX], count=count)
        full = replay.under(append_only()).total
        for lever, policy in LEVERS.items():
            rows[f"{name}: {lever}"] = row(replay.under(Ours(policy)).total, full)
    plot = bars(
        {name: (values["cost"], values["line"]) for name, values in rows.items()},
        title="Cost and line with one lever removed",
        names=("cost", "line"),
    )
    columns = ("cost", "keep", "line", "all_line", "written", "breaks_per_100", "peak_tokens")
    Experiment(Path(__file__).parent, "economy-levers").write(
        rows, plot=plot, table=table(rows, columns)
    )


if __name__ == "__main__":
    main()
