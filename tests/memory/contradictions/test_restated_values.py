"""A later statement that gives another value proposes to take the place of an earlier one."""

import pytest

from ctxmgr import Store
from ctxmgr.memory.contradictions.restated_values import restated_value
from ctxmgr.memory.living import LivingMemory
from ctxmgr.memory.records.bodies import Fact
from tests.memory.conftest import ADA

RUN = "I finished the charity run in 27:12."


def rare(_: str) -> float:
    return 3.0


@pytest.mark.parametrize(
    ("earlier", "later", "values"),
    [
        (RUN, "My best time in a charity run is 25:50 now.", ("27:12", "25:50")),
        (RUN, "I finished the charity run in 25:50!", ("27:12", "25:50")),
        ("We have 17 new postcards.", "By now we have 25 new postcards.", ("17", "25")),
        ("The rent is $1,200 a month.", "The rent is now $1,350 a month.", ("$1200", "$1350")),
        ("The call is on Monday evening.", "The call is on Friday evening.", ("monday", "friday")),
        ("We have 17 new postcards.", "We have 17 new postcards and 3 albums.", None),
        ("We have 17 new postcards.", "We have 25 old cats.", None),
        ("We have 17 new postcards.", "The rent is 25 percent higher.", None),
        ("We have postcards.", "We have 25 postcards.", None),
    ],
)
def test_values_of_one_thing_are_found(
    earlier: str, later: str, values: tuple[str, str] | None
) -> None:
    """001-R067: the same type, the same word beside it, and enough words in common."""
    assert restated_value(earlier, later, idf=rare) == values


def test_common_words_prove_nothing() -> None:
    """What every memory is about does not say that two are about the same."""
    earlier, later = "We have 17 new postcards.", "By now we have 25 new postcards."

    assert restated_value(earlier, later, idf=lambda _: 0.5) is None


async def test_a_restated_value_is_reported_for_a_person(store: Store) -> None:
    """Nothing is superseded by itself; another qualifier is another thing."""
    living = LivingMemory(store, ADA)
    for number in range(120):
        await living.add(Fact(key=f"topic {number}", value=f"text number {number} of many"))
    await living.add(Fact(key="quota of uploads", value="each customer may upload 30 films a day"))
    await living.prepare()

    added = await living.add(
        Fact(key="films per customer", value="each customer may upload 50 films a day")
    )
    other = await living.add(
        Fact(key="staging films", value="each customer may upload 70 films a day")
    )

    (pair,) = added.contradictions
    assert pair.reason == "quota of uploads: '30' or '50'"
    assert len(await living.memories()) == 123
    assert other.contradictions == ()
