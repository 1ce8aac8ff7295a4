"""`ctxmgr bench stores`: both stores, the EDN reader and XTDB's HTTP server, with baselines."""

from ctxmgr.bench.report import Report, Say
from ctxmgr.bench.stores.edn import edn_figures
from ctxmgr.bench.stores.sqlite import sqlite_figures
from ctxmgr.bench.stores.verify import verify_figures
from ctxmgr.bench.stores.xtdb import xtdb_figures


async def run(*, quick: bool, histories: int | None, say: Say) -> Report:
    """Measure the stores; with ``histories``, only compare them on that many random histories."""
    if histories:
        return Report(figures=tuple(await xtdb_figures(quick=quick, histories=histories, say=say)))
    figures = await sqlite_figures(quick=quick, say=say)
    figures += await verify_figures(quick=quick, say=say)
    say("EDN")
    figures += edn_figures(quick=quick)
    figures += await xtdb_figures(quick=quick, histories=None, say=say)
    return Report(figures=tuple(figures))
