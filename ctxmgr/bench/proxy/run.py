"""`ctxmgr bench proxy DIR`: replays recorded sessions call by call through the proxy's engine.

With ``--url`` they go through a proxy that is running, whoever wrote it. Costs are compared with
those of the same requests without a proxy, in the same run, with a cache that holds only marked
prefixes. The replay is open: nobody asks a text back. Without ``--url``, the time that the proxy
adds to the first byte of an answer is measured as well.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

from ctxmgr.app import open_store
from ctxmgr.bench.economy.needs import needs
from ctxmgr.bench.economy.sessions import RecordedSession, read_folder
from ctxmgr.bench.proxy.any_proxy import AnyProxy, RecordingUpstream
from ctxmgr.bench.proxy.client import answers, requests
from ctxmgr.bench.proxy.latency import latency_figures
from ctxmgr.bench.proxy.scoring import ProxyScore, SessionScorer
from ctxmgr.bench.report import Figure, Report, Say
from ctxmgr.core.context.tokens import TokenCounter
from ctxmgr.core.economy.folding import Count
from ctxmgr.core.economy.policy import Prices
from ctxmgr.errors import Incorrect
from ctxmgr.proxy.engine import Api, Engine, Incoming, PassThrough
from ctxmgr.proxy.modes import Shaping
from ctxmgr.proxy.shaping_engine import ShapingEngine

QUICK_SESSIONS: Final = 5
"""Sessions per file in a short run."""

UPSTREAM_PORT: Final = 8399
"""Where a proxy that is measured must forward to, unless another port is given."""

PATIENT_S: Final = 60.0
"""For shaping and for the store here: what is sent must not depend on how busy the machine is."""

PRICES: Final = Prices()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeBounds:
    """Targets of one mode: cost at most, keep and line at least."""

    cost: float | None = None
    keep: float | None = None
    line: float | None = None


BOUNDS: Final[Mapping[tuple[str, str], ModeBounds]] = {
    ("pi", Shaping.RESULTS): ModeBounds(cost=0.76),
    ("pi", Shaping.ARGUMENTS): ModeBounds(cost=0.65, keep=0.99, line=0.99),
    ("pi", Shaping.FOLDS): ModeBounds(cost=0.46, keep=0.99, line=0.93),
    ("mini", Shaping.FOLDS): ModeBounds(cost=0.88, keep=0.99, line=0.97),
}
"""By the beginning of a file's name, and the mode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRow:
    """One mode on all sessions of one file; the cost is relative to no proxy."""

    file: str
    proxy: str
    cost: float
    keep: float
    line: float
    all_line: float
    breaks_per_100: float
    illegal: int
    peak_tokens: int
    added_ms_p50: float
    added_ms_p99: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyReport(Report):
    proxies: tuple[ProxyRow, ...]


async def run(
    *,
    quick: bool,
    say: Say,
    histories: int | None = None,
    folder: Path | None = None,
    url: str | None = None,
    upstream_port: int = UPSTREAM_PORT,
) -> ProxyReport:
    """Replay the sessions of a folder in every mode, or through the proxy at a URL."""
    if histories is not None:
        raise Incorrect("--histories compares the stores; use it with `ctxmgr bench stores`")
    if folder is None:
        raise Incorrect("`ctxmgr bench proxy` takes a folder of recorded sessions; pass one")
    count = TokenCounter().count
    rows: list[ProxyRow] = []
    by_name = read_folder(folder, sessions_max=QUICK_SESSIONS if quick else None)
    for name, sessions in by_name.items():
        say(f"{name}: without a proxy")
        none = await _through(sessions, PassThrough(), count=count)
        if url is not None:
            say(f"{name}: {url}, which must forward to http://127.0.0.1:{upstream_port}")
            async with RecordingUpstream(upstream_port) as upstream:
                measured = await _through(sessions, AnyProxy(url, upstream), count=count)
            rows.append(_row(name, url, measured, none))
            continue
        for shaping in Shaping:
            say(f"{name}: {shaping}")
            store = await open_store("sqlite://:memory:")
            engine = ShapingEngine(
                store, shaping=shaping, deadline_s=PATIENT_S, store_s=PATIENT_S, now=lambda: 1.0
            )
            rows.append(_row(name, shaping, await _through(sessions, engine, count=count), none))
            await engine.close()
            await store.close()
    figures = [figure for row in rows for figure in _figures(row, promised=not quick)]
    if url is None:
        everything = [session for sessions in by_name.values() for session in sessions]
        figures += await latency_figures(everything, quick=quick, say=say)
    return ProxyReport(figures=tuple(figures), proxies=tuple(rows))


@dataclass(frozen=True, slots=True)
class _Run:
    score: ProxyScore
    times: tuple[float, ...]


async def _through(sessions: Sequence[RecordedSession], engine: Engine, *, count: Count) -> _Run:
    score, times = ProxyScore(), list[float]()
    for session in sessions:
        scorer = SessionScorer(score, count=count)
        calls = zip(needs(session), session.turns, strict=True)
        async for body, elapsed in _forwarded(session, engine):
            needed, turn = next(calls)
            scorer.add(body, needed, answer=turn.raw)
            times.append(elapsed)
        scorer.finish()
    return _Run(score, tuple(sorted(times)))


async def _forwarded(
    session: RecordedSession, engine: Engine
) -> AsyncIterator[tuple[bytes, float]]:
    for body, content in zip(requests(session), answers(session), strict=True):
        if isinstance(engine, AnyProxy):
            engine.expect(content)
        request = Incoming(api=Api.ANTHROPIC_MESSAGES, path="/v1/messages", headers={}, body=body)
        started = perf_counter()
        outgoing = await engine.prepare(request)
        elapsed = perf_counter() - started
        yield outgoing.body, elapsed


def _row(name: str, proxy: str, measured: _Run, none: _Run) -> ProxyRow:
    judged, times = measured.score.judged, measured.times
    return ProxyRow(
        file=name,
        proxy=proxy,
        cost=round(measured.score.cost(PRICES) / none.score.cost(PRICES), 4),
        keep=round(judged.keep, 4),
        line=round(judged.line, 4),
        all_line=round(judged.all_line, 4),
        breaks_per_100=round(judged.breaks_per_100, 1),
        illegal=measured.score.illegal,
        peak_tokens=judged.peak_tokens,
        added_ms_p50=round(1e3 * median(times), 1),
        added_ms_p99=round(1e3 * times[int(0.99 * len(times))], 1),
    )


def _figures(row: ProxyRow, *, promised: bool) -> list[Figure]:
    bounds = next(
        (
            bounds
            for (file, mode), bounds in BOUNDS.items()
            if promised and row.file.startswith(file) and mode == row.proxy
        ),
        ModeBounds(),
    )
    what = f"{row.file}, {row.proxy}"
    note = f"{row.breaks_per_100} breaks per 100 calls, peak {row.peak_tokens} tokens"
    return [
        _figure(f"{what}: cost", row.cost, bounds.cost, most=True, note=note),
        _figure(f"{what}: keep", row.keep, bounds.keep, most=False),
        _figure(f"{what}: line", row.line, bounds.line, most=False),
        _figure(f"{what}: illegal requests", row.illegal, 0, most=True),
    ]


def _figure(what: str, value: float, bound: float | None, *, most: bool, note: str = "") -> Figure:
    words = "at most" if most else "at least"
    meets = None if bound is None else value <= bound if most else value >= bound
    return Figure(
        what=what,
        value=value,
        bound="" if bound is None else f"{words} {bound:g}",
        meets=meets,
        against="the same requests without a proxy",
        note=note,
    )
