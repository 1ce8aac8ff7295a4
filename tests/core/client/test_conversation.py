"""Harnesses hand over their whole array, shortened or replaced."""

from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.client.conversation import new_turns
from ctxmgr.core.objects.answers import text_part
from ctxmgr.core.objects.chat import Turn


def turns(names: str) -> list[Turn]:
    return [Turn(user=name, assistant=(text_part(f"to {name}"),)) for name in names]


def said(found: tuple[Turn, ...]) -> str:
    return "".join(turn.user for turn in found)


@given(st.text("abc", max_size=8), st.integers(0, 8), st.text("abc", max_size=4))
def test_a_shortened_array_neither_repeats_nor_loses(known: str, cut: int, more: str) -> None:
    """PG-08: whatever the harness forgot at the beginning, what is new is what was added."""
    kept = known[min(cut, max(0, len(known) - 1)) :]
    unlike = more.upper()

    assert said(new_turns(turns(known), turns(kept + unlike))) == unlike


def test_a_summary_in_place_of_the_beginning_is_no_turn() -> None:
    """PG-08: compaction by the harness adds nothing to the chat."""
    assert said(new_turns(turns("abcde"), turns("Sdefg"))) == "fg"


def test_an_array_begun_anew_gives_what_is_unknown() -> None:
    """PG-08: turns that the chat has are not stored twice."""
    assert said(new_turns(turns("abc"), turns("axy"))) == "xy"
    assert said(new_turns(turns("abc"), turns(""))) == ""
    assert said(new_turns(turns(""), turns("ab"))) == "ab"
