"""How texts are cut."""

from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.search.pieces import PIECE_CHARS, PIECE_CHARS_MAX, SearchSource


@given(st.text(alphabet="ab .\n", max_size=4_000))
def test_pieces_cover_a_text_without_gaps(text: str) -> None:
    """What no piece holds can never be found."""
    source = SearchSource.from_text(text, source_id="a.md", category="reference")

    covered = "".join(source.piece_texts())

    assert text.startswith(covered)
    assert not text[len(covered) :].strip()
    assert all(len(piece) <= PIECE_CHARS_MAX for piece in source.piece_texts())


def test_a_piece_ends_with_a_sentence_or_line() -> None:
    """A sentence in two pieces is found by neither."""
    sentence = "This sentence has some forty characters.\n"
    source = SearchSource.from_text(sentence * 40, source_id="a.md", category="reference")

    assert len(source.pieces) > 3
    assert all(text.endswith("characters.\n") for text in source.piece_texts())
    assert all(len(text) >= PIECE_CHARS for text in source.piece_texts()[:-1])


def test_each_turn_is_a_piece_with_its_speaker() -> None:
    """Who said something is part of what is asked for."""
    source = SearchSource.from_turns(
        [("Ann", "Tea?"), ("Bob", "Please.")], source_id="s", category="conversation"
    )

    assert source.piece_texts() == ["Tea?", "Please."]
    assert [piece.speaker for piece in source.pieces] == ["Ann", "Bob"]
