"""The form of Anthropic's Messages API: requests from contexts, answers from replies. Pure.

    system     system prompt · contributions · metadata pool        one block each
    messages   user and assistant alternate; the first and the last message are the user's
               every tool_use is followed by its tool_result at the start of the next message
               active content comes last, one block per object

The API rejects blank text and messages that end with thinking, so both are left out. Cache
breakpoints are set after the system prompt, after the pool and at the end of the chat; if a policy
marks turns, after the pool, after each marked turn and at the end of the chat.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ctxmgr.core.context.assembly import Context, Section, ShownTurn
from ctxmgr.core.objects.answers import AnswerCall, AnswerNative, AnswerText, text_part
from ctxmgr.core.store.documents import Document, storable
from ctxmgr.messages.answers import (
    NO_MESSAGE,
    Answer,
    ToolCallIds,
    WireIds,
    read_call,
    read_meta,
    read_native,
    reading_reply,
    result_text,
    tool_name,
)

if TYPE_CHECKING:
    from ctxmgr.core.model import ToolDescription

API: Final = "anthropic"

CACHE_BREAKPOINTS_MAX: Final = 4
"""Blocks with ``cache_control`` that the API accepts in one request."""

_EPHEMERAL: Final = {"type": "ephemeral"}
_THINKING: Final = frozenset({"thinking", "redacted_thinking"})
_CACHEABLE: Final = frozenset({"text", "tool_use", "tool_result"})

Content: TypeAlias = list[dict[str, Any]]
Message: TypeAlias = dict[str, Any]


def payload(context: Context, *, caching: bool = True) -> Document:
    """Return ``system`` and ``messages`` of a request; the caller adds model, tools and limits."""
    messages = _Messages()
    wire_ids = WireIds()
    marked: list[dict[str, Any] | None] = []
    for number, turn in enumerate(context.transcript.turns, start=1):
        messages.add("user", _text_blocks(turn.user))
        _add_answer(messages, turn, wire_ids)
        if number in context.marks:
            marked.append(messages.last_block())
    messages.add("user", _text_blocks(context.user))
    chat_end = messages.last_block()
    for section in (Section.ACTIVE, Section.VOLATILE):
        messages.add("user", [_text(block.text) for block in context.section(section)])
    system = list(_system(context))
    if caching:
        stable = [block for section, block in system if section in {Section.SYSTEM, Section.STABLE}]
        stable_end = stable[-1] if stable else None
        system_end = system[-1][1] if system else None
        ends = [system_end, *marked] if marked else [stable_end, system_end]
        blocks = [*ends, chat_end]
        assert len(blocks) <= CACHE_BREAKPOINTS_MAX
        for block in blocks:
            if block is not None and block["type"] in _CACHEABLE:
                block["cache_control"] = dict(_EPHEMERAL)
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
    """Read a complete reply. Blocks that are neither text nor tool use are kept for this API."""
    ids = ToolCallIds(session_id, turn=turn, unique=unique_ids, taken=taken)
    stored = storable(reply)
    with reading_reply(API):
        meta = read_meta(
            stored,
            api=API,
            provider=provider,
            stop_reason=stored.get("stop_reason"),
            timestamp=timestamp,
        )
        return Answer(parts=tuple(_part(block, ids) for block in stored["content"]), meta=meta)


def tool_definitions(definitions: "Iterable[ToolDescription]") -> list[dict[str, Any]]:
    """Return ``tools`` of a request."""
    return [
        {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
        for tool in definitions
    ]


class _Messages:
    """The messages of one request. Consecutive blocks of one role are one message."""

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
    blocks: Content = []
    results: Content = []
    for part in turn.parts:
        match part:
            case AnswerText(text=text):
                blocks.extend(_text_blocks(text))
            case AnswerNative(api=api, block=block) if api == API:
                if block.get("type") != "thinking" or block.get("signature"):
                    blocks.append(dict(block))
            case AnswerCall():
                wire_id, name = wire_ids.assign(part), tool_name(part.ref.tool)
                args = dict(part.args)
                blocks.append({"type": "tool_use", "id": wire_id, "name": name, "input": args})
                result = {"type": "tool_result", "tool_use_id": wire_id}
                result |= {"content": result_text(part)}
                results.append(result | ({"is_error": True} if part.ref.status == "fail" else {}))
    # Thinking without a signature, or with nothing after it, was cut off: the API rejects it.
    while blocks and blocks[-1].get("type") in _THINKING:
        blocks.pop()
    messages.add("assistant", blocks)
    messages.add("user", results)


def _system(context: Context) -> Iterator[tuple[Section, dict[str, Any]]]:
    """Yield the blocks of the system prompt, each with its section."""
    for section in (Section.SYSTEM, Section.STABLE, Section.EPOCH):
        for block in context.section(section):
            yield from ((section, text) for text in _text_blocks(block.text))
    if context.pool.rope:
        yield Section.POOL, _text(context.pool.rope.text)


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
            return read_native(block, api=API)
