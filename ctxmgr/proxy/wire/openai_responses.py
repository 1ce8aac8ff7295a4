"""Requests of OpenAI's Responses API, as Codex sends them. Pure.

``input`` is a list of items: messages, calls, results and reasoning. Items of other types pass.
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

_TEXTS: Final = ("input_text", "output_text", "text")
_RESULTS: Final = frozenset({"function_call_output", "custom_tool_call_output"})
_CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}


class OpenAIResponses:
    """The form of the Responses API."""

    listed: Final = "input"
    show_tool: Final = json.dumps(
        {
            "type": "function",
            "name": SHOW_TOOL,
            "description": DESCRIPTION,
            "strict": False,
            "parameters": SCHEMA,
        },
        separators=(",", ":"),
    ).encode()

    def read(self, value: Any) -> WireMessage:
        if not isinstance(value, dict):
            raise Incorrect("an input item is not an object")
        kind = value.get("type", "message")
        if kind == "message":
            side = Side.ASSISTANT if value.get("role") == "assistant" else Side.OTHER
            texts, _ = text_of(value.get("content"), _TEXTS)
            return WireMessage(side=side, prose=tuple(texts))
        if kind in _CALLS:
            return _call(value, _CALLS[kind])
        if kind in _RESULTS:
            return _result(value)
        made = kind == "reasoning" or str(kind).endswith("_call")
        return WireMessage(
            side=Side.ASSISTANT if made else Side.OTHER, has_thinking=kind == "reasoning"
        )

    def names(self, headers: Mapping[str, str], field_of: Callable[[str], Any]) -> SessionNames:
        return SessionNames(
            session=headers.get("session-id", ""),
            agent=headers.get("thread-id", ""),
            shared=str(field_of("prompt_cache_key") or ""),
        )

    def tool_names(self, tools: Any) -> list[str]:
        return [str(tool.get("name")) for tool in tools if isinstance(tool, dict)]


def _call(value: Mapping[str, Any], field: str) -> WireMessage:
    text = value.get(field)
    if not isinstance(value.get("call_id"), str) or not isinstance(text, str):
        raise Incorrect("a call has no call_id or no arguments")
    call_id, tool = value["call_id"], str(value.get("name"))
    if field == "arguments":
        call = written_call(call_id, tool, text, path=(field,))
    else:
        call = WireCall(
            call_id=call_id, tool=tool, args={"raw": text}, at=StringPlace((field,)), is_text=True
        )
    return WireMessage(side=Side.ASSISTANT, calls=(call,))


def _result(value: Mapping[str, Any]) -> WireMessage:
    if not isinstance(value.get("call_id"), str):
        raise Incorrect("a result has no call_id")
    texts, only = text_of(value.get("output"), _TEXTS)
    at = None if only is None else StringPlace(("output", *only))
    text, tail = without_tail(texts[0]) if only is not None else ("", "")
    result = WireResult(call_id=value["call_id"], text=text, tail=tail, at=at)
    prose = (tail,) if only is not None else tuple(texts)
    return WireMessage(side=Side.OTHER, prose=prose, results=(result,))
