"""`ctxmgr bench surfaces`: what a surface costs beside the store call it wraps."""

from ctxmgr.bench.http_figures import http_figures
from ctxmgr.bench.mcp_figures import mcp_figures
from ctxmgr.bench.paint_figures import paint_figures
from ctxmgr.bench.report import Report, Say
from ctxmgr.errors import Incorrect


async def run(*, quick: bool, histories: int | None, say: Say) -> Report:
    """Measure what the surfaces promise."""
    if histories is not None:
        raise Incorrect("histories compare the stores: ctxmgr bench stores --histories N")
    figures = await http_figures(quick=quick, say=say)
    figures += await paint_figures(quick=quick, say=say)
    return Report(figures=(*figures, *await mcp_figures(quick=quick, say=say)))
