"""Facts that give one slot two values."""

import pytest

from ctxmgr.memory.contradictions.slots import disagreement
from ctxmgr.memory.records.bodies import Fact


def fact(key: str, value: str, scope: str | None = None) -> Fact:
    return Fact(key=key, value=value, scope=scope)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (fact("database", "PostgreSQL 15"), fact("db", "PostgreSQL 14")),
        (fact("indentation", "4 spaces", "python"), fact("indent style", "tabs", "Python")),
        (fact("test runner", "pytest"), fact("runner for tests", "unittest")),
        (fact("auto push", "off"), fact("auto push", "enabled")),
        (fact("port", "8080"), fact("default port", "9090")),
        (fact("commit style", "use emojis"), fact("commit style", "do not use emojis")),
        (fact("timeout", "30 seconds"), fact("timeout", "ten seconds")),
    ],
)
def test_two_values_for_one_slot_disagree(one: Fact, other: Fact) -> None:
    """001-R067, 001-R134: whatever the order, and though the keys are put differently."""
    assert disagreement(one, other) is not None
    assert disagreement(other, one) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (fact("database", "Postgres"), fact("db", "PostgreSQL")),
        (fact("database", "PostgreSQL"), fact("database", "PostgreSQL 15")),
        (fact("indentation", "4 spaces", "python"), fact("indentation", "2 spaces", "go")),
        (fact("indentation", "4 spaces"), fact("indentation", "2 spaces", "go")),
        (fact("indentation", "four spaces"), fact("indentation", "4 spaces")),
        (fact("port of the API", "8080"), fact("port of the database", "5432")),
        (fact("auto push", "off"), fact("auto push", "disabled")),
        (fact("owner", "Ada"), fact("reviewer", "Grace")),
    ],
)
def test_the_same_value_or_another_slot_does_not(one: Fact, other: Fact) -> None:
    """A narrower scope is an exception, and a longer value says more of the same."""
    assert disagreement(one, other) is None
    assert disagreement(other, one) is None
