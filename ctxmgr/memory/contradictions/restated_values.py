"""Statements that give another value for what an earlier one was about. Pure.

    I ran the charity 5K in 27:12          and later          my best time in the 5K run is 25:50

Two sentences are compared by their values: amounts of money, percentages, times of day, durations,
weekdays, months and other numbers. The later one proposes to take the place of the earlier one if

    a   both have a value of the same type, and the values differ
    b   the nearest content word after the values, or before them, is the same
    c   the words near both values share enough rare ones (NEAR_IDF_MIN)
    d   so do the sentences, by their share (SHARE_MIN)

What changes by implication (places, habits, yes and no) is not found. A proposal is for a person:
nothing is applied.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ctxmgr.search.terms import STOP_WORDS, terms

NEAR_WORDS: Final = 4
NEAR_IDF_MIN: Final = 4.0
SHARE_MIN: Final = 0.4
SHARE_OFFSET: Final = 3.0
"""Added to the smaller sentence's sum, so that two short sentences do not agree by one word."""

SENTENCES_MAX: Final = 30
SENTENCE_CHARS_MAX: Final = 1_000
VALUES_MAX: Final = 10
"""Of one sentence."""

_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_NUMBER_WORDS: Final = MappingProxyType(
    {
        word: str(number)
        for number, word in enumerate(
            (
                *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
                *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen"),
                *("seventeen", "eighteen", "nineteen", "twenty"),
            )
        )
        if number > 1  # "one" is mostly a pronoun
    }
)
_WEEKDAYS: Final = frozenset(
    ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
)
_MONTHS: Final = frozenset(
    (
        *("january", "february", "april", "june", "july", "august"),
        *("september", "october", "november", "december"),
    )
)
"""Without "march" and "may", which are other words as well."""
_TOKEN: Final = re.compile(
    r"(?P<money>[$€£]\s?\d[\d,]*(?:\.\d+)?k?)"
    r"|(?P<percent>\d+(?:\.\d+)?\s?(?:%|percent\b))"
    r"|(?P<clock>\d{1,2}(?::\d{2})?\s?(?:am|pm)\b)"
    r"|(?P<duration>\d{1,2}:\d{2}(?::\d{2})?)"
    r"|(?P<number>\d[\d,]*(?:\.\d+)?(?:st|nd|rd|th)?\b)"
    r"|(?P<word>[^\W\d_]+(?:['\u2019][a-z]+)?)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    """The type of a value, or ``word``."""
    text: str
    stem: str | None
    """Of a content word."""


@dataclass(frozen=True, slots=True)
class _Sentence:
    tokens: tuple[_Token, ...]
    values: tuple[int, ...]
    stems: frozenset[str]


def restated_value(
    earlier: str, later: str, *, idf: Callable[[str], float]
) -> tuple[str, str] | None:
    """Return the two values if a text gives another one for what an earlier text was about.

    ``idf`` says how rare a stem is among all that is remembered.
    """
    before = list(_sentences(earlier))
    for new in _sentences(later):
        for old in before:
            found = _restated(old, new, idf)
            if found is not None:
                return found
    return None


def _restated(
    old: _Sentence, new: _Sentence, idf: Callable[[str], float]
) -> tuple[str, str] | None:
    if not _is_alike(old.stems, new.stems, idf):
        return None
    for first in old.values:
        for second in new.values:
            one, other = old.tokens[first], new.tokens[second]
            if one.kind != other.kind or one.text == other.text:
                continue
            if any(one.text == new.tokens[place].text for place in new.values):
                continue  # the later one repeats the earlier value beside another
            near = _near(old, first) & _near(new, second)
            if _beside(old, first, new, second) and sum(map(idf, near)) >= NEAR_IDF_MIN:
                return one.text, other.text
    return None


def _is_alike(one: frozenset[str], other: frozenset[str], idf: Callable[[str], float]) -> bool:
    shared = sum(map(idf, one & other))
    smaller = min(sum(map(idf, one)), sum(map(idf, other)))
    return shared / (smaller + SHARE_OFFSET) >= SHARE_MIN


def _beside(old: _Sentence, first: int, new: _Sentence, second: int) -> bool:
    """Whether the nearest content words on one side of two values are the same."""
    for step in (1, -1):
        one, other = _nearest(old, first, step), _nearest(new, second, step)
        if one is not None and one == other:
            return True
    return False


def _nearest(sentence: _Sentence, place: int, step: int) -> str | None:
    place += step
    while 0 <= place < len(sentence.tokens):
        stem = sentence.tokens[place].stem
        if stem is not None:
            return stem
        place += step
    return None


def _near(sentence: _Sentence, place: int) -> frozenset[str]:
    around = sentence.tokens[max(0, place - NEAR_WORDS) : place + NEAR_WORDS + 1]
    return frozenset(token.stem for token in around if token.stem is not None)


def _sentences(text: str) -> Iterator[_Sentence]:
    """Yield the sentences that have values."""
    for part in _SENTENCE_END.split(text)[:SENTENCES_MAX]:
        tokens = tuple(_tokens(part[:SENTENCE_CHARS_MAX]))
        values = tuple(place for place, token in enumerate(tokens) if token.kind != "word")
        if values:
            stems = frozenset(token.stem for token in tokens if token.stem is not None)
            yield _Sentence(tokens, values[:VALUES_MAX], stems)


def _tokens(sentence: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(sentence):
        kind, text = str(match.lastgroup), match[0].lower().replace(",", "").replace(" ", "")
        if kind != "word":
            yield _Token(kind, re.sub(r"(?<=\d)(?:st|nd|rd|th)$", "", text), None)
        elif text in _NUMBER_WORDS:
            yield _Token("number", _NUMBER_WORDS[text], None)
        elif text.rstrip("s") in _WEEKDAYS:
            yield _Token("weekday", text.rstrip("s"), None)
        elif text in _MONTHS:
            yield _Token("month", text, None)
        else:
            stems = [] if text in STOP_WORDS else terms(text)
            yield _Token("word", text, stems[0] if stems else None)
