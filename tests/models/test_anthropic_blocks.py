"""Blocks of Anthropic's answers that are neither text nor tool use."""

import json
from typing import Any

import pytest

from ctxmgr.core.model import AnswerDone
from ctxmgr.errors import AnswerLost
from ctxmgr.models.anthropic import AnthropicAnswer

END = (
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
    {"type": "message_stop"},
)


def _read(*events: dict[str, Any]) -> AnswerDone:
    answer = AnthropicAnswer(purpose="test", model="m")
    for event in events:
        list(answer.feed(json.dumps(event)))
    return answer.result()


def _block(start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": 0, "content_block": start},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
    ]


def test_thinking_keeps_its_signature() -> None:
    """The API rejects thinking that is sent back without its signature."""
    block = _block(
        {"type": "thinking", "thinking": ""},
        {"type": "thinking_delta", "thinking": "Let me "},
        {"type": "thinking_delta", "thinking": "see"},
        {"type": "signature_delta", "signature": "c2ln"},
    )

    done = _read(*block, *END)

    assert done.reply["content"] == [
        {"type": "thinking", "thinking": "Let me see", "signature": "c2ln"}
    ]


def test_citations_stay_with_their_text() -> None:
    """They are part of the answer."""
    block = _block(
        {"type": "text", "text": ""},
        {"type": "text_delta", "text": "So."},
        {"type": "citations_delta", "citation": {"cited_text": "x"}},
    )

    done = _read(*block, *END)

    assert done.reply["content"][0]["citations"] == [{"cited_text": "x"}]


def test_unknown_events_are_ignored() -> None:
    """The API asks its clients not to fail on them."""
    block = _block({"type": "text", "text": "Hi"}, {"type": "sparkle_delta", "sparkle": 1})

    done = _read({"type": "fanfare"}, *block, *END)

    assert done.reply["content"] == [{"type": "text", "text": "Hi"}]


def test_usage_that_is_reported_twice_counts_once() -> None:
    """The last figures are those of the whole answer."""
    start = {"message": {"usage": {"input_tokens": 9, "output_tokens": 1}}}

    done = _read({"type": "message_start", **start}, *END)

    assert done.charge.usage is not None
    assert (done.charge.usage.input_tokens, done.charge.usage.output_tokens) == (9, 5)


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(_block({"type": "text", "text": ""})[:1] + list(END), id="never ended"),
        pytest.param(_block({"type": "text"})[1:] + list(END), id="never begun"),
        pytest.param([END[1]], id="no reason"),
        pytest.param([END[0]], id="no stop"),
    ],
)
def test_an_incomplete_answer_is_lost(events: list[dict[str, Any]]) -> None:
    """It is requested again instead of being stored incomplete."""
    with pytest.raises(AnswerLost):
        _read(*events)


@pytest.mark.parametrize("kind", ["text", "thinking"])
def test_a_block_may_start_with_null(kind: str) -> None:
    """Some servers that implement this API send empty fields as null."""
    block = _block({"type": kind, kind: None}, {"type": f"{kind}_delta", kind: "So."})

    done = _read(*block, *END)

    assert done.reply["content"] == [{"type": kind, kind: "So."}]
