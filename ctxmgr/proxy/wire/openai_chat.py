"""Requests of OpenAI's Chat Completions API. Pure.

The arguments of a call are JSON in a string. Every result is a message of its own.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from ctxmgr.errors import Incorrect
from ctxmgr.proxy.wire.message import (
    SessionNames,
    Side,
    StringPlace,
    WireCall,
    WireMessage,
    WireResult,
    text_of,
    without_tail,
    written_call,
)
from ctxmgr.proxy.wire.show_tool import DESCRIPTION, SCHEMA, SHOW_TOOL


class OpenAIChat:
    """The form of Chat Completions."""

    listed: Final = "messages"
    show_tool: Final = json.dumps(
        {
            "type": "function",
            "function": {"name": SHOW_TOOL, "description": DESCRIPTION, "parameters": SCHEMA},
        },
        separators=(",", ":"),
    ).encode()

    def read(self, value: Any) -> WireMessage:
        if not isinstance(value, dict) or not isinstance(value.get("role"), str):
            raise Incorrect("a message has no role")
        texts, only = text_of(value.get("content"), ("text",))
        if value["role"] == "tool":
            return _result(value, texts, None if only is None else StringPlace(("content", *only)))
        if value["role"] != "assistant":
            return WireMessage(side=Side.OTHER, prose=tuple(texts))
        calls = value.get("tool_calls") or []
        if not isinstance(calls, list):
            raise Incorrect("tool_calls is not a list")
        return WireMessage(
            side=Side.ASSISTANT,
            prose=tuple(texts),
            calls=tuple(
                read for index, call in enumerate(calls) if (read := _call(call, index)) is not None
            ),
        )

    def names(self, headers: Mapping[str, str], field_of: Callable[[str], Any]) -> SessionNames:
        return SessionNames(
            session=headers.get("session-id", ""),
            agent=headers.get("thread-id", ""),
            shared=str(field_of("prompt_cache_key") or ""),
        )

    def tool_names(self, tools: Any) -> list[str]:
        functions = [tool.get("function") for tool in tools if isinstance(tool, dict)]
        return [str(function.get("name")) for function in functions if isinstance(function, dict)]


def _call(call: Any, index: int) -> WireCall | None:
    """Read a call of a function; others are never changed."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return None
    if not isinstance(call.get("id"), str):
        raise Incorrect("a tool call has no id")
    path = ("tool_calls", index, "function", "arguments")
    return written_call(call["id"], str(function.get("name")), function["arguments"], path=path)


def _result(value: Mapping[str, Any], texts: list[str], at: StringPlace | None) -> WireMessage:
    if not isinstance(value.get("tool_call_id"), str):
        raise Incorrect("a tool message has no tool_call_id")
    text, tail = without_tail(texts[0]) if at is not None else ("", "")
    result = WireResult(call_id=value["tool_call_id"], text=text, tail=tail, at=at)
    prose = (tail,) if at is not None else tuple(texts)
    return WireMessage(side=Side.OTHER, prose=prose, results=(result,))
