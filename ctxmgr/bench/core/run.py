"""`ctxmgr bench core`: benchmarks of turns, prompts, files, resuming and bundles."""

from ctxmgr.bench.core import append as append_figures
from ctxmgr.bench.core import bundles as bundles_figures
from ctxmgr.bench.core import files as files_figures
from ctxmgr.bench.core import long_chat
from ctxmgr.bench.core import render as render_figures
from ctxmgr.bench.core import resume as resume_figures
from ctxmgr.bench.core import turns as turn_figures
from ctxmgr.bench.report import Report, Say
from ctxmgr.bench.stores.xtdb_server import own_xtdb
from ctxmgr.errors import Incorrect


async def run(*, quick: bool, histories: int | None, say: Say) -> Report:
    """Measure the figures that have targets."""
    if histories is not None:
        raise Incorrect("--histories compares the stores; use it with `ctxmgr bench stores`")
    render, files, resume = render_figures, files_figures, resume_figures
    figures = await render.render_figures(render.QUICK if quick else render.FULL, say=say)
    figures += await files.files_figures(files.QUICK if quick else files.FULL, say=say)
    turns, turn_sizes = turn_figures, turn_figures.QUICK if quick else turn_figures.FULL
    figures += await turns.sqlite_turn_figures(turn_sizes, say=say)
    figures += await turns.past_figures(turn_sizes, say=say)
    append_sizes = append_figures.QUICK if quick else append_figures.FULL
    figures += await append_figures.append_figures(append_sizes, say=say)
    bundles = bundles_figures
    figures += await bundles.bundle_figures(bundles.QUICK if quick else bundles.FULL, say=say)
    long_sizes = long_chat.QUICK if quick else long_chat.FULL
    figures += await long_chat.long_chat_figures(long_sizes, say=say)
    resume_sizes = resume.QUICK if quick else resume.FULL
    figures += await resume.embedded_figures(resume_sizes, say=say)
    async with own_xtdb(say) as xtdb:
        figures.append(await resume.xtdb_figure(resume_sizes, xtdb, say=say))
        figures += await turns.xtdb_turn_figures(turn_sizes, xtdb, say=say)
    return Report(figures=tuple(figures))
