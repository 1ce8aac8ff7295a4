"""`ctxmgr bench surfaces`: benchmarks of HTTP, inspector, MCP, imports and integrations."""

from ctxmgr.bench.report import Report, Say
from ctxmgr.bench.surfaces import shims
from ctxmgr.bench.surfaces.http import http_figures
from ctxmgr.bench.surfaces.imports import import_figures
from ctxmgr.bench.surfaces.listing import listing_figures
from ctxmgr.bench.surfaces.mcp import mcp_figures
from ctxmgr.bench.surfaces.paint import paint_figures
from ctxmgr.errors import Incorrect


async def run(*, quick: bool, histories: int | None, say: Say) -> Report:
    """Measure the figures that have targets."""
    if histories is not None:
        raise Incorrect("--histories compares the stores; use it with `ctxmgr bench stores`")
    figures = await http_figures(quick=quick, say=say)
    figures += await listing_figures(quick=quick, say=say)
    figures += await paint_figures(quick=quick, say=say)
    figures += await mcp_figures(quick=quick, say=say)
    figures += await import_figures(quick=quick, say=say)
    figures += await shims.shim_figures(shims.QUICK if quick else shims.FULL, say=say)
    return Report(figures=tuple(figures))
