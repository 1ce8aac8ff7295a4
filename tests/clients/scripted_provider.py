"""A provider with a script for both APIs, which checks each request as the real ones do."""

import asyncio
import json
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tests.proxy.server.events import anthropic_stream, sse
from tests.proxy.server.scripted_upstream import (
    ReceivedRequest,
    ScriptedUpstream,
    answer,
    stream,
)

Step = tuple[str, tuple[tuple[str, str, dict[str, Any]], ...]]
"""A text, and calls: id, tool, arguments."""


@dataclass
class ScriptedProvider(ScriptedUpstream):
    """Answers each request with tools by the next step; after the last one it repeats that."""

    steps: tuple[Step, ...] = ()
    asked: list[ReceivedRequest] = field(default_factory=list)
    """Requests with tools."""
    violations: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.otherwise = self._answer

    async def _answer(self, writer: asyncio.StreamWriter) -> None:
        request = self.requests[-1]
        path = request.target.partition("?")[0]
        if path not in {"/v1/messages", "/v1/responses"} or request.method != "POST":
            return await answer(b'{"input_tokens": 1000}')(writer)
        body = request.json
        if not body.get("tools"):
            return await stream(*anthropic_stream("A title"))(writer)
        self.asked.append(request)
        self.violations += violations(body)
        number = len(self.asked)
        text, calls = self.steps[min(number, len(self.steps)) - 1]
        if path == "/v1/messages":
            events = anthropic_stream(text, calls=calls, message_id=f"msg_{number}")
        else:
            events = responses_stream(text, calls=calls, number=number)
        return await stream(*events)(writer)


def violations(body: dict[str, Any]) -> list[str]:
    """Return what a provider would refuse: calls without results, results without calls."""
    called: set[str] = set()
    found: list[str] = []
    for item in _items(body):
        kind = item.get("type")
        call_id = item.get("id") if kind == "tool_use" else item.get("call_id")
        if kind in {"tool_use", "function_call", "custom_tool_call"}:
            called.add(str(call_id))
        elif kind == "tool_result":
            found += _ended(called, str(item.get("tool_use_id")))
        elif kind in {"function_call_output", "custom_tool_call_output"}:
            found += _ended(called, str(item.get("call_id")))
    return found + [f"no result for {call_id}" for call_id in called]


def _ended(called: set[str], call_id: str) -> list[str]:
    if call_id not in called:
        return [f"a result for {call_id}, which was not called"]
    called.remove(call_id)
    return []


def _items(body: dict[str, Any]) -> list[dict[str, Any]]:
    if "input" in body:
        return [item for item in body["input"] if isinstance(item, dict)]
    contents = (message["content"] for message in body["messages"])
    return [block for content in contents if isinstance(content, list) for block in content]


def responses_stream(
    text: str, *, calls: tuple[tuple[str, str, dict[str, Any]], ...], number: int
) -> list[bytes]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    said = {"type": "message", "id": f"m{number}", "role": "assistant", "content": content}
    items: list[dict[str, Any]] = [said]
    for call_id, name, args in calls:
        called = {"type": "function_call", "id": f"f{call_id}", "call_id": call_id, "name": name}
        items.append({**called, "arguments": json.dumps(args)})
    done = [
        {"type": "response.output_item.done", "output_index": index, "item": item}
        for index, item in enumerate(items)
    ]
    counts = {"input_tokens": 9_000, "output_tokens": 20, "total_tokens": 9_020}
    response = {"id": f"r{number}", "object": "response", "status": "completed", "output": items}
    return sse(
        {"type": "response.created", "response": {"id": f"r{number}", "status": "in_progress"}},
        *done,
        {
            "type": "response.completed",
            "response": {
                **response,
                "usage": {**counts, "input_tokens_details": {"cached_tokens": 8_000}},
            },
        },
    )


def prefix_breaks(requests: list[ReceivedRequest]) -> list[str]:
    """Return where a request does not begin as the one before it, cache marks aside."""
    found = []
    for number, (before, after) in enumerate(pairwise(requests), start=2):
        found += [
            f"request {number}: {name} changed"
            for name in ("tools", "system", "instructions")
            if before.json.get(name) != after.json.get(name)
        ]
        listed = "input" if "input" in after.json else "messages"
        old, new = ([_unmarked(each) for each in side.json[listed]] for side in (before, after))
        found += [
            f"request {number}: message {index} changed"
            for index, (one, other) in enumerate(zip(old, new, strict=False))
            if one != other
        ]
    return found


def _unmarked(message: dict[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    blocks = [
        {name: value for name, value in block.items() if name != "cache_control"}
        for block in content
    ]
    if len(blocks) == 1 and blocks[0].get("type") == "text":
        return {**message, "content": blocks[0]["text"]}
    return {**message, "content": blocks}
