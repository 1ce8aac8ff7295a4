"""A client that writes requests as Claude Code does, and checks what a proxy makes of them."""

import json
from collections.abc import Mapping
from typing import Any

from ctxmgr.proxy.engine import Api, Incoming, Outgoing
from ctxmgr.proxy.wire.show_tool import SHOW_TOOL

MODEL = "claude-opus-4-6"
BOUND_MODEL = "claude-sonnet-5-5"
MARK = {"type": "ephemeral"}


def long_text(name: str, lines: int = 200) -> str:
    """Return a text that is shortened when it arrives."""
    return "\n".join(f"{name} line {n} calls {name}_function_{n} in module" for n in range(lines))


def call(call_id: str, tool: str = "Bash", **args: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": tool, "input": args or {"command": "make"}}


def result(call_id: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"tool_use_id": call_id, "type": "tool_result", "content": content, **more}


class ClaudeClient:
    """The history of one session, and its requests."""

    def __init__(
        self, session: str = "s1", *, model: str = MODEL, agent: str = "", mark: Any = MARK
    ) -> None:
        self.session, self.agent, self.model, self.mark = session, agent, model, mark
        self.messages: list[dict[str, Any]] = []
        self.tools = [{"name": "Bash", "input_schema": {"type": "object"}, "unknown": 1.0}]
        self.more: dict[str, Any] = {}

    def say(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    def run(self, call_id: str, output: Any, *, tool: str = "Bash", **args: Any) -> None:
        """Add an answer with one call, and its result."""
        self.answer(call(call_id, tool, **args))
        self.messages.append({"role": "user", "content": [result(call_id, output)]})

    def answer(self, *blocks: dict[str, Any], text: str = "I look.") -> None:
        self.messages.append({"role": "assistant", "content": [{"type": "text", "text": text}]})
        self.messages[-1]["content"] += blocks

    def body(self) -> bytes:
        """Return the next request: the last block is marked, and a marked text is a list."""
        messages = [json.loads(json.dumps(message)) for message in self.messages]
        last = messages[-1]
        if isinstance(last["content"], str):
            last["content"] = [{"type": "text", "text": last["content"]}]
        last["content"][-1]["cache_control"] = self.mark
        system = [
            {"type": "text", "text": "You are Claude Code.", "cache_control": self.mark},
            {"type": "text", "text": "Be careful.", "cache_control": self.mark},
        ]
        value = {
            "model": self.model,
            "messages": messages,
            "system": system,
            "tools": self.tools,
            "max_tokens": 64,
            **self.more,
        }
        return json.dumps(value).encode()

    def request(self, path: str = "/v1/messages") -> Incoming:
        headers = {"x-claude-code-session-id": self.session}
        if self.agent:
            headers["x-claude-code-agent-id"] = self.agent
        return Incoming(api=Api.ANTHROPIC_MESSAGES, path=path, headers=headers, body=self.body())


def unmarked(value: Any) -> Any:
    """Return a value without cache marks, with a single text as a string."""
    match value:
        case {"content": [{"type": "text", "text": str(text), **rest}], **more} if rest.keys() <= {
            "cache_control"
        }:
            return unmarked({"content": text, **more})
        case dict():
            return {name: unmarked(one) for name, one in value.items() if name != "cache_control"}
        case list():
            return [unmarked(one) for one in value]
        case _:
            return value


def sent_messages(outgoing: Outgoing) -> list[Any]:
    """Return the messages of a request, as a provider's cache compares them."""
    return [unmarked(message) for message in json.loads(outgoing.body)["messages"]]


def check_legal(request: Incoming, outgoing: Outgoing) -> None:
    """Assert that only texts of calls and results differ from what the client sent."""
    before, after = json.loads(request.body), json.loads(outgoing.body)
    own, tools = before.pop("tools"), after.pop("tools")
    assert [tool for tool in tools if tool in own or tool["name"] != SHOW_TOOL] == own
    assert len({tool["name"] for tool in tools}) == len(tools)
    mine, its = before.pop("messages"), after.pop("messages")
    assert after == before
    assert len(mine) == len(its)
    marks = json.dumps(after).count('"cache_control"') + json.dumps(its).count('"cache_control"')
    assert marks <= 4
    waiting: list[str] = []
    for one, other in zip(mine, its, strict=True):
        assert {name: one[name] for name in one if name != "content"} == {
            name: other[name] for name in other if name != "content"
        }
        waiting = _check_blocks(one["content"], other["content"], waiting)


def _check_blocks(mine: Any, its: Any, waiting: list[str]) -> list[str]:
    if isinstance(mine, str):
        assert its == mine
        assert not waiting
        return []
    assert len(mine) == len(its)
    results = [block["tool_use_id"] for block in its if block["type"] == "tool_result"]
    assert sorted(results) == sorted(waiting)
    for one, other in zip(mine, its, strict=True):
        free = {"cache_control"}
        if one["type"] == "tool_result":
            free |= {"content", "is_error"}
        if one["type"] == "tool_use":
            free |= {"input"}
            assert _shape(one["input"]) == _shape(other["input"])
        assert _without(one, free) == _without(other, free)
    return [block["id"] for block in its if block["type"] == "tool_use"]


def _without(block: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name not in names}


def _shape(value: Any) -> Any:
    match value:
        case dict():
            return {name: _shape(one) for name, one in value.items()}
        case list():
            return [_shape(one) for one in value]
        case str():
            return "text"
        case _:
            return value
