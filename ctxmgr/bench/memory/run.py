"""`ctxmgr bench memory [DIR]`: what memory serves, how fast, and what a year makes of it."""

from asyncio import to_thread
from pathlib import Path
from typing import Any, Final

from ctxmgr.bench.knowledge.questions import read_locomo
from ctxmgr.bench.memory.contradiction_set import PAIRS, contradiction_figures
from ctxmgr.bench.memory.conversations import conversation_figures
from ctxmgr.bench.memory.ingest import QUICK_TURNS, TURNS, ingest_figures
from ctxmgr.bench.memory.knowledge_updates import knowledge_update_figures
from ctxmgr.bench.memory.prefetch import prefetch_figures
from ctxmgr.bench.memory.speed import QUESTIONS, speed_figures
from ctxmgr.bench.memory.year import year_figures
from ctxmgr.bench.report import Figure, Report, Say, reported
from ctxmgr.errors import Incorrect

WEEKS: Final = 52
QUICK_WEEKS: Final = 2
SIZES: Final = (10_000, 100_000)
QUICK_SIZES: Final = (1_000,)

_NEEDS_FOLDER: Final[dict[str, Any]] = {
    "what": "LoCoMo and recorded sessions",
    "value": None,
    "against": "FTS5, recency, most co-read",
    "note": "not shipped; pass a folder with retrieval/locomo*.json.gz and sessions/*.jsonl.gz",
}


async def run(
    *, quick: bool, say: Say, histories: int | None = None, folder: Path | None = None
) -> Report:
    """Measure everything; a short run takes one conversation, few memories and two weeks."""
    if histories is not None:
        raise Incorrect("--histories compares the stores; use it with `ctxmgr bench stores`")
    figures: list[Figure] = []
    sizes = QUICK_SIZES if quick else SIZES
    questions = QUESTIONS // 10 if quick else QUESTIONS
    figures += await speed_figures(sizes, questions=questions, say=say)
    figures += await ingest_figures(turns=QUICK_TURNS if quick else TURNS, say=say)
    if folder is None:
        figures.append(reported(**_NEEDS_FOLDER))
    else:
        sets = await to_thread(read_locomo, _inside(folder, "retrieval"))
        figures += await conversation_figures(sets[:1] if quick else sets, say=say)
        retrieval = _inside(folder, "retrieval")
        figures += await to_thread(knowledge_update_figures, retrieval, quick=quick, say=say)
        sessions = _inside(folder, "sessions")
        figures += await to_thread(prefetch_figures, sessions, quick=quick, say=say)
    say("memory: generated contradictions")
    figures += contradiction_figures(PAIRS)
    figures += await year_figures(weeks=QUICK_WEEKS if quick else WEEKS, say=say)
    return Report(figures=tuple(figures))


def _inside(folder: Path, name: str) -> Path:
    """Return a folder's own folder of that name, or itself if it has none."""
    return folder / name if (folder / name).is_dir() else folder
