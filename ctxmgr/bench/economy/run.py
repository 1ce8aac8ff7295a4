"""`ctxmgr bench economy DIR`: replays recorded sessions under several policies and compares costs.

Every policy is evaluated on the messages it sends. Ours, with default settings, is also replayed
through a client and its store, as a harness would run it, and must send the same bytes.
"""

from asyncio import to_thread
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ctxmgr.bench.economy.compaction import TURNS, WINDOW_TOKENS, compaction_figures
from ctxmgr.bench.economy.figures import Measured, figures, planning_figures, token_figures
from ctxmgr.bench.economy.judge import PolicyResult
from ctxmgr.bench.economy.picture import Curve, picture
from ctxmgr.bench.economy.policies import Ours, append_only, clear, clip, keep
from ctxmgr.bench.economy.replay import Replay
from ctxmgr.bench.economy.sessions import read_folder
from ctxmgr.bench.report import Figure, Report, Say
from ctxmgr.core.context.tokens import TokenCounter
from ctxmgr.core.economy.policy import Economy, EconomyMode, Prices
from ctxmgr.errors import Incorrect

DIAL: Final = (0.0, 0.2, 0.35, 0.5, 0.75, 1.0)
SIMPLE: Final = (
    keep(5),
    keep(10),
    keep(5, every=10),
    keep(10, every=25),
    clear(32_000, 16_000),
    clear(64_000, 32_000),
    clip(250),
    clip(500),
    clip(1_000),
    clip(2_000),
)
QUICK_SESSIONS: Final = 5
"""Sessions per file in a short run."""

SHORT_TURNS: Final = 200
SHORT_WINDOW_TOKENS: Final = 10_000
"""Of the session that is compacted in a short run."""

PRICES: Final = Prices()
_DRAWN: Final = ("append-only", "keep 5 every call", "keep 5 in steps of 10", "clear at 64k to 32k")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRow:
    """A policy on all sessions of one file; costs and tokens are relative to append-only."""

    file: str
    policy: str
    cost: float
    keep: float
    line: float
    all_line: float
    tokens: float
    hit: float
    written: float
    breaks_per_100: float
    asked_back_per_100: float
    """Calls that needed a name missing from the prompt: each costs at least a re-activation."""
    peak_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """Our policy on one session."""

    file: str
    session: str
    calls: int
    cost: float
    keep: float
    line: float
    all_line: float
    breaks_per_100: float
    peak_tokens: int
    peak_tokens_full: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EconomyReport(Report):
    policies: tuple[PolicyRow, ...]
    sessions: tuple[SessionRow, ...]
    picture: str | None = None


async def run(
    *,
    quick: bool,
    say: Say,
    histories: int | None = None,
    folder: Path | None = None,
    picture_file: Path | None = None,
) -> EconomyReport:
    """Replay the sessions of a folder under every policy."""
    if histories is not None:
        raise Incorrect("--histories compares the stores; use it with `ctxmgr bench stores`")
    if folder is None:
        raise Incorrect("`ctxmgr bench economy` takes a folder of recorded sessions; pass one")
    count = TokenCounter().count
    results: list[Figure] = []
    measured: list[Measured] = []
    by_name = read_folder(folder, sessions_max=QUICK_SESSIONS if quick else None)
    for name, sessions in by_name.items():
        replay = Replay(name, sessions, count=count)
        measured.append(await _measure(replay, say))
        results += figures(measured[-1], prices=PRICES, promised=not quick)
    say("sessions longer than the window")
    every = [session for sessions in by_name.values() for session in sessions]
    results += compaction_figures(
        every,
        count=count,
        turns=SHORT_TURNS if quick else TURNS,
        window_tokens=SHORT_WINDOW_TOKENS if quick else WINDOW_TOKENS,
        promised=not quick,
    )
    results += [*planning_figures(count=count), *token_figures(quick=quick)]
    if picture_file is not None:
        await to_thread(picture_file.write_text, _picture(measured), encoding="utf-8")
    return EconomyReport(
        figures=tuple(results),
        policies=tuple(
            _policy_row(file, result)
            for file in measured
            for result in (file.full, *file.simple, *file.dial)
        ),
        sessions=tuple(row for file in measured for row in _session_rows(file)),
        picture=None if picture_file is None else str(picture_file),
    )


async def _measure(replay: Replay, say: Say) -> Measured:
    say(f"{replay.name}: append-only")
    full = replay.under(append_only())
    simple = []
    for policy in SIMPLE:
        say(f"{replay.name}: {policy.name}")
        simple.append(replay.under(policy))
    dial = []
    for fidelity in DIAL:
        say(f"{replay.name}: economy {fidelity:g}")
        dial.append(replay.under(Ours(Economy(fidelity=fidelity))))
    arrival = replay.under(Ours(Economy(mode=EconomyMode.ARRIVAL)))
    ours = Ours(Economy())
    say(f"{replay.name}: economy through a client")
    await replay.check_through_client(ours)
    default = next(result for result in dial if result.policy == ours.name)
    return Measured(
        name=replay.name,
        full=full,
        simple=tuple(simple),
        dial=tuple(dial),
        default=default,
        arrival=arrival,
        prose=replay.under(Ours(Economy(shorten_prose=True))),
        marked_cost=replay.marked_cost(ours, prices=PRICES),
        one_mark_cost=replay.marked_cost(ours, prices=PRICES, marks_max=1),
        truth=replay.truth(ours),
    )


def _policy_row(measured: Measured, result: PolicyResult) -> PolicyRow:
    total, full = result.total, measured.full.total
    return PolicyRow(
        file=measured.name,
        policy=result.policy,
        cost=round(total.cost(PRICES) / full.cost(PRICES), 4),
        keep=round(total.keep, 4),
        line=round(total.line, 4),
        all_line=round(total.all_line, 4),
        tokens=round(total.input_tokens / full.input_tokens, 4),
        hit=round(total.hit, 4),
        written=round(total.written_tokens / full.written_tokens, 4),
        breaks_per_100=round(total.breaks_per_100, 1),
        asked_back_per_100=round(100 * total.asked_back / total.calls, 1),
        peak_tokens=total.peak_tokens,
    )


def _session_rows(measured: Measured) -> list[SessionRow]:
    pairs = zip(measured.default.sessions, measured.full.sessions, strict=True)
    return [
        SessionRow(
            file=measured.name,
            session=ours.session_id,
            calls=ours.score.calls,
            cost=round(ours.score.cost(PRICES) / full.score.cost(PRICES), 4),
            keep=round(ours.score.keep, 4),
            line=round(ours.score.line, 4),
            all_line=round(ours.score.all_line, 4),
            breaks_per_100=round(ours.score.breaks_per_100, 1),
            peak_tokens=ours.score.peak_tokens,
            peak_tokens_full=full.score.peak_tokens,
        )
        for ours, full in pairs
    ]


def _picture(measured: Sequence[Measured]) -> str:
    """Draw the longest session."""
    chosen = max(measured, key=lambda file: max(s.score.calls for s in file.full.sessions))
    sessions = chosen.full.sessions
    longest = max(range(len(sessions)), key=lambda n: sessions[n].score.calls)
    drawn = [result for result in (chosen.full, *chosen.simple) if result.policy in _DRAWN]
    curves = [Curve(result.policy, result.sessions[longest]) for result in (*drawn, chosen.default)]
    title = f"{chosen.name}, {sessions[longest].session_id}"
    return picture(title, curves, prices=PRICES)
