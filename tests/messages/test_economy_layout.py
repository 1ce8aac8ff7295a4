"""The economy layout as messages: valid pairs, valid JSON, few and stable breakpoints."""

import itertools
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.context.assembly import Context
from ctxmgr.messages import anthropic, openai
from tests.core.builders.streams import Talk, long_output


def context(turns: int, *, lines: int = 80) -> Context:
    talk = Talk()
    for number in range(turns):
        args = {"path": f"{number}.py", "text": long_output(f"new{number}")}
        talk.turn(long_output(f"f{number}", lines=lines), tool="write", args=args)
    talk.prompt()
    return Context(
        session_id="s1",
        system_prompt="Be careful.",
        transcript=talk.stream.transcript,
        user="go on",
        marks=talk.planning.marks(),
    )


def marked(payload: dict[str, Any]) -> list[dict[str, Any]]:
    contents = [payload["system"], *(message["content"] for message in payload["messages"])]
    return [block for content in contents for block in content if "cache_control" in block]


@given(turns=st.integers(0, 12))
def test_every_call_is_followed_by_its_result(turns: int) -> None:
    """APIs reject a conversation with separated pairs."""
    messages = anthropic.payload(context(turns))["messages"]

    for request, response in itertools.pairwise(messages):
        uses = [block["id"] for block in request["content"] if block["type"] == "tool_use"]
        results = [
            block["tool_use_id"] for block in response["content"] if block["type"] == "tool_result"
        ]
        assert results == uses


@given(turns=st.integers(0, 30))
def test_there_are_never_too_many_breakpoints(turns: int) -> None:
    """The fifth ``cache_control`` is an error that ends the agent's run."""
    assert 1 <= len(marked(anthropic.payload(context(turns, lines=2)))) <= 4


def test_folded_arguments_are_json_with_the_handle() -> None:
    """A server parses them before the model sees them."""
    messages = openai.payload(context(1))["messages"]
    (answer,) = (message for message in messages if "tool_calls" in message)

    arguments = json.loads(answer["tool_calls"][0]["function"]["arguments"])

    assert arguments["path"] == "0.py"
    assert "[#1 +" in arguments["text"]


def test_a_long_session_has_a_breakpoint_before_foldable_text() -> None:
    """A cache that keeps only marked prefixes would otherwise lose everything at the next fold."""
    long = context(30)

    texts = [block.get("content", block.get("text")) for block in marked(anthropic.payload(long))]

    assert long.marks
    assert "go on" in texts
    assert len(texts) == 2 + len(long.marks)
