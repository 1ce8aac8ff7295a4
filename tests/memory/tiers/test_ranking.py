"""How useful a memory has proved."""

from dataclasses import replace
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.memory.records.bodies import Fact
from ctxmgr.memory.records.levels import Levels
from ctxmgr.memory.records.memory import Author, Memory, MemoryKind, Visibility
from ctxmgr.memory.records.usage import MemoryUsage
from ctxmgr.memory.tiers.ranking import DAY_MS, FLOOR, usefulness

FRESH = MemoryUsage(memory_id="m")
LEARNT = Memory(
    id=str(UUID(int=1)),
    body=Fact(key="k", value="v"),
    kind=MemoryKind.NOTE,
    levels=Levels(full="k: v", summary="k: v", compressed="k: v", index="k"),
    author=Author.RULE,
    visibility=Visibility.USER_PRIVATE,
    user_id="u",
    project_id="p",
    created_at=0,
    valid_from=0,
)
COUNTERS = st.integers(0, 5_000)


def test_a_citation_raises_and_passing_over_lowers() -> None:
    """001-R061, 001-R074, 001-R076."""
    base = usefulness(LEARNT, FRESH, now=0)

    assert usefulness(LEARNT, FRESH.cited(0), now=0) > base
    assert usefulness(LEARNT, FRESH.ignored(), now=0) < base
    assert usefulness(LEARNT, FRESH, now=60 * DAY_MS) < base


def test_scores_do_not_collapse_in_a_year_of_use() -> None:
    """PG-20, PG-21: shown every day and used once a week, a memory stays far above the floor."""
    usage = FRESH
    for day in range(365):
        now = day * DAY_MS
        usage = usage.retrieved(now)
        usage = usage.cited(now) if day % 7 == 0 else usage.ignored()

    assert usefulness(LEARNT, usage, now=365 * DAY_MS) > 10 * FLOOR


def test_what_a_person_wrote_does_not_become_stale() -> None:
    theirs = replace(LEARNT, author=Author.PERSON)

    assert usefulness(theirs, FRESH, now=1_000 * DAY_MS) == usefulness(theirs, FRESH, now=0)


@given(cited=COUNTERS, ignored=COUNTERS, days=st.integers(0, 10_000))
def test_the_score_is_bounded_and_computed_anew(cited: int, ignored: int, days: int) -> None:
    """001-A10: a pure function of counters and age."""
    usage = MemoryUsage(memory_id="m", citation_count=cited, ignore_count=ignored, last_accessed=0)

    score = usefulness(LEARNT, usage, now=days * DAY_MS)

    assert FLOOR <= score <= 1
    assert usefulness(LEARNT, usage.cited(0), now=days * DAY_MS) >= score
