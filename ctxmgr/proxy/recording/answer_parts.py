"""An answer of any of the three APIs as text and tool calls, also if it broke off. Pure.

Streams are read event by event; what cannot be read is left out. A tool call counts from the moment
its name is known; arguments that are incomplete stay text.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from ctxmgr.proxy.engine import Api

Value: TypeAlias = Any


@dataclass(slots=True)
class CalledTool:
    """A tool call of an answer."""

    call_id: str
    tool: str
    arguments: str = field(default="", repr=False)

    @property
    def args(self) -> Value:
        """The arguments; text if they are not JSON."""
        try:
            return json.loads(self.arguments or "{}")
        except (ValueError, RecursionError):
            return self.arguments


@dataclass(slots=True)
class AnswerParts:
    """What a model answered."""

    parts: list[str | CalledTool] = field(default_factory=list)
    stop: str | None = None

    def add_text(self, text: Value) -> None:
        if not isinstance(text, str) or not text:
            return
        if self.parts and isinstance(self.parts[-1], str):
            self.parts[-1] += text
        else:
            self.parts.append(text)

    @property
    def calls(self) -> list[CalledTool]:
        return [part for part in self.parts if isinstance(part, CalledTool)]


def read_answer_parts(api: Api, answer: bytes, *, streamed: bool) -> AnswerParts:
    """Return the parts of an answer."""
    values = _events(answer) if streamed else _whole(answer)
    found = AnswerParts()
    match api:
        case Api.ANTHROPIC_MESSAGES:
            _anthropic(values, found)
        case Api.OPENAI_CHAT:
            _chat(values, found)
        case Api.OPENAI_RESPONSES:
            _responses(values, found)
    return found


_DATA: Final = b"data:"


def _events(stream: bytes) -> Iterator[dict[str, Value]]:
    for line in stream.splitlines():
        if line.startswith(_DATA):
            yield from _whole(line[len(_DATA) :])


def _whole(text: bytes) -> Iterator[dict[str, Value]]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return
    if isinstance(value, dict):
        yield value


def _anthropic(values: Iterator[dict[str, Value]], found: AnswerParts) -> None:
    calls: dict[Value, CalledTool] = {}
    for value in values:
        match value:
            case {"type": "message", "content": list(blocks)}:
                for number, block in enumerate(blocks):
                    _anthropic_block(number, block, found, calls)
                found.stop = _word(value.get("stop_reason"))
            case {"type": "content_block_start", "index": index, "content_block": {**block}}:
                _anthropic_block(index, block, found, calls)
            case {"type": "content_block_delta", "delta": {"text": text}}:
                found.add_text(text)
            case {
                "type": "content_block_delta",
                "index": index,
                "delta": {"partial_json": str(text)},
            } if index in calls:
                calls[index].arguments += text
            case {"type": "message_delta", "delta": {"stop_reason": reason}}:
                found.stop = _word(reason)


def _anthropic_block(
    index: Value, block: Value, found: AnswerParts, calls: dict[Value, CalledTool]
) -> None:
    match block:
        case {"type": "text", "text": text}:
            found.add_text(text)
        case {"type": "tool_use", "id": call_id, "name": name}:
            given = block.get("input")
            arguments = json.dumps(given, ensure_ascii=False) if given else ""
            calls[index] = CalledTool(str(call_id), str(name), arguments)
            found.parts.append(calls[index])


def _chat(values: Iterator[dict[str, Value]], found: AnswerParts) -> None:
    calls: dict[Value, CalledTool] = {}
    for value in values:
        choices = value.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            continue
        found.stop = _word(choice.get("finish_reason")) or found.stop
        message = choice.get("delta") or choice.get("message")
        if not isinstance(message, dict):
            continue
        found.add_text(message.get("content"))
        for number, call in enumerate(message.get("tool_calls") or ()):
            _chat_call(call, call.get("index", number), found, calls)


def _chat_call(
    call: Value, index: Value, found: AnswerParts, calls: dict[Value, CalledTool]
) -> None:
    function = call.get("function") or {}
    if index not in calls:
        calls[index] = CalledTool(str(call.get("id")), str(function.get("name")))
        found.parts.append(calls[index])
    arguments = function.get("arguments")
    calls[index].arguments += arguments if isinstance(arguments, str) else ""


def _responses(values: Iterator[dict[str, Value]], found: AnswerParts) -> None:
    for value in values:
        match value:
            case {"type": "response.output_item.done", "item": {**item}}:
                _responses_item(item, found)
            case {"object": "response", "output": list(items)}:
                for item in items:
                    _responses_item(item, found)
                found.stop = _word(value.get("status"))
            case {"type": str(kind), "response": {"status": status}} if kind != "response.created":
                found.stop = _word(status)


def _responses_item(item: Value, found: AnswerParts) -> None:
    match item:
        case {"type": "message", "content": list(blocks)}:
            for block in blocks:
                found.add_text(block.get("text") if isinstance(block, dict) else None)
        case {"type": "function_call" | "custom_tool_call", "name": name}:
            arguments = item.get("arguments", item.get("input", ""))
            call_id = str(item.get("call_id") or item.get("id"))
            found.parts.append(CalledTool(call_id, str(name), str(arguments)))


def _word(value: Value) -> str | None:
    return value if isinstance(value, str) else None
