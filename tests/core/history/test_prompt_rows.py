"""Rows of blocks: built incrementally, and equal to rows built from scratch."""

from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.context.assembly import PieceKind, Section
from ctxmgr.core.history.prompt_rows import CountedBlock, PromptRow
from ctxmgr.core.history.rebuild import RowHash

KINDS = (PieceKind.LISTED, PieceKind.USER, PieceKind.FOLDED)
PIECES = [
    CountedBlock.of(Section.POOL, name, f"{name} é {number}\n", count=len, kind=KINDS[number])
    for number in range(3)
    for name in "abcd"
]

lists = st.lists(st.lists(st.sampled_from(PIECES), max_size=40), min_size=1, max_size=6)
parents = st.lists(st.integers(0, 5), min_size=6, max_size=6)


@given(lists, parents)
def test_a_row_depends_only_on_its_blocks(
    given: list[list[CountedBlock]], made_from: list[int]
) -> None:
    """Rows share data with one another, but never show the blocks of another row."""
    rows = [PromptRow(Section.POOL)]
    for pieces, parent in zip(given, made_from, strict=False):
        rows.append(rows[min(parent, len(rows) - 1)].become(pieces))
        rows.append(rows[-1].become([*pieces, PIECES[parent]]))

    for row in rows:
        ids = [block.object_id for block in row.blocks]
        assert [row.has(letter) for letter in "abcd"] == [letter in ids for letter in "abcd"]
        assert row.tokens == sum(len(block.text) for block in row.blocks)
        for kind in KINDS:
            of_kind = [len(block.text) for block in row.blocks if block.kind is kind]
            assert row.kind_tokens[kind] == sum(of_kind)
        assert row.size_bytes == len("".join(block.text for block in row.blocks).encode())
    for one in rows:
        for other in rows:
            common = one.shared(other)
            assert one.blocks[:common] == other.blocks[:common]
            assert one.blocks[common : common + 1] != other.blocks[common : common + 1] or (
                common == min(len(one.blocks), len(other.blocks))
            )


@given(lists)
def test_a_running_hash_equals_the_hash_of_the_whole(given: list[list[CountedBlock]]) -> None:
    """Skipping unchanged blocks does not change the hash."""
    running, row = RowHash(Section.POOL), PromptRow(Section.POOL)
    for pieces in given:
        row = row.become(pieces)

        assert running.of(row) == RowHash(Section.POOL).of(PromptRow(Section.POOL).become(pieces))
