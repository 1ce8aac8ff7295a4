"""The form of OpenAI's Chat Completions API."""

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.context.assembly import (
    ActiveBlock,
    Context,
    Pool,
    PoolEntry,
    ShownTurn,
    Transcript,
)
from ctxmgr.core.objects.answers import CallRef, text_part, toolcall_part
from ctxmgr.core.objects.chat import Turn
from ctxmgr.core.objects.toolcall import ToolCall
from ctxmgr.messages.openai import payload, read_answer
from tests.core.builders.conversations import contexts
from tests.core.builders.values import texts

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
    transcript = Transcript([ShownTurn.of(turn, calls={REF.object_id: REF}) for turn in turns])
    fields = {"session_id": "s1", "system_prompt": "Be careful.", "transcript": transcript}
    return Context(**{**fields, **changes})


def _violations(messages: list[dict[str, Any]]) -> list[str]:
    """Return the rules of the API, or of a server that implements it, that the messages break."""
    broken = ["system" for message in messages[1:] if message["role"] == "system"]
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            broken += [] if waiting and waiting.pop(0) == message["tool_call_id"] else ["stray"]
            continue
        broken += ["unanswered"] if waiting else []
        calls = message.get("tool_calls", [])
        broken += [] if message["content"] or calls else ["empty"]
        waiting = [call["id"] for call in calls]
        broken += (
            []
            if all(json.loads(call["function"]["arguments"]) is not None for call in calls)
            else ["args"]
        )
    broken += ["unanswered"] if waiting else []
    ids = [call["id"] for message in messages for call in message.get("tool_calls", [])]
    broken += [] if len(set(ids)) == len(ids) else ["ids"]
    last = messages[-1]["role"] if messages else None
    return broken if last in {"user", "tool"} else [*broken, "end"]


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
def test_every_payload_is_valid(context: Context) -> None:
    """003-R009, 003-R012: empty messages, failed and unanswered calls, calls with the same id."""
    messages = payload(context)["messages"]

    assert _violations(messages) == []
    assert payload(context)["messages"] == messages


def _reply(**message: Any) -> dict[str, Any]:
    choice = {"finish_reason": "tool_calls", "message": {"role": "assistant", **message}}
    return {"model": "local", "usage": {"total_tokens": 3}, "choices": [choice]}


def _call(call_id: str | None, arguments: Any = "{}", name: str | None = "bash") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_ids_that_repeat_are_made_unique() -> None:
    """003-A20: many local models give every call the id ``call_0``; that id is kept as well."""
    reply = _reply(content=None, tool_calls=[_call("call_0"), _call("call_0"), _call(None)])

    calls = read_answer(reply, session_id="s1", turn=4).calls

    assert [call.toolcall_id for call in calls] == ["s1:4:call_0", "s1:4:call_0.2", "s1:4:"]
    assert [call.call_id for call in calls] == ["call_0", "call_0", ""]


def test_ids_that_the_provider_guarantees_are_kept() -> None:
    """The provider's id is then the object's id."""
    reply = _reply(tool_calls=[_call("call_abc")])

    (call,) = read_answer(reply, session_id="s1", turn=4, unique_ids=True).calls

    assert call.toolcall_id == "call_abc"


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
def test_arguments_are_read_even_if_they_are_malformed(arguments: Any, args: Any) -> None:
    """PG-07, 003-R073: a call with malformed arguments fails and is still stored."""
    answer = read_answer(_reply(tool_calls=[_call("x", arguments)]), session_id="s1", turn=1)

    (call,) = answer.calls
    assert (call.args, call.malformed) == (args, "raw" in args)
    Turn(user="", assistant=answer.parts)
    ToolCall(toolcall_id=call.toolcall_id, tool=call.tool, args=dict(call.args), status="fail",
             chat_ref="chat:s1", content=None)  # fmt: skip


def test_a_call_without_a_name_gets_one() -> None:
    """PG-07: the call fails because of its name, and the turn is not lost."""
    (call,) = read_answer(_reply(tool_calls=[_call("x", name=None)]), session_id="s1", turn=1).calls

    assert call.tool == "unnamed"


@given(st.none() | texts, st.lists(st.dictionaries(texts, texts, max_size=2), max_size=3))
def test_a_reply_is_sent_back_unchanged(content: str | None, args: list[dict[str, str]]) -> None:
    """003-R009, 003-A18: the model gets its own answer back exactly."""
    calls = [_call(f"call_{n}", json.dumps(value)) for n, value in enumerate(args)]
    answer = read_answer(_reply(content=content, tool_calls=calls), session_id="s1", turn=1)
    refs = {
        call.toolcall_id: CallRef(object_id=call.toolcall_id, tool=call.tool, status="ok")
        for call in answer.calls
    }
    turn = Turn(user="hi", assistant=answer.parts, toolcall_ids=tuple(refs))

    messages = payload(_context(transcript=Transcript([ShownTurn.of(turn, calls=refs)])))[
        "messages"
    ]

    answers = [message for message in messages if message["role"] == "assistant"]
    if (content or "").strip() or args:
        assert (answers[0]["content"] or "") == (content if (content or "").strip() else "")
        sent = answers[0].get("tool_calls", [])
        assert [call["id"] for call in sent] == [call["id"] for call in calls]
        assert [json.loads(call["function"]["arguments"]) for call in sent] == args
    else:
        assert answers == []


def test_fields_of_one_server_are_kept_for_this_api() -> None:
    """003-R009: reasoning is stored with the turn and not sent to other APIs."""
    reply = _reply(content=[{"type": "text", "text": "yes"}], reasoning_content="because")

    answer = read_answer(reply, session_id="s1", turn=1)

    block = {"reasoning_content": "because"}
    assert answer.parts == ({"type": "native", "api": "openai", "block": block}, text_part("yes"))
    assert (answer.meta.model, answer.meta.stopReason) == ("local", "tool_calls")
