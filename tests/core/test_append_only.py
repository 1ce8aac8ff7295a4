"""Append-only values."""

import hashlib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.append_only import AppendOnly, Fold, Rope
from tests.core.builders.values import texts


@given(st.lists(texts), st.lists(texts), st.lists(texts))
def test_two_values_grown_from_one_are_independent(
    first: list[str], second: list[str], third: list[str]
) -> None:
    """003-R125: they share memory but never state."""
    base = AppendOnly(first)

    one, other = base.add(second), base.add(third)

    assert (list(base), list(one), list(other)) == (first, first + second, first + third)
    assert one == AppendOnly(first + second)
    assert one[len(first) :] == second


def test_an_index_beyond_the_end_raises() -> None:
    """003-R125: items of a longer copy must not be visible in the shorter."""
    base = AppendOnly(["a"])
    base.add(["b"])

    assert (base[-1], base[0], "b" in base) == ("a", "a", False)
    with pytest.raises(IndexError):
        base[1]


@given(st.lists(st.tuples(st.integers(0, 20), st.lists(texts, max_size=3)), max_size=12))
def test_a_fold_is_the_same_however_the_sequence_came_about(
    steps: list[tuple[int, list[str]]],
) -> None:
    """003-R125: what is kept of a shorter sequence, or of a branch, is never another's."""
    joined: Fold[str, tuple[str, ...]] = Fold((), add=lambda state, items: (*state, *items))
    states = [AppendOnly(["first"])]

    for base, items in steps:
        states.append(states[base % len(states)].add(items))
        if base % 3:
            joined.of(states[-1])

    for sequence in [*states, *reversed(states)]:
        assert joined.of(sequence) == tuple(sequence)


def test_a_fold_reads_each_item_once() -> None:
    """003-R078: a turn costs what is new, however long the chat is."""
    read: list[str] = []

    def add(count: int, items: Sequence[str]) -> int:
        read.extend(items)
        return count + len(items)

    counted: Fold[str, int] = Fold(0, add=add)
    sequence = AppendOnly(["a", "b"])
    counted.of(sequence)

    sequence = sequence.add(["c"])

    assert (counted.of(sequence), counted.of(sequence)) == (3, 3)
    assert read == ["a", "b", "c"]


def test_only_a_sequence_that_grew_from_another_continues_it() -> None:
    """003-R125: equal items prove nothing about what a store has of them."""
    base = AppendOnly(["a"])
    longer, branch = base.add(["b"]), base.add(["c"])

    assert (longer.continues(base), longer.continues(longer)) == (True, True)
    assert (base.continues(longer), branch.continues(base)) == (False, False)


@given(st.lists(texts), texts)
def test_a_rope_has_the_text_and_hash_of_its_parts(pieces: list[str], more: str) -> None:
    """PG-09: incremental growth must not change the result."""
    rope = Rope()
    for piece in pieces:
        rope = rope.append(piece)

    rope.append(more)

    text = "".join(pieces)
    assert (rope.text, "".join(rope.parts)) == (text, text)
    assert rope.hash == hashlib.sha256(text.encode()).hexdigest()
    assert (rope == Rope(pieces), bool(rope)) == (True, bool(text))


def test_a_long_rope_has_few_parts() -> None:
    """003-R137: joining a chat of ten thousand messages costs little more than one copy."""
    rope = Rope()
    for number in range(2_000):
        rope = rope.append(f"message {number}\n" * (number % 7))

    assert len(rope.parts) <= 20
