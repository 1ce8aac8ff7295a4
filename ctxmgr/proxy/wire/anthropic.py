"""Requests of Anthropic's Messages API. Pure.

Claude Code puts its session in a header and, as JSON, in ``metadata.user_id``; subagents have an id
of their own in another header. A result is a string or a list of blocks.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ctxmgr.errors import Incorrect
from ctxmgr.proxy.wire.json_spans import Path
from ctxmgr.proxy.wire.message import (
    SessionNames,
    Side,
    StringPlace,
    WireCall,
    WireMessage,
    WireResult,
    text_of,
    without_tail,
)
from ctxmgr.proxy.wire.show_tool import DESCRIPTION, SCHEMA, SHOW_TOOL

_THINKING: Final = frozenset({"thinking", "redacted_thinking"})
_MARKABLE: Final = frozenset({"text", "tool_use", "tool_result", "image", "document"})


class AnthropicMessages:
    """The form of the Messages API."""

    listed: Final = "messages"
    show_tool: Final = json.dumps(
        {"name": SHOW_TOOL, "description": DESCRIPTION, "input_schema": SCHEMA},
        separators=(",", ":"),
    ).encode()

    def read(self, value: Any) -> WireMessage:
        if not isinstance(value, dict) or not isinstance(value.get("role"), str):
            raise Incorrect("a message has no role")
        side = Side.ASSISTANT if value["role"] == "assistant" else Side.OTHER
        content = value.get("content")
        if isinstance(content, str):
            return WireMessage(side=side, prose=(content,))
        if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
            raise Incorrect("the content of a message is neither text nor a list of blocks")
        prose: list[str] = []
        calls: list[WireCall] = []
        results: list[WireResult] = []
        ttls: list[str | None] = []
        markable: Path | None = None
        for index, block in enumerate(content):
            path: Path = ("content", index)
            kind = block.get("type")
            if kind == "text":
                prose.append(str(block.get("text") or ""))
            elif kind == "tool_use":
                calls.append(_call(block, path))
            elif kind == "tool_result":
                result, more = _result(block, path)
                results.append(result)
                prose += more
            ttls += (mark.get("ttl") for mark in _marks(block))
            if kind in _MARKABLE and (kind != "text" or block.get("text")):
                markable = path
        return WireMessage(
            side=side,
            prose=tuple(prose),
            calls=tuple(calls),
            results=tuple(results),
            has_thinking=any(block.get("type") in _THINKING for block in content),
            marks=len(ttls),
            ttl=next((ttl for ttl in ttls if isinstance(ttl, str)), None),
            markable=markable,
            blocks=len(content),
        )

    def names(self, headers: Mapping[str, str], field_of: Callable[[str], Any]) -> SessionNames:
        session = headers.get("x-claude-code-session-id", "")
        if not session:
            session = _named_session(field_of("metadata"))
        return SessionNames(session=session, agent=headers.get("x-claude-code-agent-id", ""))

    def tool_names(self, tools: Any) -> list[str]:
        return [str(tool.get("name")) for tool in tools if isinstance(tool, dict)]


def _marks(block: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the cache marks of a block, and of the blocks of a result."""
    inner = block.get("content")
    for one in (block, *(inner if isinstance(inner, list) else ())):
        mark = one.get("cache_control") if isinstance(one, dict) else None
        if isinstance(mark, dict):
            yield mark


def _call(block: Mapping[str, Any], path: Path) -> WireCall:
    args = block.get("input")
    if not isinstance(block.get("id"), str) or not isinstance(args, dict):
        raise Incorrect("a tool_use block has no id or no input")
    at = StringPlace((*path, "input"))
    return WireCall(call_id=block["id"], tool=str(block.get("name")), args=args, at=at)


def _result(block: Mapping[str, Any], path: Path) -> tuple[WireResult, list[str]]:
    """Read a result; its texts are prose if there are several."""
    if not isinstance(block.get("tool_use_id"), str):
        raise Incorrect("a tool_result block has no tool_use_id")
    texts, only = text_of(block.get("content"), ("text",))
    text, tail = without_tail(texts[0]) if only is not None else ("", "")
    result = WireResult(
        call_id=block["tool_use_id"],
        text=text,
        tail=tail,
        failed=block.get("is_error") is True,
        at=None if only is None else StringPlace((*path, "content", *only)),
        failed_at=(*path, "is_error") if block.get("is_error") is True else None,
    )
    return result, [tail] if only is not None else texts


def _named_session(metadata: Any) -> str:
    """Return the session that ``user_id`` names; some clients only name a person there."""
    user = metadata.get("user_id") if isinstance(metadata, dict) else None
    if not isinstance(user, str):
        return ""
    try:
        value = json.loads(user)
    except ValueError:
        return user if "_session_" in user else ""
    session = value.get("session_id") if isinstance(value, dict) else None
    return session if isinstance(session, str) else ""
