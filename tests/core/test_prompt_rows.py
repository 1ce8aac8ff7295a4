"""Rows of pieces: each made from another, and still what it would be by itself."""

from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.assembly import Section
from ctxmgr.core.prompt_rows import CountedBlock, Row
from ctxmgr.core.prompt_walk import RunningHash

PIECES = [
    CountedBlock.of(Section.POOL, name, f"{name} é {number}\n", count=len)
    for number in range(3)
    for name in "abcd"
]

lists = st.lists(st.lists(st.sampled_from(PIECES), max_size=40), min_size=1, max_size=6)
parents = st.lists(st.integers(0, 5), min_size=6, max_size=6)


@given(lists, parents)
def test_a_row_is_what_its_pieces_are_whatever_it_was_made_from(
    given: list[list[CountedBlock]], made_from: list[int]
) -> None:
    """Rows share what they know of one another; nobody may see another's pieces by that."""
    rows = [Row(Section.POOL)]
    for pieces, parent in zip(given, made_from, strict=False):
        rows.append(rows[min(parent, len(rows) - 1)].become(pieces))
        rows.append(rows[-1].become([*pieces, PIECES[parent]]))

    for row in rows:
        ids = [each.object_id for each in row.pieces]
        assert [row.has(each) for each in "abcd"] == [each in ids for each in "abcd"]
        assert row.tokens == sum(len(each.text) for each in row.pieces)
        assert row.size_bytes == len("".join(each.text for each in row.pieces).encode())
    for one in rows:
        for other in rows:
            common = one.shared(other)
            assert one.pieces[:common] == other.pieces[:common]
            assert one.pieces[common : common + 1] != other.pieces[common : common + 1] or (
                common == min(len(one.pieces), len(other.pieces))
            )


@given(lists)
def test_a_running_hash_is_that_of_the_whole(given: list[list[CountedBlock]]) -> None:
    """What is not hashed again must be the same as if it were."""
    running, row = RunningHash(Section.POOL), Row(Section.POOL)
    for pieces in given:
        row = row.become(pieces)

        assert running.of(row) == RunningHash(Section.POOL).of(Row(Section.POOL).become(pieces))
