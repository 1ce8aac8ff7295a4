"""The days that a question asks about."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.search.days import day_ranges

NOW = date(2023, 6, 14)  # a Wednesday


def _worth(question: str, day: date) -> float:
    ranges = day_ranges(question, now=NOW, years=[2022, 2023])
    return max((span.worth for span in ranges if span.first <= day <= span.last), default=0.0)


@pytest.mark.parametrize(
    ("question", "day", "worth"),
    [
        ("on 7 May 2023", date(2023, 5, 7), 1.0),
        ("on May 7th, 2023", date(2023, 5, 8), 1.0),
        ("on 2023-05-07", date(2023, 5, 6), 0.8),
        ("on 7 May, 2023", date(2023, 5, 30), 0.3),
        ("on 7 May 2023", date(2023, 9, 1), 0.0),
        ("in August", date(2022, 8, 20), 0.7),
        ("in August 2023", date(2022, 8, 20), 0.0),
        ("in August 2023", date(2023, 9, 4), 0.25),
        ("in 2022", date(2022, 2, 2), 0.2),
        ("two weeks ago", date(2023, 6, 2), 1.0),
        ("a month ago", date(2023, 5, 10), 1.0),
        ("3 days ago", date(2023, 6, 1), 0.0),
        ("last Friday", date(2023, 6, 9), 1.0),
        ("last week", date(2023, 6, 8), 1.0),
        ("in the past two months", date(2023, 4, 20), 1.0),
        ("yesterday", date(2023, 6, 13), 1.0),
    ],
)
def test_a_named_time_is_worth_most_where_it_is(question: str, day: date, worth: float) -> None:
    """People talk about a day on that day or some days later."""
    assert _worth(question, day) == worth


@pytest.mark.parametrize("question", ["may I march on?", "on 31 February 2023", "12/45/99", ""])
def test_ordinary_words_and_impossible_days_name_no_time(question: str) -> None:
    """``May`` is a month only beside a day or a year."""
    assert day_ranges(question, now=NOW, years=[2023]) == ()


@given(st.text(alphabet="0123456789 -/,may juneagolastweekyears", max_size=60))
def test_no_question_is_an_error(question: str) -> None:
    """A question is what a model or person typed."""
    for span in day_ranges(question, now=NOW, years=[1900, 2099]):
        assert span.first <= span.last
