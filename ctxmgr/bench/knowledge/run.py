"""`ctxmgr bench knowledge [DIR]`: what search and topics find, and their speed."""

from asyncio import to_thread
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from ctxmgr.bench.knowledge.compile_figures import compile_speed, evidence_figures
from ctxmgr.bench.knowledge.note_crashes import ROUNDS, crash_figures
from ctxmgr.bench.knowledge.questions import read_locomo, read_longmemeval, read_sessions
from ctxmgr.bench.knowledge.recall_figures import locomo_figures, longmemeval_figures
from ctxmgr.bench.knowledge.speed import FULL, QUICK, speed_figures
from ctxmgr.bench.knowledge.watchers import ordinary_figures, watcher_figures
from ctxmgr.bench.report import Figure, Report, Say, reported
from ctxmgr.errors import Incorrect
from ctxmgr.search.static_vectors import StaticEmbedder

_NEEDS_FOLDER: Final[dict[str, Any]] = {
    "what": "LoCoMo and LongMemEval",
    "value": None,
    "against": "FTS5",
    "note": "not shipped; pass a folder with locomo*.json.gz and longmemeval*.json.gz",
}


async def run(
    *, quick: bool, say: Say, histories: int | None = None, folder: Path | None = None
) -> Report:
    """Ask the questions of a folder; a short run asks those of one conversation.

    Without a folder the speed of the search is measured on generated text. Topics have their own
    messages, which are shipped. A full run also kills writers of notes.
    """
    if histories is not None:
        raise Incorrect("--histories compares the stores; use it with `ctxmgr bench stores`")
    sets = None if folder is None else await to_thread(read_locomo, folder)
    embedder = StaticEmbedder.load()
    sizes = QUICK if quick else FULL
    figures: list[Figure] = []

    def measured(found: Iterable[Figure]) -> None:
        """Keep figures, and show them at once: a full run takes long."""
        for figure in found:
            figures.append(figure)
            value = "not measured" if figure.value is None else f"{figure.value:.4g}"
            say(f"knowledge: {figure.what}: {value}")

    if folder is None or sets is None:
        measured(await speed_figures(sizes, embedder, say=say))
        measured([await to_thread(compile_speed, embedder, quick=quick, say=say)])
        measured(await watcher_figures(quick=quick, say=say))
        measured([] if quick else await crash_figures(ROUNDS, say=say))
        return Report(figures=(*figures, reported(**_NEEDS_FOLDER)))
    asked = sets[:1] if quick else sets
    measured(await to_thread(locomo_figures, asked, embedder, say=say))
    measured(await to_thread(evidence_figures, asked, embedder, say=say))
    if not quick:
        measured([await to_thread(compile_speed, embedder, quick=quick, say=say)])
        pool = await to_thread(read_longmemeval, folder)
        measured(await to_thread(longmemeval_figures, pool, embedder, say=say))
        spoken = [text for source in pool.sources for text in source.piece_texts()]
        measured(await ordinary_figures(spoken, say=say))
        sessions = await to_thread(read_sessions, folder)
        measured(await speed_figures(sizes, embedder, say=say, sessions=sessions))
        measured(await crash_figures(ROUNDS, say=say))
    measured(await watcher_figures(quick=quick, say=say))
    return Report(figures=tuple(figures))
