"""The names of texts."""

from hypothesis import example, given
from hypothesis import strategies as st

from ctxmgr.core.economy.visible_names import identifier_set, identifiers


@given(st.text(alphabet="aZ_09./- \n\té", max_size=40))
@example("./src/a.py -x 1234/abc_def a-123 12ab-345 /usr/bin")
@example("1234.5678 99bottles_of --verbose 0x1234")
def test_the_fast_way_finds_the_same_names(text: str) -> None:
    """What a resumed session folds depends on these names, and must not differ."""
    assert identifier_set(text) == frozenset(identifiers(text))
