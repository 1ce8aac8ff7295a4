"""The days that a question asks about. Pure.

A day or month that is named counts most, and the days after it count less: people mention what
happened some days ago. Periods relative to now (``two weeks ago``, ``last Friday``) count alike.
"""

import re
from calendar import monthrange
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

YEARS_MAX: Final = 50
"""A day without a year is looked for in these many years of the sources, the newest."""


@dataclass(frozen=True, slots=True)
class DayRange:
    """Days, both ends included, and how much a source of these days is worth."""

    first: date
    last: date
    worth: float


_MONTHS: Final = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_MONTH_NUMBERS: Final = {
    name: number
    for number, month in enumerate(_MONTHS, start=1)
    for name in (month, month[:3], *(["sept"] if month == "september" else []))
}
_WORDS_TOO: Final = frozenset({"may", "march", "mar"})
"""Ordinary words, which name a month only beside a day or a year."""

_MONTH: Final = "|".join(sorted(_MONTH_NUMBERS, key=len, reverse=True))
_YEAR: Final = r"(?:19|20)\d\d"
_DAY: Final = r"(?:0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?"
_ISO_DAY: Final = re.compile(rf"\b({_YEAR})[-/](\d\d?)[-/](\d\d?)\b")
_DAY_MONTH: Final = re.compile(
    rf"\b({_DAY})(?:\s+of)?\s+({_MONTH})\b\.?(?:,?\s*({_YEAR})\b)?", re.IGNORECASE
)
_MONTH_DAY: Final = re.compile(
    rf"\b({_MONTH})\b\.?\s+({_DAY})\b(?:,?\s*({_YEAR})\b)?", re.IGNORECASE
)
_MONTH_YEAR: Final = re.compile(rf"\b({_MONTH})\b\.?(?:,?\s+(?:of\s+)?({_YEAR})\b)?", re.IGNORECASE)
_YEAR_ALONE: Final = re.compile(rf"\b({_YEAR})\b")

_NUMBERS: Final = {
    word: number
    for number, word in enumerate(
        [
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
        ],
        start=1,
    )
} | {"a": 1, "an": 1, "couple of": 2, "few": 3}
_COUNT: Final = r"(?:a\s+)?(\d{1,3}|" + "|".join(sorted(_NUMBERS, key=len, reverse=True)) + ")"
_UNITS: Final = {"day": 1, "week": 7, "weekend": 7, "month": 30, "year": 365}
_BLUR: Final = {"day": 1, "week": 3, "month": 10, "year": 60}
"""Days by which ``n units ago`` may be off."""

_AGO: Final = re.compile(rf"\b{_COUNT}\s+(day|week|month|year)s?\s+ago\b", re.IGNORECASE)
_PAST: Final = re.compile(
    rf"\b(?:past|last)\s+(?:{_COUNT}\s+)?(day|weekend|week|month|year)s?\b", re.IGNORECASE
)
_WEEKDAYS: Final = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_LAST_WEEKDAY: Final = re.compile(rf"\blast\s+({'|'.join(_WEEKDAYS)})\b", re.IGNORECASE)
_YESTERDAY: Final = re.compile(r"\byesterday\b", re.IGNORECASE)


def day_ranges(
    question: str, *, now: date | None = None, years: Iterable[int] = ()
) -> tuple[DayRange, ...]:
    """Return the days that a question names; nothing if it names none.

    ``years`` are those of the sources, for a day or month without a year; periods such as
    ``last week`` need ``now``.
    """
    found = list(_named(question, sorted(years)[-YEARS_MAX:]))
    if now is not None:
        found += _relative(question, now)
    return tuple(found)


def _named(question: str, years: list[int]) -> Iterator[DayRange]:
    rest, found = question, False
    for match in _ISO_DAY.finditer(question):
        yield from _around(int(match[1]), int(match[2]), int(match[3]))
        found = True
    rest = _ISO_DAY.sub(" ", rest)
    for pattern, day, month in ((_DAY_MONTH, 1, 2), (_MONTH_DAY, 2, 1)):
        for match in pattern.finditer(rest):
            number = int(re.sub(r"\D", "", match[day]))
            for year in [int(match[3])] if match[3] else years:
                yield from _around(year, _MONTH_NUMBERS[match[month].lower()], number)
            found = True
        rest = pattern.sub(" ", rest)
    for match in _MONTH_YEAR.finditer(rest):
        if match[2] is None and match[1].lower() in _WORDS_TOO:
            continue
        for year in [int(match[2])] if match[2] else years:
            yield from _month(year, _MONTH_NUMBERS[match[1].lower()])
        found = True
    if not found:
        for match in _YEAR_ALONE.finditer(rest):
            year = int(match[1])
            yield DayRange(date(year, 1, 1), date(year, 12, 31), 0.2)


def _around(year: int, month: int, day: int) -> Iterator[DayRange]:
    if not (1 <= month <= len(_MONTHS) and 1 <= day <= monthrange(year, month)[1]):
        return
    named = date(year, month, day)
    for before, after, worth in ((0, 1, 1.0), (1, 7, 0.8), (7, 31, 0.3)):
        yield DayRange(named - timedelta(before), named + timedelta(after), worth)


def _month(year: int, month: int) -> Iterator[DayRange]:
    last = date(year, month, monthrange(year, month)[1])
    yield DayRange(date(year, month, 1), last, 0.7)
    yield DayRange(last + timedelta(1), last + timedelta(10), 0.25)


def _relative(question: str, now: date) -> Iterator[DayRange]:
    for match in _AGO.finditer(question):
        unit = match[2].lower()
        middle = now - timedelta(_count(match[1]) * _UNITS[unit])
        yield DayRange(middle - timedelta(_BLUR[unit]), middle + timedelta(_BLUR[unit]), 1.0)
    for match in _PAST.finditer(question):
        days = _count(match[1] or "one") * _UNITS[match[2].lower()]
        yield DayRange(now - timedelta(days), now, 1.0)
    for match in _LAST_WEEKDAY.finditer(question):
        back = (now.weekday() - _WEEKDAYS.index(match[1].lower()) - 1) % 7 + 1
        named = now - timedelta(back)
        yield DayRange(named, named + timedelta(1), 1.0)
    if _YESTERDAY.search(question):
        yield DayRange(now - timedelta(1), now, 1.0)


def _count(word: str) -> int:
    word = " ".join(word.lower().split())
    return int(word) if word.isdecimal() else _NUMBERS[word]
