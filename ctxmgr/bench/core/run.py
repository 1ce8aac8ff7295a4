"""`ctxmgr bench core`: benchmarks of prompts, files and resuming, with baselines."""

from ctxmgr.bench.core import files as files_figures
from ctxmgr.bench.core import long_chat
from ctxmgr.bench.core import render as render_figures
from ctxmgr.bench.core import resume as resume_figures
from ctxmgr.bench.report import Report, Say
from ctxmgr.errors import Incorrect


async def run(*, quick: bool, histories: int | None, say: Say) -> Report:
    """Measure the figures that have targets."""
    if histories is not None:
        raise Incorrect("--histories compares the stores; use it with `ctxmgr bench stores`")
    render, files, resume = render_figures, files_figures, resume_figures
    figures = await render.render_figures(render.QUICK if quick else render.FULL, say=say)
    figures += await files.files_figures(files.QUICK if quick else files.FULL, say=say)
    figures += await resume.resume_figures(resume.QUICK if quick else resume.FULL, say=say)
    sizes = long_chat.QUICK if quick else long_chat.FULL
    figures += await long_chat.long_chat_figures(sizes, say=say)
    return Report(figures=tuple(figures))
