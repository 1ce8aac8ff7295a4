"""`ctxmgr bench knowledge DIR`: what the search finds on public questions, against FTS5."""

from asyncio import to_thread
from pathlib import Path

from ctxmgr.bench.knowledge.questions import read_locomo, read_longmemeval
from ctxmgr.bench.knowledge.recall_figures import locomo_figures, longmemeval_figures
from ctxmgr.bench.report import Report, Say
from ctxmgr.errors import Incorrect
from ctxmgr.search.static_vectors import StaticEmbedder


async def run(
    *, quick: bool, say: Say, histories: int | None = None, folder: Path | None = None
) -> Report:
    """Ask the questions of a folder; a short run asks those of one conversation."""
    if histories is not None:
        raise Incorrect("--histories compares the stores; use it with `ctxmgr bench stores`")
    if folder is None:
        raise Incorrect(
            "`ctxmgr bench knowledge` takes a folder with LoCoMo's and LongMemEval's questions "
            "(locomo*.json.gz, longmemeval*.json.gz), which are not shipped; pass one"
        )
    embedder = StaticEmbedder.load()
    sets = await to_thread(read_locomo, folder)
    figures = await to_thread(locomo_figures, sets[:1] if quick else sets, embedder, say=say)
    if not quick:
        pool = await to_thread(read_longmemeval, folder)
        figures += await to_thread(longmemeval_figures, pool, embedder, say=say)
    return Report(figures=tuple(figures))
