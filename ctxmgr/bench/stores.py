"""`ctxmgr bench stores`: both stores, the codec and the door, each beside its baseline."""

from ctxmgr.bench.edn_figures import edn_figures
from ctxmgr.bench.report import Report, Say
from ctxmgr.bench.sqlite_figures import sqlite_figures
from ctxmgr.bench.xtdb_figures import xtdb_figures


async def run(*, quick: bool, histories: int | None, say: Say) -> Report:
    """Measure what the stores promise; with ``histories`` only whether they agree on so many."""
    if histories:
        return Report(figures=tuple(await xtdb_figures(quick=quick, histories=histories, say=say)))
    figures = await sqlite_figures(quick=quick, say=say)
    say("EDN")
    figures += edn_figures(quick=quick)
    figures += await xtdb_figures(quick=quick, histories=None, say=say)
    return Report(figures=tuple(figures))
