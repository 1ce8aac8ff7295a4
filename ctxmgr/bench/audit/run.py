"""`ctxmgr bench audit`: benchmarks of the audit log: speed, tampering, crashes."""

from ctxmgr.bench.audit import crashes, speed, tampering
from ctxmgr.bench.report import Report, Say
from ctxmgr.errors import Incorrect


async def run(*, quick: bool, histories: int | None, say: Say) -> Report:
    """Measure the figures that have targets."""
    if histories is not None:
        raise Incorrect("--histories compares the stores; use it with `ctxmgr bench stores`")
    sizes = speed.QUICK if quick else speed.FULL
    figures = await speed.append_figures(sizes, say=say)
    figures += await speed.verify_figures(sizes, say=say)
    trials = tampering.QUICK if quick else tampering.FULL
    figures += await tampering.tamper_figures(trials, say=say)
    rounds = crashes.QUICK_ROUNDS if quick else crashes.ROUNDS
    figures += await crashes.crash_figures(rounds, say=say)
    return Report(figures=tuple(figures))
