"""Messages of pydantic-ai as what a session takes, and its prompt as messages. Touches nothing.

response   ─► the parts of an answer: text and tool calls; thinking is kept, and not shown
request    ─► what the user said, and what tools returned
prompt     ─► requests and responses, as the openai form parts them
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from pydantic import TypeAdapter

from ctxmgr.core.documents import Document
from ctxmgr.errors import ExtraMissing
from ctxmgr.messages.conversation import ToolCallIds, read_call, storable

try:
    from pydantic_ai import messages as ai
except ImportError as error:
    raise ExtraMissing("pydantic-ai", extra="pydantic-ai") from error

API: Final = "pydantic-ai"

_PART: Final = TypeAdapter[Any](ai.ModelResponsePart)


class Returned(NamedTuple):
    """What came of a tool call."""

    call_id: str
    text: str
    ok: bool


def answer_parts(response: ai.ModelResponse, ids: ToolCallIds) -> Iterator[Document]:
    for part in response.parts:
        if isinstance(part, ai.TextPart):
            yield {"type": "text", "text": storable(part.content)}
        elif isinstance(part, ai.ToolCallPart):
            args = storable(part.args_as_dict())
            yield read_call(part.tool_call_id, name=part.tool_name, args=args, ids=ids)
        else:
            block = storable(_PART.dump_python(part, mode="json"))
            yield {"type": "native", "api": API, "block": block}


def returned(request: ai.ModelRequest) -> Iterator[Returned]:
    for part in request.parts:
        if isinstance(part, ai.ToolReturnPart):
            text = storable(part.model_response_str())
            yield Returned(part.tool_call_id, text, part.outcome == "success")


def user_text(request: ai.ModelRequest) -> str:
    """Return what is new for the model and no tool's. Media are only named."""
    said: list[str] = []
    for part in request.parts:
        if isinstance(part, ai.UserPromptPart):
            said += [each if isinstance(each, str) else _name(each) for each in _given(part)]
        elif isinstance(part, ai.RetryFeedbackPart):
            said.append(part.model_response())
    text: str = storable("\n".join(said))
    return text


def media(request: ai.ModelRequest) -> list[ai.UserContent]:
    """Return what the user gave that is no text."""
    prompts = (part for part in request.parts if isinstance(part, ai.UserPromptPart))
    return [each for part in prompts for each in _given(part) if not isinstance(each, str)]


def system_text(request: ai.ModelRequest) -> str:
    said = (part.content for part in request.parts if isinstance(part, ai.SystemPromptPart))
    return "\n\n".join(said)


def prompt_messages(messages: Iterable[Mapping[str, Any]]) -> list[ai.ModelMessage]:
    """Return a prompt in the openai form as messages; the last one is a request."""
    made: list[ai.ModelMessage] = []
    tools: dict[str, str] = {}
    for message in messages:
        if message["role"] == "assistant":
            response = ai.ModelResponse(parts=list(_answer(message)))
            tools |= {call.tool_call_id: call.tool_name for call in response.tool_calls}
            made.append(response)
        elif made and isinstance(made[-1], ai.ModelRequest):
            made[-1].parts = [*made[-1].parts, _asked(message, tools)]
        else:
            made.append(ai.ModelRequest(parts=[_asked(message, tools)]))
    return made


def _answer(message: Mapping[str, Any]) -> Iterator[ai.TextPart | ai.ToolCallPart]:
    if message["content"]:
        yield ai.TextPart(message["content"])
    for call in message.get("tool_calls", ()):
        asked = call["function"]
        yield ai.ToolCallPart(asked["name"], json.loads(asked["arguments"]), call["id"])


def _asked(message: Mapping[str, Any], tools: Mapping[str, str]) -> ai.ModelRequestPart:
    content = message["content"]
    if message["role"] == "tool":
        call_id = message["tool_call_id"]
        return ai.ToolReturnPart(tools[call_id], content, call_id)
    system = message["role"] == "system"
    return ai.SystemPromptPart(content) if system else ai.UserPromptPart(content)


def _given(part: ai.UserPromptPart) -> Iterable[ai.UserContent]:
    return [part.content] if isinstance(part.content, str) else part.content


def _name(content: object) -> str:
    return f"[{getattr(content, 'kind', type(content).__name__)}]"
