"""Servers that speak OpenAI's API each in their own way."""

import json
from typing import Any

import pytest

from ctxmgr.core.model import Called, Ended, Piece, Said
from ctxmgr.errors import AnswerLost
from ctxmgr.models.openai_events import OpenAIReading
from tests.models.asking import told

LS = {"name": "ls", "arguments": '{"path": "a"}'}


def _read(*events: dict[str, Any] | str) -> list[Piece]:
    reading = OpenAIReading(purpose="test", model="m")
    pieces: list[Piece] = []
    for event in events:
        pieces += reading.feed(event if isinstance(event, str) else json.dumps(event))
    return [*pieces, reading.ended()]


def _delta(delta: dict[str, Any], *, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"delta": delta, "finish_reason": finish}]}


@pytest.mark.parametrize(
    "calls",
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
def test_calls_are_told_apart_however_they_are_numbered(calls: list[dict[str, Any]]) -> None:
    """Two calls that run into one would be one call that nobody asked for."""
    _, found, answer = told(_read(*(_delta({"tool_calls": [call]}) for call in calls), _DONE))

    assert found == [Called(tool="ls", args={"path": "a"})] * 2
    assert len({call.toolcall_id for call in answer.asked}) == 2


def test_pieces_without_an_index_belong_to_the_last_call() -> None:
    """Only the first piece of a call has a name."""
    begun = {"id": "a", "function": {"name": "ls", "arguments": '{"path"'}}
    more = {"function": {"arguments": ': "a"}'}}

    _, found, _ = told(
        _read(_delta({"tool_calls": [begun]}), _delta({"tool_calls": [more]}), _DONE)
    )

    assert found == [Called(tool="ls", args={"path": "a"})]


@pytest.mark.parametrize("choices", [None, []])
def test_the_usage_may_come_alone(choices: object) -> None:
    """Some send an empty list with it, some null."""
    usage = {"prompt_tokens": 9, "completion_tokens": 2}

    ended = _read(_delta({"content": "Hi"}), _DONE, {"choices": choices, "usage": usage})[-1]

    assert isinstance(ended, Ended)
    assert ended.charge.usage is not None
    assert ended.charge.usage.prompt_tokens == 9


def test_a_server_that_counts_nothing_is_not_taken_for_free() -> None:
    """Unknown is not zero."""
    ended = _read(_delta({"content": "Hi"}), _DONE, "[DONE]")[-1]

    assert isinstance(ended, Ended)
    assert ended.charge.usage is None


def test_what_a_model_thought_is_kept_and_not_said() -> None:
    """It is given back to the same API, and not shown as an answer."""
    pieces = _read(
        _delta({"reasoning_content": "let "}),
        _delta({"reasoning_content": "me see"}),
        _delta({"content": "Hi"}),
        _DONE,
    )

    text, _, answer = told(pieces)

    assert text == "Hi"
    assert [piece for piece in pieces if isinstance(piece, Said)] == [Said(text="Hi")]
    assert answer.parts[0]["block"] == {"reasoning_content": "let me see"}


def test_only_the_first_choice_is_read() -> None:
    """A server that gives several would have them mixed."""
    other = {"choices": [{"index": 1, "delta": {"content": "No"}, "finish_reason": "stop"}]}

    text, _, _ = told(_read(other, _delta({"content": "Yes"}), _DONE))

    assert text == "Yes"


_DONE = _delta({}, finish="stop")


@pytest.mark.parametrize("unsaid", ["", None])
def test_an_empty_reason_is_no_end(unsaid: str | None) -> None:
    """Some servers give one in every chunk; taken for an end, half an answer would be whole."""
    begun = {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "ls", "arguments": "{"}}]}
    more = {"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]}

    _, found, _ = told(_read(_delta(begun, finish=unsaid), _delta(more, finish=unsaid), _DONE))

    assert found == [Called(tool="ls", args={})]
    with pytest.raises(AnswerLost):
        _read(_delta(begun, finish=unsaid))


def test_fields_that_are_null_are_fields_that_are_missing() -> None:
    """A server that writes out every field is no broken server."""
    empty = {"choices": [{"delta": None, "finish_reason": None}]}
    nameless = _delta({"tool_calls": [{"index": 0, "id": "a", "function": None}]})
    named = _delta({"tool_calls": [{"index": 0, "function": LS}]})

    _, found, _ = told(_read(empty, nameless, named, _DONE))

    assert found == [Called(tool="ls", args={"path": "a"})]
