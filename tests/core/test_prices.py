"""What a call costs in dollars: which model matches which price, and the arithmetic."""

import pytest

from ctxmgr.core.model import Usage, read_usage, to_value
from ctxmgr.core.prices import LISTED, ModelPrice, PriceList

USAGE = Usage(
    input_tokens=1_000, cache_read_tokens=80_000, cache_written_tokens=2_000, output_tokens=500
)
OWN = ModelPrice(input=1, output=2, cache_read=1, cache_write=1, cache_write_1h=1)


def test_each_count_has_its_own_price():
    """A read from the cache costs a tenth, a write more than fresh input, an answer most."""
    usd = PriceList().usd("claude-sonnet-4-5", USAGE)

    assert usd == pytest.approx((1_000 * 3 + 80_000 * 0.3 + 2_000 * 3.75 + 500 * 15) / 1e6)


def test_what_is_kept_for_an_hour_costs_more():
    """Claude Code writes its cache for an hour, which costs twice the price of input."""
    reported = {
        "input_tokens": 0,
        "output_tokens": 0,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 1_000,
        "cache_creation": {"ephemeral_5m_input_tokens": 400, "ephemeral_1h_input_tokens": 600},
    }

    usage = read_usage(reported)

    assert usage is not None
    assert PriceList().usd("claude-opus-4-5", usage) == pytest.approx((400 * 6.25 + 600 * 10) / 1e6)
    assert read_usage(to_value(usage)) == usage


def test_usage_is_stored_as_before_if_nothing_is_kept_for_an_hour():
    """Stored turns keep their form; only the new count adds a key."""
    assert list(to_value(USAGE)) == [
        "input_tokens",
        "cache_read_tokens",
        "cache_written_tokens",
        "output_tokens",
    ]


@pytest.mark.parametrize(
    ("model", "listed"),
    [
        ("claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-sonnet-4-20250514", "claude-sonnet-4"),
        ("claude-opus-4-5@20251101", "claude-opus-4-5"),
        ("claude-3-7-sonnet-latest", "claude-3-7-sonnet"),
        ("gpt-5-2025-08-07", "gpt-5"),
        ("gpt-5-mini-2025-08-07", "gpt-5-mini"),
        ("claude-opus-5-5", "claude-opus-5-5"),
    ],
)
def test_a_dated_or_aliased_name_has_the_price_of_its_model(model, listed):
    """Providers report snapshots, such as claude-sonnet-4-5-20250929."""
    assert PriceList().of(model) == LISTED[listed]


@pytest.mark.parametrize(
    "model",
    [
        None,
        "",
        "gpt-5-turbo-max",
        "gpt-5.9",
        "claude-opus-5-9",
        "claude-sonnet-4-55",
        "claude",
        "qwen3",
        "anthropic/claude-sonnet-4-5",
        "claude-sonnet-4-5-20250929-fast",
    ],
)
def test_an_unknown_model_has_no_price(model):
    """A newer or resold model may cost anything; a guess would be shown as a fact."""
    assert PriceList().of(model) is None
    assert PriceList().usd(model, USAGE) is None
    assert PriceList().estimate(model, prompt_tokens=1, cached_tokens=0, output_tokens=1) is None


def test_unreported_usage_has_no_cost_but_an_estimate():
    """An estimate is a separate question, so that nobody takes it for what was paid."""
    prices = PriceList()

    assert prices.usd("gpt-5", None) is None
    estimate = prices.estimate(
        "gpt-5", prompt_tokens=10_000, cached_tokens=8_000, output_tokens=100
    )
    assert estimate == pytest.approx((2_000 * 1.25 + 8_000 * 0.125 + 100 * 10) / 1e6)


def test_a_long_prompt_costs_more_per_token():
    """Some models charge a prompt beyond a limit at another price, cached tokens included."""
    prices = PriceList()
    short = Usage(cache_read_tokens=90_000, input_tokens=10_000)
    long = Usage(cache_read_tokens=90_000, input_tokens=10_001)

    assert prices.usd("claude-haiku-5-5", short) == pytest.approx(
        (90_000 * 0.01 + 10_000 * 0.1) / 1e6
    )
    assert prices.usd("claude-haiku-5-5", long) == pytest.approx(
        (90_000 * 0.05 + 10_001 * 0.5) / 1e6
    )


def test_a_persons_prices_replace_the_listed_ones():
    """A contract or one's own server; the longest name that matches decides."""
    dear = ModelPrice(input=9, output=9, cache_read=9, cache_write=9, cache_write_1h=9)
    prices = PriceList({"qwen": OWN, "qwen3-coder": dear, "claude-sonnet-4-5": OWN})

    assert prices.of("qwen3") == OWN
    assert prices.of("qwen3-coder-30b") == dear
    assert prices.of("claude-sonnet-4-5-20250929") == OWN
    assert prices.of("claude-opus-4-5") == LISTED["claude-opus-4-5"]
