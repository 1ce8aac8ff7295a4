"""Signals in one message: code, language, mentions, URLs, and how it is said. No I/O.

Each function looks at the beginning of a long text only, so that its time is bounded. Language and
mood come from packages of the "knowledge" extra, which are imported when a topic first needs them.
"""

import re
from collections.abc import Callable, Collection
from copy import copy
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

from ctxmgr.errors import requires_extra

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

TEXT_CHARS_MAX: Final = 10_000
"""Of a message that Tier 1 reads. Longer ones are pasted files, whose beginning names them."""

LANGUAGE_CHARS_MAX: Final = 200
LANGUAGE_LETTERS_MIN: Final = 20
"""Below that, detection guesses."""

MOOD_CHARS_MAX: Final = 500
"""VADER's time grows with the square of the length."""

AGITATED: Final = 0.55
"""From here on a message counts as agitated; see ``agitation``."""

_INDENTED_LINES_MIN: Final = 2
_CAPITALS_MIN: Final = 3
_FENCE: Final = re.compile(r"^ {0,3}(?:```|~~~)[ \t]*([\w+#.-]{0,30})", re.MULTILINE)
_CODE_MARKS: Final = re.compile(r"[(){}\[\];=<>]|->|::|^\s*(?:def|class|import|return|if|for)\b")
_MENTION: Final = re.compile(r"(?<![\w@.])@([A-Za-z0-9][\w.-]{0,62})")
_URL: Final = re.compile(r"\bhttps?://([^\s/?#:@<>\"'\]]{1,253})", re.IGNORECASE)
_SHOUTED: Final = re.compile(r"\b[A-Z]{3,}\b")
_MARKS: Final = re.compile(r"[!?]{2,}|!")
_COMMON_LANGUAGES: Final = "ar cs da de en es fi fr hi it ja ko nl no pl pt ru sv tr uk zh"
_WORD: Final = re.compile(r"[^\W\d_]+")


def code_languages(text: str) -> frozenset[str] | None:
    """Return the languages of code fences; empty for other code, None if there is no code.

    Code without a fence is at least two indented lines that look like code.
    """
    fences = _FENCE.findall(text)
    if fences:
        return frozenset(name.lower() for name in fences if name)
    indented = [line for line in text.splitlines() if line.startswith(("    ", "\t"))]
    looking = sum(1 for line in indented if _CODE_MARKS.search(line))
    return frozenset() if looking >= _INDENTED_LINES_MIN else None


def mentions(text: str) -> frozenset[str]:
    """Return the names after an @, in lower case; addresses of mail have none."""
    return frozenset(name.rstrip(".-").lower() for name in _MENTION.findall(text))


def url_hosts(text: str) -> frozenset[str]:
    """Return the hosts of the URLs, in lower case."""
    return frozenset(host.rstrip(".,;)").lower() for host in _URL.findall(text))


def agitation(text: str) -> float:
    """Return how agitated a message looks, 0 to 1, by its punctuation and capitals alone."""
    words = _WORD.findall(text[:TEXT_CHARS_MAX])
    if not words:
        return 0.0
    shouted = len(_SHOUTED.findall(text[:TEXT_CHARS_MAX]))
    marks = sum(1 if mark == "!" else 2 for mark in _MARKS.findall(text[:TEXT_CHARS_MAX]))
    by_capitals = shouted / len(words) if shouted >= _CAPITALS_MIN else 0.0
    return min(1.0, by_capitals + marks / 4)


def shifts(text: str, *, previous: str = "") -> bool:
    """Whether a message is agitated and the one before it was not."""
    return agitation(text) >= AGITATED > agitation(previous)


def language_of(text: str, *, among: Collection[str] = ()) -> str | None:
    """Return the language of a text, as ISO 639-1; None if the text is too short.

    Common languages and those of ``among`` are considered: short texts look like rare ones.
    """
    sample = text[:LANGUAGE_CHARS_MAX]
    if sum(map(len, _WORD.findall(sample))) < LANGUAGE_LETTERS_MIN:
        return None
    found: str = _identifier_among(frozenset(among)).classify(sample)[0]
    return found


def known_languages() -> frozenset[str]:
    """Return the languages that can be told apart. The first call loads them."""
    return frozenset(_identifier().labels)


def mood(text: str) -> float:
    """Return how negative (-1) or positive (1) an English text is, by VADER's lexicon."""
    return _analyzer()(text[:MOOD_CHARS_MAX])


@lru_cache(maxsize=8)
def _identifier_among(languages: frozenset[str]) -> "LanguageIdentifier":
    identifier = copy(_identifier())  # set_languages replaces what the copy refers to
    identifier.set_languages(sorted(languages.union(_COMMON_LANGUAGES.split())))
    return identifier


@cache
def _identifier() -> "LanguageIdentifier":
    with requires_extra("knowledge", "py3langid", "numpy"):
        from py3langid.langid import MODEL_FILE, LanguageIdentifier  # noqa: PLC0415 (an extra)

    return LanguageIdentifier.from_model_file(MODEL_FILE)


@cache
def _analyzer() -> Callable[[str], float]:
    with requires_extra("knowledge", "vaderSentiment", "requests"):
        from vaderSentiment.vaderSentiment import (  # noqa: PLC0415 (an extra)
            SentimentIntensityAnalyzer,
        )

    analyzer = SentimentIntensityAnalyzer()

    def compound(text: str) -> float:
        return float(analyzer.polarity_scores(text)["compound"])

    return compound
