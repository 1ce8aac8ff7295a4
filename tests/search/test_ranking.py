"""Which pieces come first, and why."""

from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.errors import Incorrect
from ctxmgr.search.pieces import SearchSource
from ctxmgr.search.ranking import FILL_BUDGET, RankedPiece, best_sources, rank, rank_sources
from ctxmgr.search.search_pool import build_pool
from ctxmgr.search.static_vectors import StaticEmbedder


def _session(name: str, *turns: tuple[str | None, str], day: date | None = None) -> SearchSource:
    return SearchSource.from_turns(turns, source_id=name, category="conversation", day=day)


def _first(pieces: list[RankedPiece]) -> tuple[str, int]:
    return pieces[0].source_id, pieces[0].piece


FILLER = tuple(
    _session(f"filler-{n}", (None, f"talk about weather number {n}"), (None, "and so it went"))
    for n in range(6)
)


def test_a_rare_word_outweighs_a_common_one() -> None:
    """002-R155: the piece that shares what distinguishes the question is first."""
    pool = build_pool([*FILLER, _session("found", (None, "the weather station has a barometer"))])

    assert _first(rank(pool, "weather barometer", limit=5)) == ("found", 0)


def test_forms_of_a_word_match() -> None:
    """A question is seldom worded as the text is."""
    pool = build_pool([*FILLER, _session("found", (None, "She was adopting two kittens"))])

    assert _first(rank(pool, "Who adopted a kitten?", limit=5)) == ("found", 0)


def test_neighbours_of_a_hit_rank_above_strangers() -> None:
    """The answer often stands beside the words of the question."""
    session = _session(
        "talk",
        (None, "Did you call the plumber?"),
        (None, "Yes, he comes at noon."),
        *[(None, f"unrelated {n}") for n in range(8)],
    )
    pool = build_pool([session, *FILLER])

    ranked = [(piece.source_id, piece.piece) for piece in rank(pool, "plumber", limit=20)]

    assert ranked[:2] == [("talk", 0), ("talk", 1)]


def test_neighbours_never_belong_to_another_source() -> None:
    """Sources lie side by side in the arrays, but have nothing to do with each other."""
    pool = build_pool([_session("a", (None, "plumber")), _session("b", (None, "noon"))])

    assert [piece.source_id for piece in rank(pool, "plumber", limit=5)] == ["a"]


def test_who_said_it_counts_if_the_question_names_one_speaker() -> None:
    """``What did Ann say about tea?`` asks for what Ann said, not for what mentions Ann."""
    session = _session("talk", ("Ann", "I like tea"), ("Bob", "I like tea"))
    pool = build_pool([session, *FILLER])

    assert _first(rank(pool, "What does Bob say about tea?", limit=5)) == ("talk", 1)
    assert _first(rank(pool, "What does Ann say about tea?", limit=5)) == ("talk", 0)


def test_the_day_of_a_source_counts_if_the_question_names_it() -> None:
    """The same words on another day are another event."""
    pool = build_pool(
        [
            *FILLER,
            _session("april", (None, "we went hiking"), day=date(2023, 4, 3)),
            _session("june", (None, "we went hiking"), day=date(2023, 6, 3)),
        ]
    )

    assert _first(rank(pool, "hiking in June 2023", limit=5))[0] == "june"
    assert _first(rank(pool, "hiking in April", limit=5))[0] == "april"
    now = date(2023, 6, 10)
    assert _first(rank(pool, "hiking last week", limit=5, now=now))[0] == "june"


def test_vectors_find_what_shares_no_word() -> None:
    """002-R156: a question about a dog finds the puppy."""
    embedder = StaticEmbedder.load()
    sources = [*FILLER, _session("found", (None, "Our puppy barks at strangers"))]

    static = rank(build_pool(sources, embedder=embedder), "dog", limit=3, embedder=embedder)

    assert rank(build_pool(sources), "dog", limit=3) == []
    assert _first(static) == ("found", 0)


def test_vectors_of_another_embedder_are_refused() -> None:
    """X-C16: numbers of two embedders mean different things, even if there are as many."""

    class Renamed(StaticEmbedder):
        @property
        def name(self) -> str:
            return "another"

    pool = build_pool(FILLER, embedder=StaticEmbedder.load())

    with pytest.raises(Incorrect, match=r"vectors of wordllama.*not of another"):
        rank(pool, "weather", limit=3, embedder=Renamed.load())


def test_a_question_without_words_finds_nothing() -> None:
    """A stop word says nothing about what is wanted."""
    assert rank(build_pool(FILLER), "what is the", limit=3) == []
    assert rank(build_pool([]), "weather", limit=3) == []


def test_only_wanted_sources_are_returned() -> None:
    """A search in one session must not show another's."""
    pool = build_pool(FILLER)

    found = rank(pool, "weather", limit=20, wanted={"filler-3"}.__contains__)

    assert {piece.source_id for piece in found} == {"filler-3"}


def test_a_source_is_listed_once_by_its_best_piece() -> None:
    """002-R156: results are deduplicated."""
    pieces = [
        RankedPiece(source_id="a", piece=3, score=2.0),
        RankedPiece(source_id="a", piece=1, score=1.5),
        RankedPiece(source_id="b", piece=0, score=1.0),
    ]

    assert best_sources(pieces, limit=5) == [pieces[0], pieces[2]]
    assert best_sources(pieces, limit=1) == [pieces[0]]


WORDS = st.sampled_from(
    ["tea", "coffee", "hiking", "plumber", "barometer", "kitten", "station", "noon"]
)
TEXTS = st.lists(st.lists(WORDS, min_size=1, max_size=6).map(" ".join), min_size=1, max_size=5)


@given(texts=st.lists(TEXTS, min_size=1, max_size=8), question=st.lists(WORDS, max_size=4))
def test_the_order_of_sources_does_not_matter(texts: list[list[str]], question: list[str]) -> None:
    """Two machines that indexed the same texts in another order give the same answer."""
    sources = [
        _session(f"s{n}", *[(None, text) for text in turns]) for n, turns in enumerate(texts)
    ]
    asked = " ".join(question)

    forward = rank(build_pool(sources), asked, limit=50)
    backward = rank(build_pool(sources[::-1]), asked, limit=50, weights=FILL_BUDGET)

    assert rank(build_pool(sources[::-1]), asked, limit=50) == forward
    assert rank_sources(build_pool(sources), asked, limit=3) == best_sources(forward, limit=3)
    assert {piece.source_id for piece in backward} == {piece.source_id for piece in forward}
    assert all(np.isfinite(piece.score) for piece in forward)


def test_words_of_grammar_in_a_question_do_not_count() -> None:
    """002-R155: ``during`` and ``between`` are rare in notes, and say nothing about the answer."""
    pool = build_pool(
        [
            *FILLER,
            _session("grammar", (None, "Between us, many slept during it.")),
            _session("found", (None, "The weather was bad at the picnic.")),
        ]
    )

    found = rank(pool, "Between many guests, whose weather story was told during both?", limit=9)

    assert "grammar" not in {piece.source_id for piece in found}
    assert _first(rank(pool, "during many", limit=9)) == ("grammar", 0)
