"""What providers demand of a request, and what a cache compares. Pure."""

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from tests.proxy.server.scripted_upstream import ReceivedRequest

MARKS_MAX: Final = 4


def violations(body: dict[str, Any]) -> list[str]:
    """Return what a provider would refuse in a request."""
    found = _response_violations(body["input"]) if "input" in body else _message_violations(body)
    tools = [tool.get("name") for tool in body.get("tools") or () if tool.get("name")]
    if len(tools) != len(set(tools)):
        found.append("two tools have one name")
    return found


def _message_violations(body: dict[str, Any]) -> list[str]:
    found: list[str] = []
    marks = len(re.findall(r'"cache_control": ?\{', json.dumps(body)))
    if marks > MARKS_MAX:
        found.append(f"{marks} cache marks")
    seen: set[str] = set()
    waiting: list[str] = []
    for message in body["messages"]:
        content = message["content"]
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if message["role"] == "user":
            if sorted(results) != sorted(waiting):
                found.append(f"results {results} for the calls {waiting}")
            kinds = [block["type"] == "tool_result" for block in blocks]
            if kinds != sorted(kinds, reverse=True):
                found.append("a result stands behind another block")
            waiting = []
        elif waiting:
            found.append(f"no result for {waiting}")
        if message["role"] == "assistant":
            waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
            found += [f"{call_id} is called twice" for call_id in waiting if call_id in seen]
            seen.update(waiting)
        if any(block["type"] == "text" and not block["text"] for block in blocks):
            found.append("an empty text")
    return [*found, *(f"no result for {call_id}" for call_id in waiting)]


def _response_violations(items: list[dict[str, Any]]) -> list[str]:
    found: list[str] = []
    called: dict[str, bool] = {}
    for item in items:
        kind, call_id = str(item.get("type", "message")), str(item.get("call_id"))
        if kind in {"function_call", "custom_tool_call"}:
            found += [f"{call_id} is called twice"] if call_id in called else []
            called[call_id] = False
        elif kind in {"function_call_output", "custom_tool_call_output"}:
            if called.get(call_id) is not False:
                found.append(f"a result for {call_id}, which does not wait for one")
            called[call_id] = True
    return [*found, *(f"no result for {call_id}" for call_id, done in called.items() if not done)]


def sent_messages(request: ReceivedRequest) -> list[str]:
    """Return the messages of a request as text, without cache marks."""
    body = request.json
    return [
        json.dumps(_unmarked(message), ensure_ascii=False)
        for message in body["input" if "input" in body else "messages"]
    ]


def common_length(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many messages two requests begin with alike."""
    for index, (mine, its) in enumerate(zip(one, other, strict=False)):
        if mine != its:
            return index
    return min(len(one), len(other))


def _unmarked(message: dict[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    blocks = [{n: v for n, v in block.items() if n != "cache_control"} for block in content]
    if len(blocks) == 1 and blocks[0].get("type") == "text":
        return {**message, "content": blocks[0]["text"]}
    return {**message, "content": blocks}


def thinking(body: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return all thinking and reasoning of a request, each with what identifies it."""
    if "input" in body:
        kept = ("type", "summary", "encrypted_content")
        items = [item for item in body["input"] if item.get("type") == "reasoning"]
        return [
            (item.get("encrypted_content", ""), {name: item.get(name) for name in kept})
            for item in items
        ]
    blocks = [
        block
        for message in body["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block.get("type") == "thinking"
    ]
    return [
        (block["signature"], {n: v for n, v in block.items() if n != "cache_control"})
        for block in blocks
    ]
