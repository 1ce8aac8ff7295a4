"""The economy layout as messages: legal pairs, legal JSON, few breakpoints in stable places."""

import itertools
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.assembly import Context
from ctxmgr.messages import anthropic, openai
from tests.core.streams import Talk, long_output


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
    contents = [payload["system"], *(each["content"] for each in payload["messages"])]
    return [block for content in contents for block in content if "cache_control" in block]


@given(turns=st.integers(0, 12))
def test_every_call_is_answered_right_after_it_is_asked(turns: int) -> None:
    """APIs refuse a conversation whose pairs are torn apart."""
    messages = anthropic.payload(context(turns))["messages"]

    for asked, answered in itertools.pairwise(messages):
        uses = [block["id"] for block in asked["content"] if block["type"] == "tool_use"]
        results = [
            block["tool_use_id"] for block in answered["content"] if block["type"] == "tool_result"
        ]
        assert results == uses


@given(turns=st.integers(0, 30))
def test_no_request_marks_more_prefixes_than_the_api_takes(turns: int) -> None:
    """The fifth ``cache_control`` is an error that ends the agent's run."""
    assert 1 <= len(marked(anthropic.payload(context(turns, lines=2)))) <= 4


def test_folded_arguments_are_json_that_names_the_handle() -> None:
    """A server parses them before the model sees them."""
    (said,) = (each for each in openai.payload(context(1))["messages"] if "tool_calls" in each)

    arguments = json.loads(said["tool_calls"][0]["function"]["arguments"])

    assert arguments["path"] == "0.py"
    assert "[#1 +" in arguments["text"]


def test_a_long_session_keeps_a_prefix_before_what_may_still_change() -> None:
    """A cache that holds only marked prefixes would otherwise lose all at the next fold."""
    made = context(30)

    texts = [block.get("content", block.get("text")) for block in marked(anthropic.payload(made))]

    assert made.marks
    assert "go on" in texts
    assert len(texts) == 2 + len(made.marks)
