"""Deciding by cost what to fold and when."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.economy.planner import FoldCandidate, FoldPlan, FoldReason, plan_folds, plan_window
from ctxmgr.core.economy.policy import Prices

PRICES: Final = Prices(read=0.1, write=1.25)


def plan(
    candidates: list[FoldCandidate], messages: list[int], *, calls: int, cold: bool = False
) -> FoldPlan | None:
    return plan_folds(
        candidates,
        message_tokens=messages,
        cached=len(messages),
        calls=calls,
        caution=1,
        prices=PRICES,
        cold=cold,
    )


def test_a_fold_waits_until_it_saves_more_than_the_rewrite_costs() -> None:
    """Folding outputs one by one costs more than folding nothing: each breaks the prefix."""
    candidates, messages = [FoldCandidate(0, 1000, 100)], [1000, 2000]

    assert plan(candidates, messages, calls=20) is None
    assert plan(candidates, messages, calls=30) is not None


def test_a_batch_includes_what_will_be_rewritten_anyway() -> None:
    """Once the prefix breaks somewhere, folding after that point is free."""
    candidates = [FoldCandidate(0, 1000, 100), FoldCandidate(2, 120, 100)]

    made = plan(candidates, [1000, 500, 120], calls=100)

    assert made is not None
    assert made.reason is FoldReason.PAYS
    assert (made.start, made.folds) == (0, (0, 1))
    assert made.saved_tokens == 920
    assert made.rewritten_tokens == 100 + 500 + 100


def test_a_call_with_a_cold_cache_folds_everything_foldable() -> None:
    """Nothing is cached, so the rewrite is free."""
    made = plan([FoldCandidate(0, 1000, 990)], [1000, 90_000], calls=1, cold=True)

    assert made is not None
    assert made.reason is FoldReason.COLD
    assert made.folds == (0,)


def test_a_known_number_of_remaining_calls_replaces_the_estimate() -> None:
    """A harness that is about to stop should not rewrite anything."""
    made = plan_folds(
        [FoldCandidate(0, 1000, 100)],
        message_tokens=[1000],
        cached=1,
        calls=500,
        caution=1,
        prices=PRICES,
        calls_expected=0,
    )

    assert made is None


def test_the_window_takes_the_oldest_until_it_is_satisfied() -> None:
    """The latest outputs are most likely to be needed."""
    candidates = [FoldCandidate(at, 100, 40) for at in range(5)]

    made = plan_window(candidates, excess=100)

    assert (made.reason, made.folds, made.saved_tokens) == (FoldReason.WINDOW, (0, 1), 120)


@given(
    sizes=st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), min_size=1, max_size=12),
    calls=st.integers(1, 60),
)
def test_no_other_start_of_the_batch_would_save_more(
    sizes: list[tuple[int, int]], calls: int
) -> None:
    """The plan is optimal, compared with trying every start."""
    messages = [max(pair) for pair in sizes]
    candidates = [
        FoldCandidate(at, max(pair), min(pair))
        for at, pair in enumerate(sizes)
        if pair[0] != pair[1]
    ]

    made = plan(candidates, messages, calls=calls)

    nets = [
        PRICES.read * max(calls, 5) * sum(c.tokens - c.folded_tokens for c in candidates[first:])
        - (PRICES.write - PRICES.read)
        * (
            sum(messages[candidates[first].position :])
            - sum(c.tokens - c.folded_tokens for c in candidates[first:])
        )
        for first in range(len(candidates))
    ]
    best = max(nets, default=0.0)
    assert (made is None) == (best <= 0)
    assert made is None or abs(made.net - best) < 1e-6


@pytest.mark.parametrize(("waited", "batches"), [(0, 0), (4, 0), (12, 1)])
def test_a_batch_waits_until_it_could_have_saved_its_rewrite(waited: int, batches: int) -> None:
    """What becomes foldable a few calls later would need the next rewrite."""
    made = plan_folds(
        [FoldCandidate(0, 1000, 0, waited)],
        message_tokens=[1000, 1000],
        cached=2,
        calls=1000,
        caution=1,
        prices=Prices(),
        patience=0.8,
    )

    assert (made is not None) == batches
