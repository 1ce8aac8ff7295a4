"""Blocks of Anthropic's answers that are neither text nor tool use."""

import json
from typing import Any

import pytest

from ctxmgr.core.model import Ended
from ctxmgr.errors import AnswerLost
from ctxmgr.models.anthropic_events import AnthropicReading

END = (
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
    {"type": "message_stop"},
)


def _read(*events: dict[str, Any]) -> Ended:
    reading = AnthropicReading(purpose="test", model="m")
    for event in events:
        list(reading.feed(json.dumps(event)))
    return reading.ended()


def _block(start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": 0, "content_block": start},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
    ]


def test_thinking_keeps_its_signature() -> None:
    """Sent back without it, the API refuses the conversation."""
    block = _block(
        {"type": "thinking", "thinking": ""},
        {"type": "thinking_delta", "thinking": "Let me "},
        {"type": "thinking_delta", "thinking": "see"},
        {"type": "signature_delta", "signature": "c2ln"},
    )

    ended = _read(*block, *END)

    assert ended.reply["content"] == [
        {"type": "thinking", "thinking": "Let me see", "signature": "c2ln"}
    ]


def test_citations_stay_with_their_text() -> None:
    """They are part of what was said."""
    block = _block(
        {"type": "text", "text": ""},
        {"type": "text_delta", "text": "So."},
        {"type": "citations_delta", "citation": {"cited_text": "x"}},
    )

    ended = _read(*block, *END)

    assert ended.reply["content"][0]["citations"] == [{"cited_text": "x"}]


def test_what_is_new_in_the_api_is_left_out() -> None:
    """The API asks its clients not to fail on events they do not know."""
    block = _block({"type": "text", "text": "Hi"}, {"type": "sparkle_delta", "sparkle": 1})

    ended = _read({"type": "fanfare"}, *block, *END)

    assert ended.reply["content"] == [{"type": "text", "text": "Hi"}]


def test_a_cost_that_was_told_twice_counts_once() -> None:
    """The figures of the end stand for the whole answer."""
    start = {"message": {"usage": {"input_tokens": 9, "output_tokens": 1}}}

    ended = _read({"type": "message_start", **start}, *END)

    assert ended.charge.usage is not None
    assert (ended.charge.usage.input_tokens, ended.charge.usage.output_tokens) == (9, 5)


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(_block({"type": "text", "text": ""})[:1] + list(END), id="never ended"),
        pytest.param(_block({"type": "text"})[1:] + list(END), id="never begun"),
        pytest.param([END[1]], id="no reason"),
        pytest.param([END[0]], id="no stop"),
    ],
)
def test_an_answer_that_does_not_add_up_is_lost(events: list[dict[str, Any]]) -> None:
    """Better asked for again than stored with a hole."""
    with pytest.raises(AnswerLost):
        _read(*events)


@pytest.mark.parametrize("kind", ["text", "thinking"])
def test_a_block_may_begin_with_null(kind: str) -> None:
    """Other servers speak this API too, and write out fields that hold nothing yet."""
    block = _block({"type": kind, kind: None}, {"type": f"{kind}_delta", kind: "So."})

    ended = _read(*block, *END)

    assert ended.reply["content"] == [{"type": kind, kind: "So."}]
