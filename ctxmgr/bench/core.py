"""`ctxmgr bench core`: prompts, files and resuming, each beside its baseline."""

from ctxmgr.bench import files_figures, render_figures, resume_figures
from ctxmgr.bench.report import Report, Say
from ctxmgr.errors import Incorrect


async def run(*, quick: bool, histories: int | None, say: Say) -> Report:
    """Measure what the context manager promises."""
    if histories is not None:
        raise Incorrect("histories compare the stores: ctxmgr bench stores --histories N")
    render, files, resume = render_figures, files_figures, resume_figures
    figures = await render.render_figures(render.QUICK if quick else render.FULL, say=say)
    figures += await files.files_figures(files.QUICK if quick else files.FULL, say=say)
    figures += await resume.resume_figures(resume.QUICK if quick else resume.FULL, say=say)
    return Report(figures=tuple(figures))
