"""An answer of a chat completions API, put together from its chunks. Touches nothing.

    chunk*             text, and tool calls in pieces
    finish_reason      in the last chunk of the answer: only now it is whole
    usage              with it, or in a chunk of its own after it
    [DONE]             from most servers

Servers that speak this API differ: tool calls come without an index, or all under index 0 with an
id each, or whole; ``choices`` is null beside the usage, and ``finish_reason`` empty until the end;
a field of their own holds what the model thought. All of that is taken.
"""

from collections.abc import Iterator
from typing import Any, Final

from ctxmgr.core.model import Called, Charge, Ended, Said, Stop, Usage
from ctxmgr.errors import AnswerLost
from ctxmgr.models.faults import words
from ctxmgr.models.streaming import Wire, arguments, checked, parsed

DONE: Final = "[DONE]"

STOPS: Final = {
    "stop": Stop.DONE,
    "tool_calls": Stop.TOOLS,
    "function_call": Stop.TOOLS,
    "length": Stop.LENGTH,
    "content_filter": Stop.REFUSED,
}

_OWN: Final = frozenset({"role", "content", "tool_calls", "function_call"})


class Function(Wire):
    name: str | None = None
    arguments: str | None = None


class CallPiece(Wire):
    index: int | None = None
    id: str | None = None
    function: Function | None = None


class Delta(Wire):
    content: str | None = None
    tool_calls: list[CallPiece] | None = None


class Choice(Wire):
    index: int = 0
    delta: Delta | None = None
    finish_reason: str | None = None


class Cached(Wire):
    cached_tokens: int | None = None


class Tokens(Wire):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: Cached | None = None


class Chunk(Wire):
    id: str | None = None
    model: str | None = None
    choices: list[Choice] | None = None
    usage: Tokens | None = None


class OpenAIReading:
    """One answer: the first choice."""

    def __init__(self, *, purpose: str, model: str) -> None:
        self._purpose, self._model = purpose, model
        self._id: str | None = None
        self._named: str | None = None
        self._text = ""
        self._extra: dict[str, str] = {}
        self._calls: list[dict[str, Any]] = []
        self._places: dict[int, int] = {}
        self._finish_reason: str | None = None
        self._usage: dict[str, Any] | None = None
        self.over = False

    def feed(self, data: str) -> Iterator[Said | Called]:
        if data.strip() == DONE:
            self.over = True
            return
        event = parsed(data)
        if event.get("error"):
            raise AnswerLost(f"{self._model} broke off in the middle of an answer: {words(event)}")
        chunk = checked(Chunk, event)
        self._id, self._named = self._id or chunk.id, self._named or chunk.model
        if chunk.usage is not None:
            self._usage = event["usage"]
        for choice in chunk.choices or ():
            if choice.index == 0:
                yield from self._take(choice)

    def ended(self) -> Ended:
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
            "model": self._named or self._model,
            "choices": [{"index": 0, "message": message, "finish_reason": self._finish_reason}],
            "usage": self._usage,
        }
        usage = None if self._usage is None else _usage(checked(Tokens, self._usage))
        charge = Charge(purpose=self._purpose, model=self._model, usage=usage)
        return Ended(reply=reply, stop=STOPS.get(self._finish_reason, Stop.OTHER), charge=charge)

    def _take(self, choice: Choice) -> Iterator[Said | Called]:
        delta = choice.delta or Delta()
        if delta.content:
            self._text += delta.content
            yield Said(text=delta.content)
        for name, value in (delta.model_extra or {}).items():
            if isinstance(value, str) and name not in _OWN:
                self._extra[name] = self._extra.get(name, "") + value
        for piece in delta.tool_calls or ():
            self._grow(piece)
        if choice.finish_reason and self._finish_reason is None:
            self._finish_reason = choice.finish_reason
            for call in self._calls:
                function = call["function"]
                yield Called(tool=function["name"], args=arguments(function["arguments"]))

    def _grow(self, piece: CallPiece) -> None:
        call, more = self._call(piece), piece.function or Function()
        function = call["function"]
        call["id"] = call["id"] or piece.id or ""
        function["name"] += more.name or ""
        function["arguments"] += more.arguments or ""

    def _call(self, piece: CallPiece) -> dict[str, Any]:
        """Find the call that a piece belongs to, or begin one."""
        place = len(self._calls) - 1 if piece.index is None else self._places.get(piece.index, -1)
        known = self._calls[place] if place >= 0 else None
        if known is None or (piece.id and known["id"] and piece.id != known["id"]):
            known = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
            self._calls.append(known)
            if piece.index is not None:
                self._places[piece.index] = len(self._calls) - 1
        return known


def _usage(tokens: Tokens) -> Usage:
    details = tokens.prompt_tokens_details
    cached = (details.cached_tokens if details else None) or 0
    return Usage(
        input_tokens=max(0, (tokens.prompt_tokens or 0) - cached),
        cache_read_tokens=cached,
        output_tokens=tokens.completion_tokens or 0,
    )
