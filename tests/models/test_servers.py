"""Servers that implement OpenAI's API with differences."""

import json
from typing import Any

import pytest

from ctxmgr.core.model import AnswerDone, AnswerPart, TextDelta, ToolUse
from ctxmgr.errors import AnswerLost
from ctxmgr.models.openai import OpenAIAnswer
from tests.models.requests import read_parts

LS = {"name": "ls", "arguments": '{"path": "a"}'}


def _read(*events: dict[str, Any] | str) -> list[AnswerPart]:
    answer = OpenAIAnswer(purpose="test", model="m")
    parts: list[AnswerPart] = []
    for event in events:
        parts += answer.feed(event if isinstance(event, str) else json.dumps(event))
    return [*parts, answer.result()]


def _delta(delta: dict[str, Any], *, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"delta": delta, "finish_reason": finish}]}


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([{"id": "a", "function": LS}, {"id": "b", "function": LS}], id="no index"),
        pytest.param(
            [{"index": 0, "id": "a", "function": LS}, {"index": 0, "id": "b", "function": LS}],
            id="one index for all",
        ),
        pytest.param(
            [{"index": 0, "function": LS}, {"index": 1, "function": LS}], id="no id at all"
        ),
    ],
)
def test_calls_are_separated_in_every_numbering(pieces: list[dict[str, Any]]) -> None:
    """Two calls must not be merged into one."""
    _, calls, answer = read_parts(
        _read(*(_delta({"tool_calls": [piece]}) for piece in pieces), _DONE)
    )

    assert calls == [ToolUse(tool="ls", args={"path": "a"})] * 2
    assert len({call.toolcall_id for call in answer.calls}) == 2


def test_pieces_without_an_index_belong_to_the_last_call() -> None:
    """Only the first piece of a call has the name."""
    start = {"id": "a", "function": {"name": "ls", "arguments": '{"path"'}}
    more = {"function": {"arguments": ': "a"}'}}

    _, calls, _ = read_parts(
        _read(_delta({"tool_calls": [start]}), _delta({"tool_calls": [more]}), _DONE)
    )

    assert calls == [ToolUse(tool="ls", args={"path": "a"})]


@pytest.mark.parametrize("choices", [None, []])
def test_the_usage_may_come_in_its_own_chunk(choices: object) -> None:
    """Some servers send an empty list of choices with it, some null."""
    usage = {"prompt_tokens": 9, "completion_tokens": 2}

    done = _read(_delta({"content": "Hi"}), _DONE, {"choices": choices, "usage": usage})[-1]

    assert isinstance(done, AnswerDone)
    assert done.charge.usage is not None
    assert done.charge.usage.prompt_tokens == 9


def test_unreported_usage_is_unknown() -> None:
    """It must not count as zero."""
    done = _read(_delta({"content": "Hi"}), _DONE, "[DONE]")[-1]

    assert isinstance(done, AnswerDone)
    assert done.charge.usage is None


def test_reasoning_is_kept_and_not_shown() -> None:
    """It is stored for the same API, and is not part of the text."""
    parts = _read(
        _delta({"reasoning_content": "let "}),
        _delta({"reasoning_content": "me see"}),
        _delta({"content": "Hi"}),
        _DONE,
    )

    text, _, answer = read_parts(parts)

    assert text == "Hi"
    assert [part for part in parts if isinstance(part, TextDelta)] == [TextDelta(text="Hi")]
    assert answer.parts[0]["block"] == {"reasoning_content": "let me see"}


def test_only_the_first_choice_is_read() -> None:
    """Several choices must not be mixed."""
    other = {"choices": [{"index": 1, "delta": {"content": "No"}, "finish_reason": "stop"}]}

    text, _, _ = read_parts(_read(other, _delta({"content": "Yes"}), _DONE))

    assert text == "Yes"


_DONE = _delta({}, finish="stop")


@pytest.mark.parametrize("reason", ["", None])
def test_an_empty_reason_does_not_end_an_answer(reason: str | None) -> None:
    """Some servers send one in every chunk."""
    start = {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "ls", "arguments": "{"}}]}
    more = {"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]}

    _, calls, _ = read_parts(
        _read(_delta(start, finish=reason), _delta(more, finish=reason), _DONE)
    )

    assert calls == [ToolUse(tool="ls", args={})]
    with pytest.raises(AnswerLost):
        _read(_delta(start, finish=reason))


def test_null_fields_count_as_missing() -> None:
    """Some servers send every field."""
    empty = {"choices": [{"delta": None, "finish_reason": None}]}
    nameless = _delta({"tool_calls": [{"index": 0, "id": "a", "function": None}]})
    named = _delta({"tool_calls": [{"index": 0, "function": LS}]})

    _, calls, _ = read_parts(_read(empty, nameless, named, _DONE))

    assert calls == [ToolUse(tool="ls", args={"path": "a"})]
