"""What the proxy saved, from the provider's own counts (proxy rules 36 and 37)."""

from dataclasses import replace
from typing import Any

import pytest

from ctxmgr.core.model import Usage
from ctxmgr.proxy.server.accounting import ConversationAccount, CountedRequest, billed


def request(usage: Usage, **more: Any) -> CountedRequest:
    values: dict[str, Any] = {
        "usage": usage,
        "model": "m",
        "began_ms": 0,
        "baseline_tokens": 0,
        "sent_tokens": 0,
        "retrieved_tokens": 0,
        "planned": False,
        "break_cause": None,
    }
    return CountedRequest(**{**values, **more})


def account(*requests: CountedRequest) -> ConversationAccount:
    total = ConversationAccount()
    for each in requests:
        total, _ = total.with_request(each)
    return total


FIRST = Usage(input_tokens=10, cache_written_tokens=10_000, output_tokens=100)
NEXT = Usage(
    input_tokens=10, cache_read_tokens=10_000, cache_written_tokens=1_000, output_tokens=100
)


def test_the_weights_are_those_of_the_prices() -> None:
    usage = Usage(
        input_tokens=1,
        cache_read_tokens=10,
        cache_written_tokens=12,
        cache_written_1h_tokens=4,
        output_tokens=2,
    )

    assert billed(usage) == pytest.approx(1 + 1 + 8 * 1.25 + 4 * 2 + 2 * 5)


def test_without_shaping_nothing_is_claimed() -> None:
    """The cache's discount is the provider's, not ours."""
    same = {"baseline_tokens": 9_000, "sent_tokens": 9_000}

    total = account(request(FIRST, **same), request(NEXT, **same))

    assert total.saved == pytest.approx(0)


def test_what_was_shortened_on_arrival_is_saved_at_its_price() -> None:
    """1,000 tokens were written instead of 3,000, and are read at every later call."""
    before = request(FIRST, baseline_tokens=9_000, sent_tokens=9_000)
    shortened = request(NEXT, baseline_tokens=13_010, sent_tokens=11_010)
    later = Usage(input_tokens=10, cache_read_tokens=11_010, output_tokens=100)
    repeated = request(later, baseline_tokens=13_020, sent_tokens=11_020)

    once = account(before, shortened)
    twice = account(before, shortened, repeated)

    assert once.saved == pytest.approx(2_000 * 1.25, rel=0.01)
    assert twice.saved - once.saved == pytest.approx(2_000 * 0.1, rel=0.05)


def test_without_a_cache_the_whole_difference_is_saved() -> None:
    """A provider that reports no cache bills every token."""
    usage = Usage(input_tokens=1_000, output_tokens=10)

    total = account(request(usage, baseline_tokens=2_000, sent_tokens=1_000))

    assert total.saved == pytest.approx(1_000)


def test_a_planned_break_is_debited() -> None:
    """Folding what was cached costs a rewrite, which the client's own request would not."""
    grown = Usage(cache_read_tokens=10_010, cache_written_tokens=90_000, output_tokens=100)
    before = request(grown, baseline_tokens=100_000, sent_tokens=100_000)
    rewritten = Usage(cache_read_tokens=10_000, cache_written_tokens=50_000, output_tokens=100)
    folded = request(
        rewritten,
        baseline_tokens=101_000,
        sent_tokens=60_000,
        planned=True,
        break_cause="message 4 was folded",
    )

    total, one = account(before).with_request(folded)

    assert one.saved < 0
    assert total.breaks == 1
    assert one.lost is not None
    assert one.lost.cause == "message 4 was folded"


def test_a_retrieval_is_debited_whole() -> None:
    """The model would not have asked for a text that it had been shown."""
    retrieval = request(NEXT, baseline_tokens=12_000, sent_tokens=11_000, retrieved_tokens=900)

    total = account(request(FIRST), retrieval)

    assert total.saved == pytest.approx(-billed(NEXT))
    assert total.retrieved_tokens == 900


@pytest.mark.parametrize(
    ("changed", "cause"),
    [
        ({"break_cause": "the client changed message 3"}, "the client changed message 3"),
        ({"model": "other"}, "the client changed the model from m to other"),
        ({"began_ms": 301_000}, "the provider's cache expired: 301 s since the previous request"),
        ({}, "the provider did not find it, although nothing before it changed"),
    ],
)
def test_every_break_has_a_cause(changed: dict[str, Any], cause: str) -> None:
    """Proxy rule 37: whose doing it was."""
    missed = request(Usage(cache_written_tokens=11_000), **changed)

    total, one = account(request(FIRST)).with_request(missed)

    assert one.lost is not None
    assert (one.lost.cause, one.lost.tokens) == (cause, 10_010)
    assert total.saved == pytest.approx(0)


def test_an_hours_cache_expires_after_an_hour() -> None:
    """A pause of ten minutes does not explain a break then."""
    kept = replace(FIRST, cache_written_1h_tokens=10_000)
    missed = request(Usage(cache_written_tokens=11_000), began_ms=600_000)

    _, one = account(request(kept)).with_request(missed)

    assert one.lost is not None
    assert one.lost.cause.startswith("the provider did not find it")
