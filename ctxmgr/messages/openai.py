"""The context as OpenAI chat messages, and their replies as a turn's parts. Pure.

    system      system prompt · contributions · metadata pool, in one message: many servers that
                speak this API take no second one
    user, assistant, tool
                every tool call is answered by a tool message right after the one that asked
    user        active content, last

Servers that speak this API give the same id to many calls, so ids are made unique unless the
caller knows better.
"""

import json
from collections.abc import Container, Iterator, Mapping
from typing import Any, Final, TypeAlias

from ctxmgr.core.assembly import Context, Section, ShownTurn
from ctxmgr.core.canonical import canonical
from ctxmgr.core.documents import Document
from ctxmgr.core.parts import ShownCall, ShownText, native_part, text_part
from ctxmgr.messages.conversation import (
    NO_MESSAGE,
    Answer,
    ToolCallIds,
    WireIds,
    paragraphs,
    read_call,
    read_meta,
    result_text,
    storable,
    tool_name,
)

API: Final = "openai"

Message: TypeAlias = dict[str, Any]

_KNOWN: Final = frozenset({"role", "content", "tool_calls"})


def payload(context: Context) -> Document:
    """Return ``messages`` of a request; model, tools and limits are the caller's."""
    system = paragraphs(_before_chat(context))
    messages: list[Message] = [{"role": "system", "content": system}] if system.strip() else []
    wire_ids = WireIds()
    for turn in context.transcript.turns:
        _add_user(messages, turn.user)
        _add_answer(messages, turn, wire_ids)
    _add_user(messages, context.user)
    for section in (Section.ACTIVE, Section.VOLATILE):
        _add_user(messages, paragraphs(block.text for block in context.section(section)))
    if not messages or messages[-1]["role"] in {"system", "assistant"}:
        messages.append({"role": "user", "content": NO_MESSAGE})
    return {"messages": messages}


def read_answer(
    reply: Mapping[str, Any],
    *,
    session_id: str,
    turn: int,
    unique_ids: bool = False,
    taken: Container[str] = (),
    provider: str | None = None,
    timestamp: int | None = None,
) -> Answer:
    """Read a whole reply: its first choice. Other fields of the message are kept for this API."""
    known = storable(reply)
    choice = known["choices"][0]
    ids = ToolCallIds(session_id, turn=turn, unique=unique_ids, taken=taken)
    meta = read_meta(
        known,
        api=API,
        provider=provider,
        stop_reason=choice.get("finish_reason"),
        timestamp=timestamp,
    )
    return Answer(parts=tuple(_parts(choice["message"], ids)), meta=meta)


def _before_chat(context: Context) -> Iterator[str]:
    for section in (Section.SYSTEM, Section.STABLE, Section.EPOCH):
        yield from (block.text for block in context.section(section))
    yield context.pool.rope.text


def _add_user(messages: list[Message], text: str) -> None:
    """Let the user speak; two messages of the user in a row become one."""
    if not text.strip():
        return
    if messages and messages[-1]["role"] == "user":
        messages[-1]["content"] += "\n\n" + text
    else:
        messages.append({"role": "user", "content": text})


def _add_answer(messages: list[Message], turn: ShownTurn, wire_ids: WireIds) -> None:
    texts = [part.text for part in turn.parts if isinstance(part, ShownText) and part.text.strip()]
    calls = [(wire_ids.give(part), part) for part in turn.parts if isinstance(part, ShownCall)]
    if not texts and not calls:
        return
    said: Message = {"role": "assistant", "content": "\n".join(texts) or None}
    if calls:
        said["tool_calls"] = [_tool_call(call, wire_id) for wire_id, call in calls]
    messages.append(said)
    messages.extend(
        {"role": "tool", "tool_call_id": wire_id, "content": result_text(call)}
        for wire_id, call in calls
    )


def _tool_call(call: ShownCall, wire_id: str) -> dict[str, Any]:
    arguments = canonical(dict(call.args)).decode()
    function = {"name": tool_name(call.ref.tool), "arguments": arguments}
    return {"id": wire_id, "type": "function", "function": function}


def _parts(message: Mapping[str, Any], ids: ToolCallIds) -> Iterator[Document]:
    rest = {name: value for name, value in message.items() if name not in _KNOWN and value}
    if rest:
        yield native_part(API, block=rest)
    text = _said(message.get("content"))
    if text:
        yield text_part(text)
    for call in message.get("tool_calls") or ():
        asked = call.get("function") or {}
        args = _parsed(asked.get("arguments"))
        yield read_call(call.get("id"), name=asked.get("name"), args=args, ids=ids)


def _said(content: object) -> str:
    """Read the text of an answer; some servers give it in pieces."""
    if isinstance(content, list):
        return "".join(str(each.get("text") or "") for each in content if isinstance(each, dict))
    return content if isinstance(content, str) else ""


def _parsed(arguments: object) -> object:
    """Read arguments as a model wrote them: some write none, some write no JSON."""
    if not isinstance(arguments, str):
        return {} if arguments is None else arguments
    try:
        return storable(json.loads(arguments or "{}"))
    except (ValueError, RecursionError):
        return arguments
