"""New turns in the full message array of a harness, even if it was shortened or replaced."""

from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.client.conversation import new_turns
from ctxmgr.core.objects.answers import text_part
from ctxmgr.core.objects.chat import Turn


def turns(names: str) -> list[Turn]:
    return [Turn(user=name, assistant=(text_part(f"to {name}"),)) for name in names]


def user_texts(turns: tuple[Turn, ...]) -> str:
    return "".join(turn.user for turn in turns)


@given(st.text("abc", max_size=8), st.integers(0, 8), st.text("abc", max_size=4))
def test_a_shortened_array_neither_repeats_nor_loses(stored: str, cut: int, more: str) -> None:
    """PG-08: however much the harness dropped from the start, only added turns are new."""
    kept = stored[min(cut, max(0, len(stored) - 1)) :]
    unlike = more.upper()

    assert user_texts(new_turns(turns(stored), turns(kept + unlike))) == unlike


def test_a_summary_that_replaces_the_start_is_not_a_turn() -> None:
    """PG-08: compaction by the harness adds nothing to the chat."""
    assert user_texts(new_turns(turns("abcde"), turns("Sdefg"))) == "fg"


def test_a_restarted_array_yields_only_turns_not_stored_yet() -> None:
    """PG-08: turns that the chat already has are not stored twice."""
    assert user_texts(new_turns(turns("abc"), turns("axy"))) == "xy"
    assert user_texts(new_turns(turns("abc"), turns(""))) == ""
    assert user_texts(new_turns(turns(""), turns("ab"))) == "ab"
