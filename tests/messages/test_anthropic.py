"""The form of Anthropic's Messages API."""

import itertools
from typing import Any, Final

import pytest
from hypothesis import given

from ctxmgr.core.context.assembly import (
    ActiveBlock,
    Context,
    Contribution,
    Pool,
    PoolEntry,
    Section,
    ShownTurn,
    Transcript,
)
from ctxmgr.core.objects.answers import (
    CallRef,
    contextcall_part,
    native_part,
    text_part,
    toolcall_part,
)
from ctxmgr.core.objects.chat import Turn
from ctxmgr.core.store.documents import check_value
from ctxmgr.messages.anthropic import CACHE_BREAKPOINTS_MAX, payload, read_answer
from tests.core.builders.conversations import contexts

REF: Final = CallRef(object_id="toolu_1", tool="bash", status="fail")
TURN: Final = Turn(
    user="what is here?",
    assistant=(
        text_part("let me look"),
        toolcall_part("toolu_1", call_id="toolu_1", tool="bash", args={"command": "ls"}),
    ),
    toolcall_ids=("toolu_1",),
)
CACHED: Final = {"cache_control": {"type": "ephemeral"}}


def _context(*turns: Turn, **changes: Any) -> Context:
    transcript = Transcript([ShownTurn.of(turn, calls={"toolu_1": REF}) for turn in turns])
    fields = {"session_id": "s1", "system_prompt": "Be careful.", "transcript": transcript}
    return Context(**{**fields, **changes})


def _violations(messages: list[dict[str, Any]]) -> list[str]:
    """Return the rules of the API that the messages break."""
    roles = [message["role"] for message in messages]
    broken = [] if roles and roles[0] == roles[-1] == "user" else ["ends"]
    broken += ["turns" for one, two in itertools.pairwise(roles) if one == two]
    calls: list[str] = []
    for message in messages:
        blocks = message["content"]
        broken += [] if blocks else ["empty"]
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        broken += ["blank" for text in texts if not text.strip()]
        broken += ["thinking"] if blocks and blocks[-1]["type"] == "thinking" else []
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        leading = [block["type"] == "tool_result" for block in blocks[: len(results)]]
        broken += [] if results == calls and all(leading) else ["pairs"]
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    ids = [
        block["id"]
        for message in messages
        for block in message["content"]
        if block["type"] == "tool_use"
    ]
    broken += [] if len(set(ids)) == len(ids) else ["ids"]
    return broken


def test_a_conversation_becomes_messages() -> None:
    """003-R009, 003-R126, 003-R134, 003-A07: references answer tool calls, content comes last."""
    context = _context(
        TURN,
        user="and now?",
        pool=Pool([PoolEntry.of_toolcall(REF)]),
        active=(ActiveBlock("toolu_1", "main.py"),),
    )

    sent = payload(context)

    pool = "id=toolu_1 type=toolcall tool=bash status=fail\n"
    assert sent["system"] == [
        {"type": "text", "text": "Be careful.\n", **CACHED},
        {"type": "text", "text": pool, **CACHED},
    ]
    assert sent["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "what is here?"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "let me look"},
                {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "ls"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "content": "toolcall_ref id=toolu_1 tool=bash status=fail",
                    "is_error": True,
                },
                {"type": "text", "text": "and now?", **CACHED},
                {"type": "text", "text": "ACTIVE_CONTENT id=toolu_1\nmain.py\n"},
            ],
        },
    ]


@given(contexts())
def test_every_payload_is_valid(context: Context) -> None:
    """003-R009, 003-R012: empty messages, failed and unanswered calls, calls with the same id."""
    sent = payload(context)

    assert _violations(sent["messages"]) == []
    assert all(block["text"].strip() for block in sent["system"])


@given(contexts())
def test_there_are_never_too_many_breakpoints(context: Context) -> None:
    """003-R137: the API rejects a fifth, and one on a block that cannot be cached."""
    sent = payload(context)

    contents = [sent["system"], *(message["content"] for message in sent["messages"])]
    blocks = [block for content in contents for block in content]
    marked = [block for block in blocks if "cache_control" in block]
    assert len(marked) <= CACHE_BREAKPOINTS_MAX
    assert {block["type"] for block in marked} <= {"text", "tool_use", "tool_result"}
    assert "cache_control" not in str(payload(context, caching=False))


@given(contexts())
def test_rendering_twice_gives_the_same_messages(context: Context) -> None:
    """PG-09: rendering does not change the context."""
    before = context.text()

    assert payload(context) == payload(context)
    assert context.text() == before


@pytest.mark.parametrize("user", ["", " \n"])
def test_there_is_always_a_message(user: str) -> None:
    """003-R127: the API rejects a request without messages."""
    sent = payload(_context(user=user))

    assert sent["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "[no message]"}]}
    ]


