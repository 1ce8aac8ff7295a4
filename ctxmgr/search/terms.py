"""Text to search terms: lower case, without stop words, reduced to a stem. Pure.

The stemmer removes English plural and verb endings and nothing else, so that ``dogs`` finds ``dog``
and ``barked`` finds ``bark``. Both sides of a comparison go through it; a stem need not be a word.
"""

import re
from functools import lru_cache
from typing import Final

WORD_CHARS_MAX: Final = 64
"""Longer runs of letters are hashes, keys or encoded data, not words."""

STOP_WORDS: Final = frozenset(
    [
        "a",
        "about",
        "after",
        "all",
        "also",
        "am",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "because",
        "been",
        "before",
        "being",
        "but",
        "by",
        "can",
        "could",
        "did",
        "do",
        "does",
        "doing",
        "for",
        "from",
        "had",
        "has",
        "have",
        "having",
        "he",
        "her",
        "here",
        "hers",
        "him",
        "his",
        "how",
        "i",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "just",
        "me",
        "more",
        "most",
        "my",
        "no",
        "nor",
        "not",
        "of",
        "off",
        "on",
        "once",
        "only",
        "or",
        "other",
        "our",
        "out",
        "over",
        "own",
        "same",
        "she",
        "should",
        "so",
        "some",
        "such",
        "than",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "those",
        "to",
        "too",
        "under",
        "until",
        "up",
        "us",
        "very",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "while",
        "who",
        "why",
        "will",
        "with",
        "would",
        "you",
        "your",
    ]
)

FUNCTION_WORDS: Final = frozenset(
    [
        "above",
        "again",
        "against",
        "although",
        "among",
        "below",
        "between",
        "both",
        "down",
        "during",
        "each",
        "else",
        "ever",
        "few",
        "further",
        "herself",
        "himself",
        "itself",
        "many",
        "may",
        "might",
        "mine",
        "much",
        "must",
        "myself",
        "never",
        "ours",
        "ourselves",
        "per",
        "shall",
        "since",
        "still",
        "theirs",
        "themselves",
        "though",
        "through",
        "toward",
        "towards",
        "unless",
        "upon",
        "via",
        "whether",
        "whom",
        "whose",
        "within",
        "without",
        "yet",
        "yours",
        "yourself",
    ]
)
"""Words of grammar that are indexed, since some also name things (``May``, a ``mine``), but say
nothing about what a question asks for."""

_WORDS: Final = re.compile(r"[^\W_]+")
_POSSESSIVE: Final = re.compile(r"['\u2019]s\b")
_VOWELS: Final = frozenset("aeiouy")
_STEM_CHARS_MIN: Final = 2
_PLURAL_CHARS_MIN: Final = 4
"""``gas`` and ``bus`` are no plurals, and ``ties`` is not one of ``ty``."""


def terms(text: str) -> list[str]:
    """Return the terms of a text in their order, repeated ones included."""
    return [stem(word) for word in words(text) if word not in STOP_WORDS]


def words(text: str) -> list[str]:
    """Return the words of a text in lower case, in their order."""
    found = _WORDS.findall(_POSSESSIVE.sub("", text.lower()))
    return [word for word in found if len(word) <= WORD_CHARS_MAX]


@lru_cache(maxsize=32_768)
def stem(word: str) -> str:
    """Remove a plural or verb ending from a lower-case word; stop words have no other forms."""
    if word in STOP_WORDS or not word.isascii() or word[-1].isdigit():
        return word  # 100 is not a form of 10
    word = _without_plural(word)
    if word.endswith("ied") and len(word) > _PLURAL_CHARS_MIN:
        return f"{word[:-3]}y"
    for ending in ("ing", "ed"):
        base = word.removesuffix(ending)
        if (
            base != word
            and len(base) >= _STEM_CHARS_MIN
            and _VOWELS.intersection(base)
            and not word.endswith("eed")
        ):
            return _trimmed(base)
    return _trimmed(word)


def _without_plural(word: str) -> str:
    if word.endswith("ies") and len(word) > _PLURAL_CHARS_MIN:
        return f"{word[:-3]}y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    if (
        word.endswith("s")
        and not word.endswith(("ss", "us", "is"))
        and len(word) >= _PLURAL_CHARS_MIN
    ):
        return word[:-1]
    return word


def _trimmed(word: str) -> str:
    """Unify what endings leave behind: ``runn(ing)`` and ``run``, ``hope`` and ``hop(ed)``."""
    if len(word) <= _STEM_CHARS_MIN:
        return word
    if word[-1] == word[-2] and word[-1] not in "aeiouylsz":
        word = word[:-1]
    return word.removesuffix("e")
