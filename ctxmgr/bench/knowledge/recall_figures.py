"""How much of what answers a question is found, on public questions.

    session R@k       share of the sessions with the answer among the k best
    evidence recall   share of the turns with the answer in what fits a number of tokens

A session that shares nothing with the question comes last, in the order of the conversation, for
both sides. Tokens are characters / 4. Each session that is shown costs a heading.
"""

from collections.abc import Iterable, Sequence
from contextlib import closing
from statistics import fmean
from typing import TYPE_CHECKING, Final

from ctxmgr.bench.knowledge.plain_fts5 import PlainFts5
from ctxmgr.bench.knowledge.questions import QuestionSet, TestQuestion, Turn
from ctxmgr.bench.report import Figure, Say
from ctxmgr.search.ranking import BEST_SOURCES, FILL_BUDGET, RankWeights, best_sources, rank
from ctxmgr.search.search_pool import SearchPool, build_pool

if TYPE_CHECKING:
    from ctxmgr.search.embedder import Embedder

BUDGETS: Final = ((2_000, 0.92), (4_000, 0.955))
SESSIONS_LEXICAL: Final = ((5, 0.905), (10, 0.950))
SESSIONS_STATIC: Final = ((5, 0.912), (10, 0.952))
LONGMEMEVAL_MIN: Final = 0.83
HEADING_TOKENS: Final = 6
CHARS_PER_TOKEN: Final = 4
NEIGHBOURS: Final = 2
"""Turns that the baseline shows on each side of a turn."""

ALL: Final = 1_000_000


def locomo_figures(sets: Sequence[QuestionSet], embedder: "Embedder", *, say: Say) -> list[Figure]:
    """Compare lexical and static ranking with FTS5, conversation by conversation."""
    ours: dict[tuple[str, int], list[float]] = {}
    for number, questions in enumerate(sets, start=1):
        say(f"knowledge: LoCoMo, conversation {number} of {len(sets)}")
        lexical = build_pool(questions.sources)
        static = build_pool(questions.sources, embedder=embedder)
        with (
            closing(PlainFts5(source.text for source in questions.sources)) as whole,
            closing(PlainFts5(_turn_texts(questions))) as turns,
        ):
            for question in questions.questions:
                orders = {
                    "FTS5": [
                        questions.sources[place].source_id
                        for place in whole.search(question.text, limit=ALL)
                    ],
                    "lexical": _sources(lexical, question, None),
                    "static": _sources(static, question, embedder),
                }
                for name, order in orders.items():
                    for k in (5, 10):
                        share = _found(question, _padded(order, questions), k)
                        ours.setdefault((name, k), []).append(share)
                if question.has_answer:
                    ranked = {
                        "FTS5": _shown_by_fts5(turns, questions, question),
                        "static": _pieces(static, question, embedder, FILL_BUDGET),
                    }
                    for name, shown in ranked.items():
                        for budget, _ in BUDGETS:
                            kept = _within(shown, questions, budget)
                            share = len(question.turns & kept) / len(question.turns)
                            ours.setdefault((name, budget), []).append(share)
    means = {key: fmean(values) for key, values in ours.items()}
    count = len(ours["FTS5", 5])
    figures = []
    for name, bounds in (("lexical", SESSIONS_LEXICAL), ("static", SESSIONS_STATIC)):
        for k, bound in bounds:
            what = f"LoCoMo, session R@{k}, {name} ({count:,} questions)"
            figures.append(_figure(what, means[name, k], bound, means["FTS5", k]))
    for budget, bound in BUDGETS:
        what = f"LoCoMo, evidence in {budget:,} tokens, static"
        figures.append(_figure(what, means["static", budget], bound, means["FTS5", budget]))
    return figures


def longmemeval_figures(questions: QuestionSet, embedder: "Embedder", *, say: Say) -> list[Figure]:
    """Look for sessions in one pool of many users' sessions."""
    say(f"knowledge: LongMemEval, {len(questions.sources)} sessions")
    pool = build_pool(questions.sources, embedder=embedder)
    static, lexical, turns = [], [], []
    places = [
        place for source in questions.sources for place in [source.source_id] * len(source.pieces)
    ]
    with closing(PlainFts5(_turn_texts(questions))) as plain:
        for question in questions.questions:
            static.append(_found(question, _sources(pool, question, embedder), 10))
            lexical.append(_found(question, _sources(pool, question, None), 10))
            found = [places[place] for place in plain.search(question.text, limit=2_000)]
            turns.append(_found(question, list(dict.fromkeys(found)), 10))
    what = f"LongMemEval, session R@10 in one pool, static ({len(static)} questions)"
    figure = _figure(what, fmean(static), LONGMEMEVAL_MIN, fmean(turns), baseline="FTS5, turns")
    lexical_figure = Figure(
        what="LongMemEval, session R@10, lexical",
        value=fmean(lexical),
        bound="",
        meets=None,
        against=figure.against,
    )
    return [figure, lexical_figure]


def _figure(
    what: str, value: float, bound: float, baseline_value: float, *, baseline: str = "FTS5, porter"
) -> Figure:
    return Figure(
        what=what,
        value=value,
        bound=f"at least {bound:g}, and above FTS5",
        meets=round(value, 4) >= bound and value > baseline_value,
        against=f"{baseline}: {baseline_value:.3f}",
    )


def _sources(pool: SearchPool, question: TestQuestion, embedder: "Embedder | None") -> list[str]:
    ranked = rank(
        pool, question.text, limit=ALL, now=question.now, embedder=embedder, weights=BEST_SOURCES
    )
    return [piece.source_id for piece in best_sources(ranked, limit=ALL)]


def _pieces(
    pool: SearchPool, question: TestQuestion, embedder: "Embedder", weights: RankWeights
) -> list[Turn]:
    ranked = rank(
        pool, question.text, limit=ALL, now=question.now, embedder=embedder, weights=weights
    )
    return [(piece.source_id, piece.piece) for piece in ranked]


def _padded(order: Sequence[str], questions: QuestionSet) -> list[str]:
    return list(dict.fromkeys((*order, *(source.source_id for source in questions.sources))))


def _found(question: TestQuestion, order: Sequence[str], k: int) -> float:
    return len(question.sources & set(order[:k])) / len(question.sources)


def _turn_texts(questions: QuestionSet) -> Iterable[str]:
    return (text for source in questions.sources for text in source.piece_texts())


def _shown_by_fts5(turns: PlainFts5, questions: QuestionSet, question: TestQuestion) -> list[Turn]:
    places = [
        (source.source_id, piece, len(source.pieces))
        for source in questions.sources
        for piece in range(len(source.pieces))
    ]
    shown: dict[Turn, None] = {}
    for place in turns.search(question.text, limit=ALL):
        source_id, piece, count = places[place]
        near = range(max(0, piece - NEIGHBOURS), min(count, piece + NEIGHBOURS + 1))
        shown.update(dict.fromkeys((source_id, number) for number in near))
    return list(shown)


def _within(shown: Iterable[Turn], questions: QuestionSet, budget: int) -> set[Turn]:
    """Take turns as they come, and skip those that do not fit."""
    lengths = {
        (source.source_id, number): piece.end - piece.start
        for source in questions.sources
        for number, piece in enumerate(source.pieces)
    }
    used, kept, headings = 0.0, set(), set()
    for turn in shown:
        cost = lengths[turn] / CHARS_PER_TOKEN
        cost += HEADING_TOKENS if turn[0] not in headings else 0
        if used + cost <= budget:
            used += cost
            kept.add(turn)
            headings.add(turn[0])
    return kept
