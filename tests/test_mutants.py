"""The list of mutations fits the code and the tests; ``make mutants`` runs it."""

import re

import pytest

from tests.components import ROOT
from tests.coverage_map import named
from tests.mutants.mutations import Mutation, files_naming, load

MUTATIONS_MIN = 150
"""Fewer would leave most of the rows that a test can prove without one."""

ROW = re.compile(r"(?:000|002|003)-[AR]\d+")


@pytest.mark.parametrize(
    "mutation", load(), ids=lambda mutation: f"{mutation.rows[0]}-{mutation.file}"
)
def test_a_mutation_can_be_applied(mutation: Mutation) -> None:
    """One that no longer fits the code, or breaks its syntax, would prove nothing."""
    mutated = mutation.mutated()

    assert mutated != mutation.path.read_text(encoding="utf-8")
    compile(mutated, mutation.file, "exec", dont_inherit=True)


def test_no_mutation_is_listed_twice() -> None:
    """The number of mutations says something only if they differ."""
    mutations = load()

    assert len(mutations) >= MUTATIONS_MIN
    assert len(set(mutations)) == len(mutations)


def test_every_row_of_a_mutation_is_named_by_a_test() -> None:
    """Only the tests of its rows are run; without any, nothing could notice it."""
    tested = named(ROOT / "tests")
    rows = {row for mutation in load() for row in mutation.rows}

    assert [row for row in sorted(rows) if not ROW.fullmatch(row)] == []
    assert [row for row in sorted(rows) if row not in tested or not files_naming([row])] == []
