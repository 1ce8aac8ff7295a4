"""The context as OpenAI chat messages."""

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.assembly import ActiveBlock, Context, Pool, PoolEntry, ShownTurn, Transcript
from ctxmgr.core.contents import ToolCall
from ctxmgr.core.infrastructure import Turn
from ctxmgr.core.parts import CallRef, text_part, toolcall_part
from ctxmgr.messages.openai import payload, read_answer
from tests.core.conversations import contexts
from tests.core.values import texts

REF: Final = CallRef(object_id="s1:1:call_0", tool="bash", status="ok")
TURN: Final = Turn(
    user="what is here?",
    assistant=(
        text_part("let me look"),
        toolcall_part(REF.object_id, call_id="call_0", tool="bash", args={"n": 2**70}),
    ),
    toolcall_ids=(REF.object_id,),
)


def _context(*turns: Turn, **changes: Any) -> Context:
    shown = [ShownTurn.of(turn, calls={REF.object_id: REF}) for turn in turns]
    given = {"session_id": "s1", "system_prompt": "Be careful.", "transcript": Transcript(shown)}
    return Context(**{**given, **changes})


def _illegal(messages: list[dict[str, Any]]) -> list[str]:
    """What the API or a server that speaks it would refuse."""
    wrong = ["system" for each in messages[1:] if each["role"] == "system"]
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            wrong += [] if waiting and waiting.pop(0) == message["tool_call_id"] else ["stray"]
            continue
        wrong += ["unanswered"] if waiting else []
        calls = message.get("tool_calls", [])
        wrong += [] if message["content"] or calls else ["empty"]
        waiting = [call["id"] for call in calls]
        wrong += (
            []
            if all(json.loads(each["function"]["arguments"]) is not None for each in calls)
            else ["args"]
        )
    wrong += ["unanswered"] if waiting else []
    ids = [call["id"] for each in messages for call in each.get("tool_calls", [])]
    wrong += [] if len(set(ids)) == len(ids) else ["ids"]
    last = messages[-1]["role"] if messages else None
    return wrong if last in {"user", "tool"} else [*wrong, "end"]


def test_a_conversation_becomes_messages() -> None:
    """003-R009, 003-R126, 003-R134, 003-A07: references answer tool calls, content comes last."""
    context = _context(
        TURN, pool=Pool([PoolEntry.of_toolcall(REF)]), active=(ActiveBlock("a", "text"),)
    )

    function = {"name": "bash", "arguments": '{"n":1180591620717411303424}'}
    assert payload(context)["messages"] == [
        {
            "role": "system",
            "content": "Be careful.\n\nid=s1:1:call_0 type=toolcall tool=bash status=ok\n",
        },
        {"role": "user", "content": "what is here?"},
        {
            "role": "assistant",
            "content": "let me look",
            "tool_calls": [{"id": "call_0", "type": "function", "function": function}],
        },
        {
            "role": "tool",
            "tool_call_id": "call_0",
            "content": "toolcall_ref id=s1:1:call_0 tool=bash status=ok",
        },
        {"role": "user", "content": "ACTIVE_CONTENT id=a\ntext\n"},
    ]


@given(contexts())
def test_every_conversation_is_legal(context: Context) -> None:
    """003-R009, 003-R012: empty messages, failed and forgotten calls, calls that share an id."""
    messages = payload(context)["messages"]

    assert _illegal(messages) == []
    assert payload(context)["messages"] == messages


def _reply(**message: Any) -> dict[str, Any]:
    choice = {"finish_reason": "tool_calls", "message": {"role": "assistant", **message}}
    return {"model": "local", "usage": {"total_tokens": 3}, "choices": [choice]}


