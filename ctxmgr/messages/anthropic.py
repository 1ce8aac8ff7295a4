"""The context as Anthropic messages, and their replies as a turn's parts. Pure.

    system     system prompt · contributions · metadata pool        one block each
    messages   user and assistant by turns; the first and the last are the user's
               every tool_use is answered in the next message, before anything else
               active content stands last, one block per object

Blank text is refused by the API, and so is a thought that ends a message: both are left out. At
most ``CACHE_BREAKPOINTS_MAX`` blocks end a cached prefix: after the system prompt, after the pool,
and at the end of the chat; where a policy marks turns, after these and the pool, and at the end.
"""

from collections.abc import Container, Iterator, Mapping
from typing import Any, Final, TypeAlias

from ctxmgr.core.assembly import Context, Section, ShownTurn
from ctxmgr.core.documents import Document
from ctxmgr.core.parts import (
    ShownCall,
    ShownNative,
    ShownText,
    native_part,
    text_part,
)
from ctxmgr.messages.conversation import (
    NO_MESSAGE,
    Answer,
    ToolCallIds,
    WireIds,
    read_call,
    read_meta,
    result_text,
    storable,
    tool_name,
)

API: Final = "anthropic"

CACHE_BREAKPOINTS_MAX: Final = 4
"""Blocks with ``cache_control`` that one request may hold."""

_EPHEMERAL: Final = {"type": "ephemeral"}
_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})
_CACHEABLE: Final = frozenset({"text", "tool_use", "tool_result"})

Content: TypeAlias = list[dict[str, Any]]
Message: TypeAlias = dict[str, Any]


def payload(context: Context, *, caching: bool = True) -> Document:
    """Return ``system`` and ``messages`` of a request; model, tools and limits are the caller's."""
    messages = _Messages()
    wire_ids = WireIds()
    kept: list[dict[str, Any] | None] = []
    for number, turn in enumerate(context.transcript.turns, start=1):
        messages.add("user", _text_blocks(turn.user))
        _add_answer(messages, turn, wire_ids)
        if number in context.marks:
            kept.append(messages.last_block())
    messages.add("user", _text_blocks(context.user))
    chat_end = messages.last_block()
    for section in (Section.ACTIVE, Section.VOLATILE):
        messages.add("user", [_text(block.text) for block in context.section(section)])
    system = list(_system(context))
    if caching:
        ends = _prefix_ends(system)
        _mark([*ends, chat_end] if not kept else [ends[-1], *kept, chat_end])
    return {"system": [block for _, block in system], "messages": messages.finished()}


def read_answer(
    reply: Mapping[str, Any],
    *,
    session_id: str,
    turn: int,
    unique_ids: bool = True,
    taken: Container[str] = (),
    provider: str | None = API,
    timestamp: int | None = None,
) -> Answer:
    """Read a whole reply. Blocks that are neither text nor tool use are kept for this API."""
    ids = ToolCallIds(session_id, turn=turn, unique=unique_ids, taken=taken)
    known = storable(reply)
    meta = read_meta(
        known,
        api=API,
        provider=provider,
        stop_reason=known.get("stop_reason"),
        timestamp=timestamp,
    )
    return Answer(parts=tuple(_part(block, ids) for block in known["content"]), meta=meta)


class _Messages:
    """Messages under construction: neighbours of one role are one message."""

    def __init__(self) -> None:
        self._messages: list[Message] = []

    def add(self, role: str, blocks: Content) -> None:
        if not blocks:
            return
        if self._messages and self._messages[-1]["role"] == role:
            self._messages[-1]["content"].extend(blocks)
        else:
            self._messages.append({"role": role, "content": blocks})

    def last_block(self) -> dict[str, Any] | None:
        return self._messages[-1]["content"][-1] if self._messages else None

    def finished(self) -> list[Message]:
        if not self._messages or self._messages[0]["role"] != "user":
            self._messages.insert(0, {"role": "user", "content": [_text(NO_MESSAGE)]})
        if self._messages[-1]["role"] != "user":
            self._messages.append({"role": "user", "content": [_text(NO_MESSAGE)]})
        return self._messages


def _add_answer(messages: _Messages, turn: ShownTurn, wire_ids: WireIds) -> None:
    said: Content = []
    results: Content = []
    for part in turn.parts:
        match part:
            case ShownText(text=text):
                said.extend(_text_blocks(text))
            case ShownNative(api=api, block=block) if api == API:
                said.append(dict(block))
            case ShownCall():
                wire_id = wire_ids.give(part)
                said.append(_tool_use(part, wire_id))
                results.append(_tool_result(part, wire_id))
    messages.add("assistant", _sayable(said))
    messages.add("user", results)


def _sayable(said: Content) -> Content:
    """Leave out thoughts that were cut off: without a signature, or with nothing after them."""
    kept = [each for each in said if each.get("type") != "thinking" or each.get("signature")]
    while kept and kept[-1].get("type") in _THOUGHTS:
        kept.pop()
    return kept


def _tool_use(call: ShownCall, wire_id: str) -> dict[str, Any]:
    name = tool_name(call.ref.tool)
    return {"type": "tool_use", "id": wire_id, "name": name, "input": dict(call.args)}


def _tool_result(call: ShownCall, wire_id: str) -> dict[str, Any]:
    result: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": wire_id,
        "content": result_text(call),
    }
    if call.ref.status == "fail":
        result["is_error"] = True
    return result


def _system(context: Context) -> Iterator[tuple[Section, dict[str, Any]]]:
    """Give the paragraphs before the chat, each with its section."""
    for section in (Section.SYSTEM, Section.STABLE, Section.EPOCH):
        for block in context.section(section):
            yield from ((section, text) for text in _text_blocks(block.text))
    if context.pool.rope:
        yield Section.POOL, _text(context.pool.rope.text)


def _prefix_ends(system: list[tuple[Section, dict[str, Any]]]) -> list[dict[str, Any] | None]:
    """Give the last block of what hardly changes, and the last of all."""
    lasting = [block for section, block in system if section in {Section.SYSTEM, Section.STABLE}]
    return [lasting[-1] if lasting else None, system[-1][1] if system else None]


def _mark(blocks: list[dict[str, Any] | None]) -> None:
    assert len(blocks) <= CACHE_BREAKPOINTS_MAX
    for block in blocks:
        if block is not None and block["type"] in _CACHEABLE:
            block["cache_control"] = dict(_EPHEMERAL)


def _text_blocks(text: str) -> Content:
    return [_text(text)] if text.strip() else []


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _part(block: Mapping[str, Any], ids: ToolCallIds) -> Document:
    match block["type"]:
        case "text":
            return text_part(str(block.get("text") or ""))
        case "tool_use":
            args = block.get("input", {})
            return read_call(block.get("id"), name=block.get("name"), args=args, ids=ids)
        case _:
            return native_part(API, block=block)
