"""Requests of OpenAI's two APIs are shaped as Anthropic's are."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ctxmgr.app import open_store
from ctxmgr.core.store.contract import Store
from ctxmgr.proxy.engine import Api, Incoming, Outgoing
from ctxmgr.proxy.shaping_engine import ShapingEngine
from ctxmgr.proxy.wire.show_tool import SHOW_TOOL
from tests.proxy.claude_client import long_text


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    store = await open_store("sqlite://:memory:")
    yield store
    await store.close()


@pytest.fixture
def engine(store: Store) -> ShapingEngine:
    return ShapingEngine(store, deadline_s=600.0, now=lambda: 1_000.0)


async def chat(engine: ShapingEngine, messages: list[Any]) -> Outgoing:
    tools = [{"type": "function", "function": {"name": "bash", "parameters": {}}}]
    body = json.dumps({"model": "gpt-5", "messages": messages, "tools": tools}).encode()
    return await engine.prepare(
        Incoming(api=Api.OPENAI_CHAT, path="/v1/chat/completions", headers={}, body=body)
    )


async def responses(
    engine: ShapingEngine, items: list[Any], *, tools: list[Any] | None = None, **headers: str
) -> Outgoing:
    given = [{"type": "function", "name": "shell", "parameters": {}}] if tools is None else tools
    value = {"model": "gpt-5-codex", "input": items, "tools": given, "prompt_cache_key": "t1"}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await engine.prepare(
        Incoming(
            api=Api.OPENAI_RESPONSES,
            path="/v1/responses",
            headers={"session-id": "s1", "thread-id": "t1"} | named,
            body=json.dumps(value).encode(),
        )
    )


def chat_turn(number: int, args: Any, output: str) -> list[Any]:
    function = {"name": "bash", "arguments": json.dumps(args)}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "hm"},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": output},
    ]


def item_turn(number: int, args: Any, output: str, name: str = "shell") -> list[Any]:
    call = {"type": "function_call", "call_id": f"c{number}", "name": name}
    return [
        {"type": "reasoning", "id": f"rs_{number}", "encrypted_content": "gAAA=="},
        {**call, "arguments": json.dumps(args)},
        {"type": "function_call_output", "call_id": f"c{number}", "output": output},
    ]


async def test_chat_completions_are_shaped_on_arrival(engine: ShapingEngine) -> None:
    """Rule 29: arguments are JSON inside a string, and stay valid JSON."""
    args = {"command": long_text("argument", 60), "n": 1}
    messages = [
        {"role": "system", "content": "Be careful."},
        {"role": "user", "content": "Build it."},
    ]
    await chat(engine, messages)
    messages += chat_turn(1, args, long_text("alpha"))
    first = await chat(engine, messages)
    messages += chat_turn(2, {"command": "ls"}, "a.py")
    second = await chat(engine, messages)

    sent = json.loads(first.body)["messages"]
    assert json.loads(second.body)["messages"][:4] == sent
    assert len(sent[3]["content"]) < len(long_text("alpha")) / 2
    changed = json.loads(sent[2]["tool_calls"][0]["function"]["arguments"])
    assert changed["n"] == 1
    assert len(changed["command"]) < len(args["command"])
    assert json.loads(first.body)["tools"][-1]["function"]["name"] == SHOW_TOOL


async def test_calls_that_share_an_id_are_left_alone(engine: ShapingEngine) -> None:
    """Rules 13, 19: some servers name no call, so nobody knows which result is whose."""
    messages: list[Any] = [{"role": "user", "content": "Build it."}]
    await chat(engine, messages)
    names = ("alpha", "beta")
    functions = [
        {"name": "bash", "arguments": json.dumps({"command": long_text(f"run {name}", 60)})}
        for name in names
    ]
    calls = [{"id": "", "type": "function", "function": function} for function in functions]
    results = [{"role": "tool", "tool_call_id": "", "content": long_text(name)} for name in names]
    messages += [{"role": "assistant", "content": None, "tool_calls": calls}, *results]
    first = await chat(engine, messages)
    messages += chat_turn(2, {"command": "ls"}, long_text("gamma"))
    second = await chat(engine, messages)

    assert json.loads(first.body)["messages"] == messages[:4]
    assert json.loads(second.body)["messages"][:5] == messages[:5]
    assert len(json.loads(second.body)["messages"][5]["content"]) < len(long_text("gamma")) / 2


async def test_conversations_without_names_stay_apart(engine: ShapingEngine) -> None:
    """Rules 1, 4: many at once with one system prompt, as parallel runs of an agent have it."""
    system = {"role": "system", "content": "You are an agent."}
    histories: list[list[Any]] = [
        [system, {"role": "user", "content": f"Task {n}"}] for n in range(10)
    ]
    first = []
    for number, history in enumerate(histories):
        history.extend(chat_turn(number, {"command": "make"}, long_text("alpha")))
        first.append(await chat(engine, history))
    for number, history in enumerate(histories):
        history.extend(chat_turn(number + 100, {"command": "ls"}, "done"))

        second = await chat(engine, history)

        assert second.conversation == first[number].conversation
        known = json.loads(first[number].body)["messages"]
        assert json.loads(second.body)["messages"][: len(known)] == known


async def test_responses_are_shaped_and_reasoning_passes(engine: ShapingEngine) -> None:
    """Rules 13, 18, 29: Codex answers an unknown tool itself, and goes on."""
    items: list[Any] = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "x"}]},
        {"role": "user", "content": "Build it."},
    ]
    await responses(engine, items)
    items += item_turn(1, {"command": ["make"]}, long_text("alpha"))
    first = await responses(engine, items)
    asked = item_turn(2, {"handle": "#1"}, f"unsupported call: {SHOW_TOOL}", SHOW_TOOL)
    second = await responses(engine, [*items, *asked])

    sent = json.loads(first.body)["input"]
    again = json.loads(second.body)["input"]
    assert len(sent[4]["output"]) < len(long_text("alpha")) / 2
    assert sent[2] == items[2]
    assert again[:5] == sent
    assert long_text("alpha") in again[7]["output"]


async def test_custom_tools_are_text(engine: ShapingEngine) -> None:
    """The input of a custom tool is no JSON."""
    patch = "*** Begin Patch\n" + long_text("patched", 80)
    items: list[Any] = [
        {"role": "user", "content": "Patch it."},
        {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": patch},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"},
    ]

    outgoing = await responses(engine, items)

    sent = json.loads(outgoing.body)["input"]
    assert len(sent[1]["input"]) < len(patch)
    assert sent[2] == items[2]


async def test_a_compaction_without_tools_sees_what_was_sent(engine: ShapingEngine) -> None:
    """Rule 27: Codex sends its whole history without tools."""
    items: list[Any] = [{"role": "user", "content": "Build it."}]
    items += item_turn(1, {"command": ["make"]}, long_text("alpha"))
    before = await responses(engine, items)

    compacting = await responses(
        engine, [*items, {"role": "user", "content": "CONTEXT CHECKPOINT"}], tools=[]
    )

    sent = json.loads(compacting.body)
    assert sent["input"][:4] == json.loads(before.body)["input"]
    assert sent["tools"] == []


async def test_tools_in_the_input_get_the_show_tool(engine: ShapingEngine) -> None:
    """Rules 18, 19: newer models of Codex have no ``tools``, but an item that defines them."""
    tools = {"type": "additional_tools", "role": "developer", "tools": [{"name": "shell"}]}
    items: list[Any] = [tools, {"role": "user", "content": "Build it."}]
    first = await responses(engine, items, tools=[])
    call = {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c1", "output": long_text("alpha")}

    second = await responses(engine, [*items, call, output], tools=[])

    sent, later = json.loads(first.body)["input"], json.loads(second.body)["input"]
    assert [tool["name"] for tool in sent[0]["tools"]] == ["shell", SHOW_TOOL]
    assert sent[0] | {"tools": sent[0]["tools"][:1]} == tools
    assert later[:2] == sent
    assert json.loads(second.body)["tools"] == []
    assert "[#1 +" in later[3]["output"]


async def test_prewarming_and_kept_histories_pass(engine: ShapingEngine) -> None:
    """Rule 25: such requests do not hold the conversation."""
    items: list[Any] = [{"role": "user", "content": "Build it."}]
    metadata = json.dumps({"request_kind": "prewarm"})

    outgoing = await responses(engine, items, x_codex_turn_metadata=metadata)
    body = json.dumps({"input": items, "previous_response_id": "r1", "tools": [{"name": "a"}]})
    kept = await engine.prepare(
        Incoming(api=Api.OPENAI_RESPONSES, path="/v1/responses", headers={}, body=body.encode())
    )

    assert not outgoing.shaped
    assert outgoing.reason
    assert kept.body == body.encode()
    assert "previous_response_id" in str(kept.reason)


async def test_conversations_that_share_a_cache_key_are_not_mixed(engine: ShapingEngine) -> None:
    """Rules 4, 39: some clients send one ``prompt_cache_key`` with every conversation."""

    async def ask(items: list[Any]) -> Outgoing:
        value = {"model": "gpt-5", "input": items, "prompt_cache_key": "everybody"}
        value["tools"] = [{"type": "function", "name": "shell", "parameters": {}}]
        body = json.dumps(value).encode()
        request = Incoming(api=Api.OPENAI_RESPONSES, path="/v1/responses", headers={}, body=body)
        return await engine.prepare(request)

    system = {"type": "message", "role": "developer", "content": "Be careful."}
    histories: list[list[Any]] = [
        [system, {"type": "message", "role": "user", "content": f"Task {n}"}] for n in range(12)
    ]
    names: dict[int, list[str | None]] = {n: [] for n in range(12)}
    last: dict[int, list[Any]] = {}
    for turn in range(3):
        for n, items in enumerate(histories):
            outgoing = await ask(items)
            names[n].append(outgoing.conversation)
            sent = json.loads(outgoing.body)["input"]
            assert sent[: len(last.get(n, []))] == last.get(n, [])
            last[n] = sent
            call = {"type": "function_call", "call_id": f"c{turn}", "name": "shell"}
            result = {"type": "function_call_output", "call_id": f"c{turn}"}
            items += [
                {**call, "arguments": json.dumps({"command": "make"})},
                {**result, "output": long_text(f"task{n}_{turn}")},
            ]

    assert all(len(set(seen)) == 1 for seen in names.values())
    assert len({seen[0] for seen in names.values()}) == 12