def test_the_output_of_a_context_tool_is_sent() -> None:
    """003-A06: it has no object, but the agent must learn that it failed."""
    part = contextcall_part("c1", tool="activate", args={"id": "x"}, status="fail", output="no x")

    result = payload(_context(Turn(user="", assistant=(part,))))["messages"][-1]["content"][0]

    assert (result["content"], result["is_error"]) == ("no x", True)


def test_contributions_keep_their_slots() -> None:
    """003-A31: stable text is cached with the system prompt, volatile text comes last."""
    texts = {Section.STABLE: "lasting", Section.EPOCH: "epoch", Section.VOLATILE: "passing"}
    contributions = [Contribution(slot=slot, name="m", text=text) for slot, text in texts.items()]

    sent = payload(_context(user="hi").contribute(contributions))

    assert [block["text"] for block in sent["system"]] == ["Be careful.\n", "lasting\n", "epoch\n"]
    assert ["cache_control" in block for block in sent["system"]] == [False, True, True]
    assert sent["messages"][-1]["content"][-1] == {"type": "text", "text": "passing\n"}


REPLY: Final = {
    "model": "claude",
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 3},
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "text", "text": "let me look"},
        {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "ls"}},
        {"type": "tool_use", "id": "toolu_2", "name": "read", "input": {"path": "/a"}},
    ],
}


def test_a_reply_is_sent_back_unchanged() -> None:
    """003-R009, 003-A18: the model gets its own answer back exactly."""
    answer = read_answer(REPLY, session_id="s1", turn=1, timestamp=5)
    turn = Turn(user="hi", assistant=answer.parts, assistant_meta=answer.meta,
                toolcall_ids=tuple(call.toolcall_id for call in answer.calls))  # fmt: skip
    calls = {
        call.toolcall_id: CallRef(object_id=call.toolcall_id, tool=call.tool, status="ok")
        for call in answer.calls
    }
    context = _context(transcript=Transcript([ShownTurn.of(turn, calls=calls)]))

    assert payload(context)["messages"][1]["content"] == REPLY["content"]
    assert [(call.call_id, call.tool) for call in answer.calls] == [
        ("toolu_1", "bash"),
        ("toolu_2", "read"),
    ]
    meta = answer.meta
    assert (meta.model, meta.stopReason, meta.usage) == ("claude", "tool_use", {"input_tokens": 3})
    assert (meta.api, meta.timestamp) == ("anthropic", 5)


def test_values_that_cannot_be_stored_are_replaced() -> None:
    """PG-07: a lone surrogate must not lose a turn."""
    block = {"type": "tool_use", "id": "t", "name": "bash", "input": {"a": float("nan")}}
    reply = {"content": [{"type": "text", "text": "\ud83d!"}, block]}

    answer = read_answer(reply, session_id="s1", turn=1)

    check_value(list(answer.parts), where="parts")
    assert answer.parts[0] == text_part("\ufffd!")
    assert answer.calls[0].args == {"a": None}


def test_a_turn_that_ended_in_thinking_can_be_continued() -> None:
    """The API rejects thinking at the end of a message, and so every later turn."""
    thinking = {"type": "thinking", "thinking": "so", "signature": "c2ln"}
    cut = Turn(user="why?", assistant=(native_part("anthropic", block=thinking),))

    sent = payload(_context(cut, user="go on"))

    assert [message["role"] for message in sent["messages"]] == ["user"]


def test_thinking_without_a_signature_is_not_sent_back() -> None:
    """The stream ended before the signature, which the API requires."""
    unsigned = native_part("anthropic", block={"type": "thinking", "thinking": "so"})
    cut = Turn(user="why?", assistant=(unsigned, text_part("Because.")))

    message = payload(_context(cut))["messages"][1]

    assert message["content"] == [{"type": "text", "text": "Because.", **CACHED}]


@pytest.mark.parametrize(
    ("block", "part"),
    [
        ({"type": "text", "text": None}, text_part("")),
        ({"type": "text"}, text_part("")),
        (
            {"type": "tool_use"},
            toolcall_part("s1:1:", call_id="", tool="unnamed", args={}),
        ),
    ],
)
def test_a_block_with_missing_fields_is_read(block: dict[str, Any], part: dict[str, Any]) -> None:
    """Other servers implement this API too, and a missing field must not end a run."""
    answer = read_answer({"content": [block]}, session_id="s1", turn=1, unique_ids=False)

    assert answer.parts == (part,)


def test_arguments_nested_too_deep_are_kept_as_text() -> None:
    """They cannot be stored; the call fails and the run continues."""
    deep: Any = "x"
    for _ in range(600):
        deep = [deep]
    block = {"type": "tool_use", "id": "a", "name": "ls", "input": {"path": deep}}

    (call,) = read_answer({"content": [block]}, session_id="s1", turn=1).calls

    assert call.malformed
    check_value(dict(call.args), where="args")