def _call(call_id: str | None, arguments: Any = "{}", name: str | None = "bash") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_ids_that_repeat_are_made_unique() -> None:
    """003-A20: many local models call every call ``call_0``; the provider's own id is kept."""
    reply = _reply(content=None, tool_calls=[_call("call_0"), _call("call_0"), _call(None)])

    asked = read_answer(reply, session_id="s1", turn=4).asked

    assert [each.toolcall_id for each in asked] == ["s1:4:call_0", "s1:4:call_0.2", "s1:4:"]
    assert [each.call_id for each in asked] == ["call_0", "call_0", ""]


def test_ids_of_a_provider_that_promises_are_kept() -> None:
    """The harness's id is the object's."""
    reply = _reply(tool_calls=[_call("call_abc")])

    (asked,) = read_answer(reply, session_id="s1", turn=4, unique_ids=True).asked

    assert asked.toolcall_id == "call_abc"


@pytest.mark.parametrize(
    ("arguments", "args"),
    [
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        (None, {}),
        ({"a": 1}, {"a": 1}),
        ('{"a": ', {"raw": '{"a": '}),
        ("[1]", {"raw": "[1]"}),
        ('{"a": NaN}', {"a": None}),
        ('{"a": "\\ud83d"}', {"a": "\ufffd"}),
        ("[" * 100_000, {"raw": "[" * 100_000}),
    ],
)
def test_arguments_are_read_whatever_a_model_writes(arguments: Any, args: Any) -> None:
    """PG-07, 003-R073: a call with broken arguments fails as a call and is still stored."""
    answer = read_answer(_reply(tool_calls=[_call("x", arguments)]), session_id="s1", turn=1)

    (asked,) = answer.asked
    assert (asked.args, asked.malformed) == (args, "raw" in args)
    Turn(user="", assistant=answer.parts)
    ToolCall(toolcall_id=asked.toolcall_id, tool=asked.tool, args=dict(asked.args), status="fail",
             chat_ref="chat:s1", content=None)  # fmt: skip


def test_a_call_without_a_name_can_be_told() -> None:
    """PG-07: it fails by its name, not by losing the turn."""
    (asked,) = read_answer(
        _reply(tool_calls=[_call("x", name=None)]), session_id="s1", turn=1
    ).asked

    assert asked.tool == "unnamed"


@given(st.none() | texts, st.lists(st.dictionaries(texts, texts, max_size=2), max_size=3))
def test_a_reply_goes_round(content: str | None, args: list[dict[str, str]]) -> None:
    """003-R009, 003-A18: what the model said comes back to it as it said it."""
    calls = [_call(f"call_{n}", json.dumps(each)) for n, each in enumerate(args)]
    answer = read_answer(_reply(content=content, tool_calls=calls), session_id="s1", turn=1)
    known = {
        each.toolcall_id: CallRef(object_id=each.toolcall_id, tool=each.tool, status="ok")
        for each in answer.asked
    }
    turn = Turn(user="hi", assistant=answer.parts, toolcall_ids=tuple(known))

    messages = payload(_context(transcript=Transcript([ShownTurn.of(turn, calls=known)])))[
        "messages"
    ]

    said = [each for each in messages if each["role"] == "assistant"]
    if (content or "").strip() or args:
        assert (said[0]["content"] or "") == (content if (content or "").strip() else "")
        sent = said[0].get("tool_calls", [])
        assert [each["id"] for each in sent] == [each["id"] for each in calls]
        assert [json.loads(each["function"]["arguments"]) for each in sent] == args
    else:
        assert said == []


def test_what_is_not_for_everyone_is_kept_aside() -> None:
    """003-R009: reasoning is stored with the turn and shown to nobody else."""
    reply = _reply(content=[{"type": "text", "text": "yes"}], reasoning_content="because")

    answer = read_answer(reply, session_id="s1", turn=1)

    block = {"reasoning_content": "because"}
    assert answer.parts == ({"type": "native", "api": "openai", "block": block}, text_part("yes"))
    assert (answer.meta.model, answer.meta.stopReason) == ("local", "tool_calls")
