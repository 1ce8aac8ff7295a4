"""The form of OpenAI's Chat Completions API: requests from contexts, answers from replies. Pure.

    system      system prompt · contributions · metadata pool, in one message: many servers that
                implement this API accept only one
    user, assistant, tool
                every message with tool calls is followed by one tool message for each
    user        active content, last

Some servers that implement this API give many calls the same id, so object ids are made unique
unless ``unique_ids`` is set.
"""

import json
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ctxmgr.core.context.assembly import Context, Section, ShownTurn
from ctxmgr.core.objects.answers import AnswerCall, AnswerText, text_part
from ctxmgr.core.store.canonical import canonical
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

API: Final = "openai"

Message: TypeAlias = dict[str, Any]

_STANDARD_FIELDS: Final = frozenset({"role", "content", "tool_calls"})


def payload(context: Context) -> Document:
    """Return ``messages`` of a request; the caller adds model, tools and limits."""
    sections = (Section.SYSTEM, Section.STABLE, Section.EPOCH)
    texts = [block.text for section in sections for block in context.section(section)]
    system = _paragraphs([*texts, context.pool.rope.text])
    messages: list[Message] = [{"role": "system", "content": system}] if system.strip() else []
    wire_ids = WireIds()
    for turn in context.transcript.turns:
        _add_user(messages, turn.user)
        _add_answer(messages, turn, wire_ids)
    _add_user(messages, context.user)
    for section in (Section.ACTIVE, Section.VOLATILE):
        _add_user(messages, _paragraphs(block.text for block in context.section(section)))
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
    """Read the first choice of a complete reply.

    Fields of the message that the API does not define are kept for this API.
    """
    stored = storable(reply)
    ids = ToolCallIds(session_id, turn=turn, unique=unique_ids, taken=taken)
    with reading_reply(API):
        choice = stored["choices"][0]
        meta = read_meta(
            stored,
            api=API,
            provider=provider,
            stop_reason=choice.get("finish_reason"),
            timestamp=timestamp,
        )
        return Answer(parts=tuple(_parts(choice["message"], ids)), meta=meta)


def tool_definitions(definitions: "Iterable[ToolDescription]") -> list[dict[str, Any]]:
    """Return ``tools`` of a request."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.schema,
            },
        }
        for tool in definitions
    ]


def _paragraphs(texts: Iterable[str]) -> str:
    """Separate texts, which end with a newline, by empty lines."""
    return "\n".join(text for text in texts if text)


def _add_user(messages: list[Message], text: str) -> None:
    """Add a user message; consecutive user messages become one."""
    if not text.strip():
        return
    if messages and messages[-1]["role"] == "user":
        messages[-1]["content"] += "\n\n" + text
    else:
        messages.append({"role": "user", "content": text})


def _add_answer(messages: list[Message], turn: ShownTurn, wire_ids: WireIds) -> None:
    texts = [part.text for part in turn.parts if isinstance(part, AnswerText) and part.text.strip()]
    calls = [(wire_ids.assign(part), part) for part in turn.parts if isinstance(part, AnswerCall)]
    if not texts and not calls:
        return
    message: Message = {"role": "assistant", "content": "\n".join(texts) or None}
    if calls:
        message["tool_calls"] = [
            {
                "id": wire_id,
                "type": "function",
                "function": {
                    "name": tool_name(call.ref.tool),
                    "arguments": canonical(dict(call.args)).decode(),
                },
            }
            for wire_id, call in calls
        ]
    messages.append(message)
    messages.extend(
        {"role": "tool", "tool_call_id": wire_id, "content": result_text(call)}
        for wire_id, call in calls
    )


def _parts(message: Mapping[str, Any], ids: ToolCallIds) -> Iterator[Document]:
    rest = {
        name: value for name, value in message.items() if name not in _STANDARD_FIELDS and value
    }
    if rest:
        yield read_native(rest, api=API)
    text = _text(message.get("content"))
    if text:
        yield text_part(text)
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        args = _parse_arguments(function.get("arguments"))
        yield read_call(call.get("id"), name=function.get("name"), args=args, ids=ids)


def _text(content: object) -> str:
    """Return the text of a message; some servers send a list of blocks."""
    if isinstance(content, list):
        return "".join(str(block.get("text") or "") for block in content if isinstance(block, dict))
    return content if isinstance(content, str) else ""


def _parse_arguments(arguments: object) -> object:
    """Parse arguments as the model wrote them: possibly absent, possibly not JSON."""
    if not isinstance(arguments, str):
        return {} if arguments is None else arguments
    try:
        return storable(json.loads(arguments or "{}"))
    except (ValueError, RecursionError):
        return arguments
