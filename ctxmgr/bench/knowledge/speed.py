"""Benchmarks of the search index: latency, rebuilding and one small change. Writes files.

The baseline of a search is FTS5 over the same pieces, the 200 best; that of rebuilding is
stemming the same pieces and nothing else.
"""

import random
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Final

from ctxmgr.bench.knowledge.plain_fts5 import PlainFts5
from ctxmgr.bench.measure import percentile
from ctxmgr.bench.report import Figure, Say, at_least, reported, within
from ctxmgr.search.pieces import SearchSource
from ctxmgr.search.segment import index_terms
from ctxmgr.search.text_index import TextIndex

if TYPE_CHECKING:
    from ctxmgr.search.embedder import Embedder

LATENCY_MS_MAX: Final = 5.0
REBUILD_SPEED_MIN: Final = 0.5
UPDATE_MS_MAX: Final = 100.0
BASELINE_LIMIT: Final = 200
QUESTION_WORDS: Final = (4, 8)
SESSION_PIECES: Final = 46


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSizes:
    pieces: int
    questions: int
    updates: int


FULL: Final = SearchSizes(pieces=100_000, questions=500, updates=15)
QUICK: Final = SearchSizes(pieces=1_000, questions=40, updates=5)


async def speed_figures(
    sizes: SearchSizes,
    embedder: "Embedder",
    *,
    say: Say,
    sessions: Sequence[SearchSource] = (),
) -> list[Figure]:
    """Measure an index of the given sessions, repeated as needed, or of generated text."""
    chance = random.Random(sizes.pieces)  # noqa: S311 (repeatable)
    sources = _sources(sizes.pieces, sessions or _generated(sizes.pieces, chance))
    pieces = [text for source in sources for text in source.piece_texts()]
    say(f"knowledge: indexing {len(pieces):,} pieces")
    for text in pieces:  # fills the stemmer's cache, for both sides
        index_terms(text)
    started = perf_counter()
    for text in pieces:
        index_terms(text)
    stemming = perf_counter() - started
    with TemporaryDirectory(prefix="ctxmgr-bench-", dir=Path.cwd()) as folder:
        path = Path(folder) / "index.db"
        with closing(await TextIndex.open(path, embedder=embedder)) as index:
            started = perf_counter()
            await index.rebuild(sources)
            rebuilding = perf_counter() - started
            started = perf_counter()
            await index.embed_missing()
            embedding = perf_counter() - started
            rebuild = at_least(
                f"rebuild an index of {len(pieces):,} pieces",
                stemming / rebuilding,
                bound=REBUILD_SPEED_MIN,
                against="stemming the same pieces",
                note=f"{len(pieces) / rebuilding:,.0f} pieces/s; vectors, which follow: "
                f"{len(pieces) / embedding:,.0f} pieces/s",
            )
            latency = await _latency(index, pieces, sizes, chance, say=say)
            update = await _update(index, sources, sizes.updates)
        size = path.stat().st_size
    note = f"{size / len(pieces):,.0f} bytes for each piece, with text and vectors"
    return [
        latency,
        rebuild,
        update,
        reported("MB of the file", size / 1e6, against="–", note=note),
    ]


async def _latency(
    index: TextIndex,
    pieces: Sequence[str],
    sizes: SearchSizes,
    chance: random.Random,
    *,
    say: Say,
) -> Figure:
    """Ask for words of one piece each, alternating with the baseline."""
    say(f"knowledge: {sizes.questions} questions")
    ours, baseline = [], []
    with closing(PlainFts5(pieces)) as plain:
        for number in range(sizes.questions + 1):
            words = chance.choice(pieces).split() or ["nothing"]
            question = " ".join(chance.choices(words, k=chance.randint(*QUESTION_WORDS)))
            started = perf_counter()
            await index.search(question, limit=10)
            middle = perf_counter()
            plain.search(question, limit=BASELINE_LIMIT)
            if number:  # the first search loads the index
                ours.append(middle - started)
                baseline.append(perf_counter() - middle)
    slow, slow_baseline = 1e3 * percentile(ours, 99), 1e3 * percentile(baseline, 99)
    figure = within(
        f"search among {len(pieces):,} pieces with vectors, p99",
        slow,
        bound=LATENCY_MS_MAX,
        unit="ms",
        against=f"FTS5, {BASELINE_LIMIT} best: {slow_baseline:.1f} ms",
        note=f"p50 {1e3 * median(ours):.2f} ms; FTS5 {1e3 * median(baseline):.2f} ms",
    )
    return replace(
        figure,
        bound=f"{figure.bound}, and below FTS5",
        meets=slow <= LATENCY_MS_MAX and slow < slow_baseline,
    )


async def _update(index: TextIndex, sources: Sequence[SearchSource], updates: int) -> Figure:
    """Replace one source, embed it, and search."""
    times = []
    for number in range(updates):
        changed = replace(sources[number % len(sources)], category="changed")
        started = perf_counter()
        await index.put([changed])
        await index.embed_missing()
        await index.search("anything", limit=1)
        times.append(perf_counter() - started)
    return within(
        "replace a source, embed it and search",
        1e3 * median(times),
        bound=UPDATE_MS_MAX,
        unit="ms",
        against="–",
        note=f"slowest {1e3 * max(times):.0f} ms",
    )


def _sources(pieces: int, sessions: Sequence[SearchSource]) -> list[SearchSource]:
    """Take sessions, again under other names if there are too few, until there are enough."""
    chosen: list[SearchSource] = []
    count = 0
    while count < pieces:
        session = sessions[len(chosen) % len(sessions)]
        name = f"{session.source_id}-{len(chosen) // len(sessions)}"
        chosen.append(replace(session, source_id=name))
        count += len(session.pieces)
    return chosen


def _generated(pieces: int, chance: random.Random) -> list[SearchSource]:
    """Make up sessions of words with the frequencies of a language."""
    vocabulary = [f"{chance.choice('bdfgklmnprst')}{n:x}" for n in range(20_000)]
    weights = [1 / rank for rank in range(1, len(vocabulary) + 1)]
    return [
        SearchSource.from_turns(
            [
                (None, " ".join(chance.choices(vocabulary, weights, k=chance.randint(10, 60))))
                for _ in range(SESSION_PIECES)
            ],
            source_id=f"session-{number}",
            category="conversation",
        )
        for number in range(-(-min(pieces, 20_000) // SESSION_PIECES))
    ]
