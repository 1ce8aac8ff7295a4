"""`ctxmgr bench experience`: ingest, acknowledgement, recall, several processes, crashes."""

from ctxmgr.bench.experience import contention, crashes, ingest, processor_time, recall
from ctxmgr.bench.report import Report, Say
from ctxmgr.errors import Incorrect


async def run(*, quick: bool, histories: int | None, say: Say, steps: int | None = None) -> Report:
    """Measure the figures that have targets; ``steps`` is the size of the log for recall."""
    if histories is not None:
        raise Incorrect("--histories compares the stores; use it with `ctxmgr bench stores`")
    if steps is not None and steps < recall.QUICK_STEPS:
        raise Incorrect(f"--steps must be at least {recall.QUICK_STEPS}, not {steps}")
    figures = ingest.ingest_figures(ingest.QUICK_STEPS if quick else ingest.FULL_STEPS, say=say)
    figures += ingest.acknowledgement_figures(say=say)
    size = steps or (recall.QUICK_STEPS if quick else recall.FULL_STEPS)
    figures += await recall.recall_figures(size, say=say)
    compared = processor_time.QUICK_STEPS if quick else processor_time.STEPS
    figures += await processor_time.processor_time_figures(compared, say=say)
    seconds = contention.QUICK_SECONDS if quick else contention.SECONDS
    figures += await contention.contention_figures(seconds, say=say)
    rounds = crashes.QUICK_ROUNDS if quick else crashes.ROUNDS
    figures += await crashes.crash_figures(rounds, say=say)
    return Report(figures=tuple(figures))
