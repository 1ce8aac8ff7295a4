"""Models behind OpenAI's Chat Completions API, of OpenAI or another server. Touches the network.

    chunk*             text, and tool calls in pieces
    finish_reason      in the last chunk of the answer, which is then complete
    usage              in the same chunk, or in a chunk after it
    [DONE]             from most servers

Servers that implement this API differ, and all of these variants are accepted: tool calls without
an index, tool calls that all have index 0 and differ in their ids, and tool calls in one piece;
``choices`` null next to the usage; an empty ``finish_reason`` until the end; and additional fields
with the model's reasoning.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import Any, Final, Self

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

BASE_URL: Final = "https://api.openai.com/v1"

DONE: Final = "[DONE]"

STOPS: Final = {
    "stop": Stop.DONE,
    "tool_calls": Stop.TOOLS,
    "function_call": Stop.TOOLS,
    "length": Stop.LENGTH,
    "content_filter": Stop.REFUSED,
}

_STANDARD_FIELDS: Final = frozenset({"role", "content", "tool_calls", "function_call"})


class OpenAIModel:
    """A ``Model`` with OpenAI's API. Use it with ``async with``, or call ``close``."""

    form: Final = "openai"
    unique_ids: Final = False
    """No server guarantees unique ids, and many number the calls of each answer from 0."""

    def __init__(
        self,
        name: str,
        *,
        key: str | None,
        base_url: str = BASE_URL,
        silence_s: float = SILENCE_S,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        is_openai = host_of(base_url) == host_of(BASE_URL)
        if is_openai and not key:
            raise Incorrect(f"{BASE_URL} needs an API key: set OPENAI_API_KEY")
        self.name: Final = name
        # OpenAI's newer models reject the old name, and other servers do not know the new one.
        self._limit = "max_completion_tokens" if is_openai else "max_tokens"
        self._transport = ModelTransport(
            base_url.rstrip("/") + "/chat/completions",
            headers={"Authorization": f"Bearer {key}"} if key else {},
            key=key,
            silence_s=silence_s,
            wait=wait,
        )

    def stream(self, request: Request) -> AsyncGenerator[AnswerPart, None]:
        answer = OpenAIAnswer(purpose=request.purpose, model=self.name)
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
            self._limit: request.output_tokens_max,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if isinstance(request.payload, str):
            body["messages"] = [{"role": "user", "content": request.payload}]
        else:
            body |= request.payload
        if request.tools:
            body["tools"] = list(request.tools)
        if request.temperature is not None:
            body["temperature"] = request.temperature
        return body


class OpenAIFunction(WireEvent):
    name: str | None = None
    arguments: str | None = None


class CallPiece(WireEvent):
    index: int | None = None
    id: str | None = None
    function: OpenAIFunction | None = None


class OpenAIDelta(WireEvent):
    content: str | None = None
    tool_calls: list[CallPiece] | None = None


class OpenAIChoice(WireEvent):
    index: int = 0
    delta: OpenAIDelta | None = None
    finish_reason: str | None = None


class OpenAICached(WireEvent):
    cached_tokens: int | None = None


class OpenAITokens(WireEvent):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: OpenAICached | None = None


class OpenAIChunk(WireEvent):
    id: str | None = None
    model: str | None = None
    choices: list[OpenAIChoice] | None = None
    usage: OpenAITokens | None = None


class OpenAIAnswer:
    """A ``StreamedAnswer`` of OpenAI's API: the first choice."""

    def __init__(self, *, purpose: str, model: str) -> None:
        self._purpose, self._model = purpose, model
        self._id: str | None = None
        self._reported_model: str | None = None
        self._text = ""
        self._extra: dict[str, str] = {}
        """Additional fields of the message, such as the model's reasoning."""
        self._calls: list[dict[str, Any]] = []
        self._call_positions: dict[int, int] = {}
        """Position in ``_calls`` of the call that an index means now."""
        self._finish_reason: str | None = None
        self._usage: dict[str, Any] | None = None
        self.complete = False

    def feed(self, data: str) -> Iterator[TextDelta | ToolUse]:
        if data.strip() == DONE:
            self.complete = True
            return
        event = parse_event(data)
        if event.get("error"):
            reason = error_message(event)
            raise AnswerLost(f"{self._model} broke off in the middle of an answer: {reason}")
        chunk = validate(OpenAIChunk, event)
        self._id = self._id or chunk.id
        self._reported_model = self._reported_model or chunk.model
        if chunk.usage is not None:
            self._usage = event["usage"]
        for choice in chunk.choices or ():
            if choice.index == 0:
                yield from self._add(choice)

    def result(self) -> AnswerDone:
        if self._finish_reason is None:
            raise AnswerLost(f"{self._model} broke off in the middle of an answer")
        message: dict[str, Any] = {
            **self._extra,
            "role": "assistant",
            "content": self._text or None,
        }
        if self._calls:
            message["tool_calls"] = self._calls
        reply = {
            "id": self._id,
            "model": self._reported_model or self._model,
            "choices": [{"index": 0, "message": message, "finish_reason": self._finish_reason}],
            "usage": self._usage,
        }
        usage = None if self._usage is None else _usage(validate(OpenAITokens, self._usage))
        charge = Charge(purpose=self._purpose, model=self._model, usage=usage)
        return AnswerDone(
            reply=reply, stop=STOPS.get(self._finish_reason, Stop.OTHER), charge=charge
        )

    def _add(self, choice: OpenAIChoice) -> Iterator[TextDelta | ToolUse]:
        delta = choice.delta or OpenAIDelta()
        if delta.content:
            self._text += delta.content
            yield TextDelta(text=delta.content)
        for name, value in (delta.model_extra or {}).items():
            if isinstance(value, str) and name not in _STANDARD_FIELDS:
                self._extra[name] = self._extra.get(name, "") + value
        for piece in delta.tool_calls or ():
            call, addition = self._call_of(piece), piece.function or OpenAIFunction()
            call["id"] = call["id"] or piece.id or ""
            call["function"]["name"] += addition.name or ""
            call["function"]["arguments"] += addition.arguments or ""
        if choice.finish_reason and self._finish_reason is None:
            self._finish_reason = choice.finish_reason
            for call in self._calls:
                function = call["function"]
                yield ToolUse(tool=function["name"], args=parse_arguments(function["arguments"]))

    def _call_of(self, piece: CallPiece) -> dict[str, Any]:
        """Return the call that a piece belongs to; a new index or a new id starts a call."""
        if piece.index is None:
            position = len(self._calls) - 1
        else:
            position = self._call_positions.get(piece.index, -1)
        call = self._calls[position] if position >= 0 else None
        if call is None or (piece.id and call["id"] and piece.id != call["id"]):
            call = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
            self._calls.append(call)
            if piece.index is not None:
                self._call_positions[piece.index] = len(self._calls) - 1
        return call


def _usage(tokens: OpenAITokens) -> Usage:
    details = tokens.prompt_tokens_details
    cached = (details.cached_tokens if details else None) or 0
    return Usage(
        input_tokens=max(0, (tokens.prompt_tokens or 0) - cached),
        cache_read_tokens=cached,
        output_tokens=tokens.completion_tokens or 0,
    )
