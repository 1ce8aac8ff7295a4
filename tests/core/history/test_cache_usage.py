"""Why a cache broke, inferred from the usage that a provider reported."""

from dataclasses import replace

import pytest

from ctxmgr.core.history.cache_breaks import ReportedCall, recorded_costs
from ctxmgr.core.model import Usage, read_usage, to_value

MINUTE_MS = 60_000


def call(n: int, *, read: int, write: int, model: str = "m", minute: float = 0) -> ReportedCall:
    return ReportedCall(
        n=n,
        usage=Usage(
            input_tokens=3, cache_read_tokens=read, cache_written_tokens=write, output_tokens=50
        ),
        model=model,
        timestamp=round(minute * MINUTE_MS),
        toolcall_ids=(f"c{n}",),
    )


FIRST = (call(1, read=0, write=10_000), call(2, read=10_003, write=5_000, minute=1))


def test_a_call_that_reads_the_previous_prompt_from_the_cache_is_not_a_break() -> None:
    """Most calls of a good harness look like this."""
    costs = recorded_costs([*FIRST, call(3, read=15_003, write=400, minute=2)])

    assert [cost.why for cost in costs] == [None, None, None]
    assert sum(cost.cost for cost in costs) == 0


@pytest.mark.parametrize(
    ("third", "why"),
    [
        (call(3, read=0, write=15_400, minute=2, model="other"), "model"),
        (call(3, read=0, write=15_400, minute=9), "idle"),
        (call(3, read=0, write=15_400, minute=2), "beginning"),
        (call(3, read=9_000, write=2_000, minute=2), "shortened"),
        (call(3, read=9_000, write=6_400, minute=2), "prefix"),
    ],
)
def test_each_cause_is_recognised(third: ReportedCall, why: str) -> None:
    """Each has another remedy: shorter pauses, the same model, a stable prefix."""
    *_, last = recorded_costs([*FIRST, third])

    assert last.why == why
    assert last.lost_tokens >= 2_000
    assert last.cost == round(1.15 * last.lost_tokens)


def test_the_end_of_the_cached_part_names_the_text_added_there() -> None:
    """12,000 tokens end in the text that call 2 added: the tool outputs of call 1."""
    *_, last = recorded_costs([*FIRST, call(3, read=12_000, write=3_400, minute=2)])

    assert last.ended_before_call == 2
    assert last.object_ids == ("c1",)
    assert last.lost_tokens == 3_006


def test_a_few_missing_tokens_are_not_a_break() -> None:
    """Providers cache in blocks, so a few tokens are always written again."""
    *_, last = recorded_costs([*FIRST, call(3, read=14_500, write=900, minute=2)])

    assert last.why is None


def test_a_call_without_usage_is_skipped() -> None:
    """An aborted request reports nothing, and the next one finds the cache unchanged."""
    silent = replace(call(3, read=0, write=0, minute=2), usage=Usage())

    costs = recorded_costs([*FIRST, silent, call(4, read=15_003, write=100, minute=3)])

    assert [cost.why for cost in costs] == [None] * 4


@pytest.mark.parametrize(
    "value",
    [
        {
            "input_tokens": 5,
            "cache_read_tokens": 1200,
            "cache_written_tokens": 60,
            "output_tokens": 8,
        },
        {
            "input_tokens": 5,
            "cache_read_input_tokens": 1200,
            "cache_creation_input_tokens": 60,
            "output_tokens": 8,
        },
        {
            "prompt_tokens": 1265,
            "completion_tokens": 8,
            "prompt_tokens_details": {"cached_tokens": 1200},
            "cache_creation_input_tokens": 60,
        },
        {
            "input_tokens": 1265,
            "input_tokens_details": {"cached_tokens": 1200},
            "output_tokens": 8,
            "cache_creation_input_tokens": 60,
        },
    ],
)
def test_usage_is_read_in_the_format_of_every_provider(value: dict[str, object]) -> None:
    """Turns of live sessions store usage as their provider reported it."""
    expected = Usage(
        input_tokens=5, cache_read_tokens=1200, cache_written_tokens=60, output_tokens=8
    )

    assert read_usage(value) == expected
    assert read_usage(to_value(expected)) == expected
    assert read_usage(None) is None
