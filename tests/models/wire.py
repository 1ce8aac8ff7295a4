"""The events that the two model APIs send for one answer, as in their documentation."""

import json
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

USAGE = {"input": 40, "cached": 60, "written": 5, "output": 7}


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Call:
    tool: str
    args: dict[str, Any] = field(default_factory=dict)
    id: str = "call_0"
    """The same for all calls, as some small models do."""


def anthropic(parts: tuple[Text | Call, ...], stop: str | None = None) -> list[str]:
    """Return the events of an Anthropic answer."""
    usage = {
        "input_tokens": USAGE["input"],
        "cache_read_input_tokens": USAGE["cached"],
        "cache_creation_input_tokens": USAGE["written"],
        "output_tokens": 1,
    }
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted-1"}
    calls = any(isinstance(part, Call) for part in parts)
    why = {"stop_reason": stop or ("tool_use" if calls else "end_turn"), "stop_sequence": None}
    return [
        _named({"type": "message_start", "message": {**message, "content": [], "usage": usage}}),
        _named({"type": "ping"}),
        *chain.from_iterable(_block(index, part) for index, part in enumerate(parts)),
        _named(
            {"type": "message_delta", "delta": why, "usage": {"output_tokens": USAGE["output"]}}
        ),
        _named({"type": "message_stop"}),
    ]


def openai(parts: tuple[Text | Call, ...], stop: str | None = None) -> list[str]:
    """Return the chunks of a chat completion."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    calls = [part for part in parts if isinstance(part, Call)]
    for part in parts:
        if isinstance(part, Text):
            deltas += [{"content": half} for half in _halves(part.text)]
    for index, call in enumerate(calls):
        head = {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": ""}}
        deltas.append({"tool_calls": [{"index": index, **head}]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": half}}]}
            for half in _halves(json.dumps(call.args))
        ]
    why = stop or ("tool_calls" if calls else "stop")
    usage = {
        "prompt_tokens": USAGE["input"] + USAGE["cached"],
        "completion_tokens": USAGE["output"],
        "prompt_tokens_details": {"cached_tokens": USAGE["cached"]},
    }
    return [
        *(_chunk([{"index": 0, "delta": delta, "finish_reason": None}]) for delta in deltas),
        _chunk([{"index": 0, "delta": {}, "finish_reason": why}]),
        _chunk([], usage=usage),
        "data: [DONE]\n\n",
    ]


def _block(index: int, part: Text | Call) -> list[str]:
    if isinstance(part, Text):
        start: dict[str, Any] = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": half} for half in _halves(part.text)]
    else:
        start = {"type": "tool_use", "id": part.id, "name": part.tool, "input": {}}
        written = _halves(json.dumps(part.args))
        deltas = [{"type": "input_json_delta", "partial_json": half} for half in written]
    return [
        _named({"type": "content_block_start", "index": index, "content_block": start}),
        *(_named({"type": "content_block_delta", "index": index, "delta": d}) for d in deltas),
        _named({"type": "content_block_stop", "index": index}),
    ]


def _halves(text: str) -> list[str]:
    return [text[: len(text) // 2], text[len(text) // 2 :]]


def _named(event: dict[str, Any]) -> str:
    return f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n"


def _chunk(choices: list[dict[str, Any]], **fields: Any) -> str:
    chunk = {"id": "c-1", "object": "chat.completion.chunk", "model": "scripted-1", **fields}
    return f"data: {json.dumps({**chunk, 'choices': choices}, ensure_ascii=False)}\n\n"
