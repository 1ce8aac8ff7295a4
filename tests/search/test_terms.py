"""Text to terms."""

import pytest

from ctxmgr.search.terms import stem, terms, words


@pytest.mark.parametrize(
    ("word", "base"),
    [
        ("dogs", "dog"),
        ("barked", "bark"),
        ("running", "run"),
        ("hoped", "hope"),
        ("tried", "try"),
        ("boxes", "box"),
        ("classes", "class"),
        ("using", "use"),
        ("died", "die"),
    ],
)
def test_forms_of_a_word_have_one_stem(word: str, base: str) -> None:
    """A question in the plural finds a text in the singular."""
    assert stem(word) == stem(base)


@pytest.mark.parametrize(
    "word", ["need", "king", "bus", "analysis", "the", "größe", "100", "v2000"]
)
def test_what_only_looks_like_an_ending_stays(word: str) -> None:
    """Otherwise unrelated words would meet in one stem."""
    assert stem(word) == word


def test_stop_words_and_encoded_data_are_no_terms() -> None:
    """They are everywhere or nowhere, so they distinguish nothing."""
    text = f"The owner's dog is at {'x' * 65} now"

    assert terms(text) == ["owner", "dog", "now"]
    assert words("It's") == ["it"]
