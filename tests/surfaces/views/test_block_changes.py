"""Changes of a prompt's blocks, derived from their texts and objects."""

from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.context.assembly import Block, Section
from ctxmgr.core.history.prompt_rows import Prompt
from ctxmgr.surfaces.views.differences import compare_blocks

Blocks = list[tuple[str, str]]

blocks = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from(["one", "two"])),
    max_size=8,
    unique_by=lambda block: block[0],
)


def _prompt(given: Blocks) -> Prompt:
    made = [
        Block(section=Section.POOL, object_id=name, text=f"{name} {text}") for name, text in given
    ]
    return Prompt.of(made, count=len)


def _changes(before: Blocks, now: Blocks) -> tuple[list[str], list[str | None]]:
    result, gone = compare_blocks(_prompt(before), _prompt(now))
    return [change for _, change in result], [item.object_id for item in gone]


def test_blocks_that_keep_their_order_are_unchanged() -> None:
    """If one block goes to the end, only that block has moved."""
    before = [("a", "one"), ("b", "one"), ("c", "one")]

    changes, gone = _changes(before, [*before[1:], before[0]])

    assert (changes, gone) == (["same", "same", "moved"], [])


def test_a_new_text_of_an_object_is_one_change() -> None:
    """An edited file is one change, not a removal and an addition."""
    changes, gone = _changes([("a", "one"), ("b", "one")], [("a", "two"), ("c", "one")])

    assert (changes, gone) == (["changed", "new"], ["b"])


@given(blocks, blocks)
def test_every_block_is_accounted_for_once(before: Blocks, now: Blocks) -> None:
    """A block that is neither new nor gone is in both prompts."""
    changes, gone = _changes(before, now)

    old, new = dict(before), dict(now)
    for (name, text), change in zip(now, changes, strict=True):
        assert (change == "new") == (name not in old)
        assert (change == "changed") == (name in old and old[name] != text)
    assert set(gone) == old.keys() - new.keys()
    kept = [name for (name, _), change in zip(now, changes, strict=True) if change == "same"]
    assert kept == [name for name, _ in before if name in kept]
