"""The context as Anthropic messages."""

import itertools
from typing import Any, Final

import pytest
from hypothesis import given

from ctxmgr.core.assembly import (
    ActiveBlock,
    Context,
    Contribution,
    Pool,
    PoolEntry,
    Section,
    ShownTurn,
    Transcript,
)
from ctxmgr.core.documents import check_value
from ctxmgr.core.infrastructure import Turn
from ctxmgr.core.parts import CallRef, contextcall_part, native_part, text_part, toolcall_part
from ctxmgr.messages.anthropic import CACHE_BREAKPOINTS_MAX, payload, read_answer
from tests.core.conversations import contexts

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
    shown = [ShownTurn.of(turn, calls={"toolu_1": REF}) for turn in turns]
    given = {"session_id": "s1", "system_prompt": "Be careful.", "transcript": Transcript(shown)}
    return Context(**{**given, **changes})


def _illegal(messages: list[dict[str, Any]]) -> list[str]:
    """What the API would refuse."""
    roles = [each["role"] for each in messages]
    wrong = [] if roles and roles[0] == roles[-1] == "user" else ["ends"]
    wrong += ["turns" for one, two in itertools.pairwise(roles) if one == two]
    asked: list[str] = []
    for message in messages:
        blocks = message["content"]
        wrong += [] if blocks else ["empty"]
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        wrong += ["blank" for text in texts if not text.strip()]
        wrong += ["thoughts"] if blocks and blocks[-1]["type"] == "thinking" else []
        results = [each["tool_use_id"] for each in blocks if each["type"] == "tool_result"]
        leading = [each["type"] == "tool_result" for each in blocks[: len(results)]]
        wrong += [] if results == asked and all(leading) else ["pairs"]
        asked = [each["id"] for each in blocks if each["type"] == "tool_use"]
    ids = [
        each["id"]
        for message in messages
        for each in message["content"]
        if each["type"] == "tool_use"
    ]
    wrong += [] if len(set(ids)) == len(ids) else ["ids"]
    return wrong


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
def test_every_conversation_is_legal(context: Context) -> None:
    """003-R009, 003-R012: empty messages, failed and forgotten calls, calls that share an id."""
    sent = payload(context)

    assert _illegal(sent["messages"]) == []
    assert all(block["text"].strip() for block in sent["system"])


@given(contexts())
def test_there_are_never_too_many_breakpoints(context: Context) -> None:
    """003-R137: the API refuses a fifth, and one on a block that cannot be cached."""
    sent = payload(context)

    blocks = [*sent["system"], *(each for one in sent["messages"] for each in one["content"])]
    marked = [block for block in blocks if "cache_control" in block]
    assert len(marked) <= CACHE_BREAKPOINTS_MAX
    assert {block["type"] for block in marked} <= {"text", "tool_use", "tool_result"}
    assert "cache_control" not in str(payload(context, caching=False))


@given(contexts())
def test_rendering_twice_gives_the_same_messages(context: Context) -> None:
    """PG-09: and leaves the context as it was."""
    before = context.text()

    assert payload(context) == payload(context)
    assert context.text() == before


@pytest.mark.parametrize("user", ["", " \n"])
def test_something_is_always_said(user: str) -> None:
    """003-R127: a request without a message is refused."""
    sent = payload(_context(user=user))

    assert sent["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "[no message]"}]}
    ]


def test_the_outcome_of_a_context_tool_is_told() -> None:
    """003-A06: it has no object, and the agent still learns that it failed."""
    part = contextcall_part("c1", tool="activate", args={"id": "x"}, status="fail", output="no x")

    result = payload(_context(Turn(user="", assistant=(part,))))["messages"][-1]["content"][0]

    assert (result["content"], result["is_error"]) == ("no x", True)


def test_contributions_keep_their_slots() -> None:
    """003-A31: what lasts is cached with the system prompt, what passes comes last."""
    texts = {Section.STABLE: "lasting", Section.EPOCH: "epoch", Section.VOLATILE: "passing"}
    given = [Contribution(slot=slot, name="m", text=text) for slot, text in texts.items()]

    sent = payload(_context(user="hi").contribute(given))

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


def test_a_reply_goes_round() -> None:
    """003-R009, 003-A18: what the model said comes back to it as it said it."""
    answer = read_answer(REPLY, session_id="s1", turn=1, timestamp=5)
    turn = Turn(user="hi", assistant=answer.parts, assistant_meta=answer.meta,
                toolcall_ids=tuple(each.toolcall_id for each in answer.asked))  # fmt: skip
    calls = {
        each.toolcall_id: CallRef(object_id=each.toolcall_id, tool=each.tool, status="ok")
        for each in answer.asked
    }
    context = _context(transcript=Transcript([ShownTurn.of(turn, calls=calls)]))

    assert payload(context)["messages"][1]["content"] == REPLY["content"]
    assert [(each.call_id, each.tool) for each in answer.asked] == [
        ("toolu_1", "bash"),
        ("toolu_2", "read"),
    ]
    meta = answer.meta
    assert (meta.model, meta.stopReason, meta.usage) == ("claude", "tool_use", {"input_tokens": 3})
    assert (meta.api, meta.timestamp) == ("anthropic", 5)


def test_a_reply_with_what_no_document_holds_is_stored() -> None:
    """PG-07: half an emoji must not lose a turn."""
    block = {"type": "tool_use", "id": "t", "name": "bash", "input": {"a": float("nan")}}
    reply = {"content": [{"type": "text", "text": "\ud83d!"}, block]}

    answer = read_answer(reply, session_id="s1", turn=1)

    check_value(list(answer.parts), where="parts")
    assert answer.parts[0] == text_part("\ufffd!")
    assert answer.asked[0].args == {"a": None}


def test_an_answer_that_was_cut_off_in_its_thoughts_can_be_gone_on_from() -> None:
    """The API refuses thoughts that end a message, and would refuse every later turn with it."""
    thought = {"type": "thinking", "thinking": "so", "signature": "c2ln"}
    cut = Turn(user="why?", assistant=(native_part("anthropic", block=thought),))

    sent = payload(_context(cut, user="go on"))

    assert [message["role"] for message in sent["messages"]] == ["user"]


def test_thoughts_without_a_signature_are_not_sent_back() -> None:
    """The stream ended inside them; the API demands what was never sent."""
    unsigned = native_part("anthropic", block={"type": "thinking", "thinking": "so"})
    cut = Turn(user="why?", assistant=(unsigned, text_part("Because.")))

    answered = payload(_context(cut))["messages"][1]

    assert answered["content"] == [{"type": "text", "text": "Because.", **CACHED}]


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
def test_a_block_that_lacks_something_is_read(block: dict[str, Any], part: dict[str, Any]) -> None:
    """Other servers speak this API too, and a missing field is no reason to end a run."""
    answer = read_answer({"content": [block]}, session_id="s1", turn=1, unique_ids=False)

    assert answer.parts == (part,)


def test_arguments_that_are_nested_too_deep_are_told_as_text() -> None:
    """No document holds them; the call fails, and the run goes on."""
    deep: Any = "x"
    for _ in range(600):
        deep = [deep]
    block = {"type": "tool_use", "id": "a", "name": "ls", "input": {"path": deep}}

    (call,) = read_answer({"content": [block]}, session_id="s1", turn=1).asked

    assert call.malformed
    check_value(dict(call.args), where="args")
