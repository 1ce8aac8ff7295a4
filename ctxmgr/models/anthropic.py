"""Models behind Anthropic's Messages API, of Anthropic or another server. Touches the network.

    message_start
      content_block_start  content_block_delta*  content_block_stop      by index
    message_delta          stop reason and usage
    message_stop           the answer is complete

Unknown types of events and deltas are ignored, as the API asks of its clients.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import Any, Final, Self

from pydantic import Field

from ctxmgr.core.model import (
    AnswerDone,
    AnswerPart,
    Charge,
    Request,
    Stop,
    TextDelta,
    ToolUse,
    Usage,
)
from ctxmgr.core.store.documents import Document
from ctxmgr.errors import AnswerLost, Incorrect
from ctxmgr.models.faults import error_message
from ctxmgr.models.streaming import (
    WireEvent,
    parse_arguments,
    parse_event,
    stream_answer,
    validate,
)
from ctxmgr.models.transport import SILENCE_S, ModelTransport, host_of

BASE_URL: Final = "https://api.anthropic.com"
VERSION: Final = "2023-06-01"
"""The version of the API, sent as ``anthropic-version``."""

STOPS: Final = {
    "end_turn": Stop.DONE,
    "stop_sequence": Stop.DONE,
    "tool_use": Stop.TOOLS,
    "max_tokens": Stop.LENGTH,
    "model_context_window_exceeded": Stop.LENGTH,
    "refusal": Stop.REFUSED,
}


class AnthropicModel:
    """A ``Model`` with Anthropic's API. Use it with ``async with``, or call ``close``."""

    form: Final = "anthropic"

    def __init__(
        self,
        name: str,
        *,
        key: str | None,
        base_url: str = BASE_URL,
        silence_s: float = SILENCE_S,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        is_anthropic = host_of(base_url) == host_of(BASE_URL)
        if is_anthropic and not key:
            raise Incorrect(f"{BASE_URL} needs an API key: set ANTHROPIC_API_KEY")
        self.name: Final = name
        self.unique_ids: Final = is_anthropic
        # Base URLs are written both with and without the version.
        url = base_url.rstrip("/").removesuffix("/v1") + "/v1/messages"
        headers = {"anthropic-version": VERSION, **({"x-api-key": key} if key else {})}
        self._transport = ModelTransport(
            url, headers=headers, key=key, silence_s=silence_s, wait=wait
        )

    def stream(self, request: Request) -> AsyncGenerator[AnswerPart, None]:
        answer = AnthropicAnswer(purpose=request.purpose, model=self.name)
        return stream_answer(self._transport.events(self._body(request)), answer)

    async def close(self) -> None:
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def _body(self, request: Request) -> Document:
        body: dict[str, Any] = {
            "model": self.name,
            "max_tokens": request.output_tokens_max,
            "stream": True,
        }
        if isinstance(request.payload, str):
            body["messages"] = [{"role": "user", "content": request.payload}]
        else:
            body |= {name: value for name, value in request.payload.items() if value}
        if request.tools:
            body["tools"] = list(request.tools)
        if request.temperature is not None:
            body["temperature"] = request.temperature
        return body


class AnthropicMessage(WireEvent):
    id: str | None = None
    model: str | None = None
    usage: dict[str, Any] = Field(default_factory=dict)


class MessageStart(WireEvent):
    message: AnthropicMessage


class BlockType(WireEvent):
    type: str


class BlockStart(WireEvent):
    index: int
    content_block: BlockType


class AnthropicDelta(WireEvent):
    type: str
    text: str = ""
    partial_json: str = ""
    thinking: str = ""
    signature: str = ""


class BlockDelta(WireEvent):
    index: int
    delta: AnthropicDelta


class BlockStop(WireEvent):
    index: int


class AnthropicStop(WireEvent):
    stop_reason: str | None = None


class MessageDelta(WireEvent):
    delta: AnthropicStop
    usage: dict[str, Any] = Field(default_factory=dict)


class AnthropicTokens(WireEvent):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class AnthropicAnswer:
    """A ``StreamedAnswer`` of Anthropic's API."""

    def __init__(self, *, purpose: str, model: str) -> None:
        self._purpose, self._model = purpose, model
        self._message = AnthropicMessage()
        self._blocks: dict[int, dict[str, Any]] = {}
        self._arguments: dict[int, str] = {}
        """The JSON text of tool calls' arguments so far, by index of the block."""
        self._open: set[int] = set()
        self._usage: dict[str, Any] = {}
        self._stop_reason: str | None = None
        self.complete = False

    def feed(self, data: str) -> Iterator[TextDelta | ToolUse]:
        event = parse_event(data)
        match event.get("type"):
            case "message_start":
                self._message = validate(MessageStart, event).message
                self._add_usage(self._message.usage)
            case "content_block_start":
                start = validate(BlockStart, event)
                self._blocks[start.index] = dict(event["content_block"])
                self._open.add(start.index)
                text = event["content_block"].get("text")
                if start.content_block.type == "text" and text:
                    yield TextDelta(text=str(text))
            case "content_block_delta":
                yield from self._extend_block(event)
            case "content_block_stop":
                yield from self._end_block(event)
            case "message_delta":
                message = validate(MessageDelta, event)
                self._stop_reason = message.delta.stop_reason or self._stop_reason
                self._add_usage(message.usage)
            case "message_stop":
                self.complete = True
            case "error":
                reason = error_message(event)
                raise AnswerLost(f"{self._model} broke off in the middle of an answer: {reason}")

    def result(self) -> AnswerDone:
        if not self.complete or self._stop_reason is None or self._open:
            raise AnswerLost(f"{self._model} broke off in the middle of an answer")
        usage = _usage(validate(AnthropicTokens, self._usage)) if self._usage else None
        reply = {
            "id": self._message.id,
            "type": "message",
            "role": "assistant",
            "model": self._message.model or self._model,
            "content": [self._blocks[index] for index in sorted(self._blocks)],
            "stop_reason": self._stop_reason,
            "usage": self._usage,
        }
        charge = Charge(purpose=self._purpose, model=self._model, usage=usage)
        return AnswerDone(reply=reply, stop=STOPS.get(self._stop_reason, Stop.OTHER), charge=charge)

    def _extend_block(self, event: dict[str, Any]) -> Iterator[TextDelta | ToolUse]:
        change = validate(BlockDelta, event)
        index, delta = change.index, change.delta
        block = self._open_block(index)
        match delta.type:
            case "text_delta":
                block["text"] = _text_so_far(block, "text") + delta.text
                yield TextDelta(text=delta.text)
            case "input_json_delta":
                self._arguments[index] = self._arguments.get(index, "") + delta.partial_json
            case "thinking_delta":
                block["thinking"] = _text_so_far(block, "thinking") + delta.thinking
            case "signature_delta":
                block["signature"] = delta.signature
            case "citations_delta":
                citations = block.get("citations") or []
                block["citations"] = [*citations, event["delta"].get("citation")]

    def _end_block(self, event: dict[str, Any]) -> Iterator[TextDelta | ToolUse]:
        index = validate(BlockStop, event).index
        block = self._open_block(index)
        if index in self._arguments:
            block["input"] = parse_arguments(self._arguments.pop(index))
        self._open.discard(index)
        if block["type"] == "tool_use":
            yield ToolUse(tool=str(block.get("name")), args=block.get("input", {}))

    def _open_block(self, index: int) -> dict[str, Any]:
        if index not in self._open:
            raise AnswerLost(f"{self._model} continued block {index}, which is not open")
        return self._blocks[index]

    def _add_usage(self, usage: dict[str, Any]) -> None:
        self._usage.update({name: value for name, value in usage.items() if value is not None})


def _text_so_far(block: dict[str, Any], field: str) -> str:
    value = block.get(field)
    return value if isinstance(value, str) else ""  # some servers start a block with null


def _usage(tokens: AnthropicTokens) -> Usage:
    return Usage(
        input_tokens=tokens.input_tokens or 0,
        cache_read_tokens=tokens.cache_read_input_tokens or 0,
        cache_written_tokens=tokens.cache_creation_input_tokens or 0,
        output_tokens=tokens.output_tokens or 0,
    )
