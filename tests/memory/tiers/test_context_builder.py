"""Four tiers under one budget."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxmgr.core.context.tokens import named_vocabulary
from ctxmgr.errors import Incorrect
from ctxmgr.memory.tiers.context_builder import ContextBuilder, TierItem
from ctxmgr.memory.tiers.profiles import PROFILES, tier_budgets

COUNT = named_vocabulary("cl100k_base").count
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=80)
ITEMS = st.lists(
    st.builds(
        TierItem,
        id=st.integers(0, 12).map(str),
        forms=st.lists(TEXTS, min_size=1, max_size=3).map(tuple),
        why=st.just("because"),
    ),
    max_size=8,
)


def item(name: str, *forms: str) -> TierItem:
    return TierItem(id=name, forms=forms, why="because")


def test_the_default_budget_and_its_profiles() -> None:
    """001-R007 to 001-R011, 001-R078 to 001-R084, 001-R113, 001-R118, 001-R122, 001-A01,
    001-A18.
    """
    assert tier_budgets(8_000) == (2_000, 3_000, 2_000, 1_000)
    assert tier_budgets(8_000, "new_feature") == (2_000, 3_000, 2_000, 1_000)
    assert tier_budgets(8_000, "debugging") == (3_000, 2_500, 1_500, 1_000)
    assert tier_budgets(8_000, "gardening") == tier_budgets(8_000)
    with pytest.raises(Incorrect, match="budget"):
        tier_budgets(0)


@given(budget=st.integers(1, 200_000), activity=st.sampled_from(list(PROFILES)))
def test_every_profile_uses_the_whole_budget(budget: int, activity: str) -> None:
    """001-R123."""
    assert sum(tier_budgets(budget, activity)) == budget


def test_an_item_that_is_too_long_is_shown_shorter_or_not_at_all() -> None:
    """001-A17: it is never cut."""
    builder = ContextBuilder(160, count=COUNT)
    long = "word " * 100

    builder.add_tier1([item("a", long, "short form"), item("b", long)])

    assert [each.text for each in builder.shown] == ["short form"]
    (left_out,) = builder.omitted
    assert (left_out.id, left_out.reason) == ("b", "does not fit what is left of the tier")


def test_an_item_is_shown_once() -> None:
    builder = ContextBuilder(8_000, count=COUNT)

    builder.add_tier1([item("a", "first")])
    builder.add_tier2([item("a", "second"), item("b", "third")])

    assert [(each.tier, each.text) for each in builder.shown] == [(1, "first"), (2, "third")]
    assert builder.render() == ("## Needs attention\n- first\n\n## Relevant now\n- third\n\n")


@given(budget=st.integers(1, 400), tiers=st.tuples(ITEMS, ITEMS, ITEMS, ITEMS))
@settings(max_examples=60, deadline=None)
def test_no_tier_and_no_context_exceeds_its_budget(
    budget: int, tiers: tuple[Sequence[TierItem], ...]
) -> None:
    """Counted in the text that is rendered.

    Rows: 001-R131, 001-A15, 001-A16, 001-R086, 001-R108, 001-R140.
    """
    builder = ContextBuilder(budget, count=COUNT)

    builder.add_tier1(tiers[0])
    builder.add_tier2(tiers[1])
    builder.add_tier3(tiers[2])
    builder.add_tier4(tiers[3])

    assert COUNT(builder.render()) <= builder.token_count <= budget
    assert builder.token_count == sum(builder.tier_tokens)
    assert all(
        used <= allowed
        for used, allowed in zip(builder.tier_tokens, tier_budgets(budget), strict=True)
    )
