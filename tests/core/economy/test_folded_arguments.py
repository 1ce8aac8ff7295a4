"""Long strings in arguments, found and replaced."""

from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.economy.stream_turns import replaced, strings
from tests.core.builders.values import maps


def test_a_name_with_a_slash_is_not_taken_for_a_path() -> None:
    """Two different arguments must never be exchanged."""
    args = {"a/b": "first", "a": {"b": "second"}}
    first, second = (path for path, _ in strings(args))

    assert first != second
    assert replaced(args, {first: "new"}) == {"a/b": "new", "a": {"b": "second"}}


@given(args=maps, data=st.data())
def test_only_the_chosen_strings_change(args: dict[str, object], data: st.DataObject) -> None:
    """A folded argument stays valid, and everything else is unchanged."""
    texts = dict(strings(args))
    chosen = data.draw(st.sets(st.sampled_from(sorted(texts)))) if texts else set()

    after = replaced(args, dict.fromkeys(chosen, "folded"))

    assert replaced(args, {}) == args
    assert dict(strings(after)) == texts | dict.fromkeys(chosen, "folded")
