"""An answer of Anthropic's Messages API, put together from its events. Touches nothing.

    message_start
      content_block_start  content_block_delta*  content_block_stop      by index
    message_delta          why it stopped, what it cost
    message_stop           only now it is whole

Events and deltas of other types are left out, as the API asks of its clients.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from pydantic import Field

from ctxmgr.core.model import Called, Charge, Ended, Said, Stop, Usage
from ctxmgr.errors import AnswerLost
from ctxmgr.models.faults import words
from ctxmgr.models.streaming import Wire, arguments, checked, parsed

STOPS: Final = {
    "end_turn": Stop.DONE,
    "stop_sequence": Stop.DONE,
    "tool_use": Stop.TOOLS,
    "max_tokens": Stop.LENGTH,
    "model_context_window_exceeded": Stop.LENGTH,
    "refusal": Stop.REFUSED,
}


class Message(Wire):
    id: str | None = None
    model: str | None = None
    usage: dict[str, Any] = Field(default_factory=dict)


class MessageStart(Wire):
    message: Message


class BlockType(Wire):
    type: str


class BlockStart(Wire):
    index: int
    content_block: BlockType


class Delta(Wire):
    type: str
    text: str = ""
    partial_json: str = ""
    thinking: str = ""
    signature: str = ""


class BlockDelta(Wire):
    index: int
    delta: Delta


class BlockStop(Wire):
    index: int


class Why(Wire):
    stop_reason: str | None = None


class MessageDelta(Wire):
    delta: Why
    usage: dict[str, Any] = Field(default_factory=dict)


class Tokens(Wire):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class AnthropicReading:
    """One answer."""

    def __init__(self, *, purpose: str, model: str) -> None:
        self._purpose, self._model = purpose, model
        self._message = Message()
        self._blocks: dict[int, dict[str, Any]] = {}
        self._written: dict[int, str] = {}
        self._open: set[int] = set()
        self._usage: dict[str, Any] = {}
        self._stop_reason: str | None = None
        self.over = False
        self._takes: Final[dict[str, Callable[[dict[str, Any]], Iterator[Said | Called]]]] = {
            "message_start": self._begin,
            "content_block_start": self._begin_block,
            "content_block_delta": self._grow_block,
            "content_block_stop": self._end_block,
            "message_delta": self._learn,
            "message_stop": self._stop,
            "error": self._fail,
        }

    def feed(self, data: str) -> Iterator[Said | Called]:
        event = parsed(data)
        take = self._takes.get(str(event.get("type")))
        return take(event) if take is not None else iter(())

    def ended(self) -> Ended:
        if not self.over or self._stop_reason is None or self._open:
            raise AnswerLost(f"{self._model} broke off in the middle of an answer")
        usage = _usage(checked(Tokens, self._usage)) if self._usage else None
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
        return Ended(reply=reply, stop=STOPS.get(self._stop_reason, Stop.OTHER), charge=charge)

    def _begin(self, event: dict[str, Any]) -> Iterator[Said | Called]:
        self._message = checked(MessageStart, event).message
        self._usage.update(_known(self._message.usage))
        yield from ()

    def _begin_block(self, event: dict[str, Any]) -> Iterator[Said | Called]:
        start = checked(BlockStart, event)
        self._blocks[start.index] = dict(event["content_block"])
        self._open.add(start.index)
        text = event["content_block"].get("text")
        if start.content_block.type == "text" and text:
            yield Said(text=str(text))

    def _grow_block(self, event: dict[str, Any]) -> Iterator[Said | Called]:
        grown = checked(BlockDelta, event)
        block, delta = self._block(grown.index), grown.delta
        match delta.type:
            case "text_delta":
                block["text"] = _written(block, "text") + delta.text
                yield Said(text=delta.text)
            case "input_json_delta":
                self._written[grown.index] = self._written.get(grown.index, "") + delta.partial_json
            case "thinking_delta":
                block["thinking"] = _written(block, "thinking") + delta.thinking
            case "signature_delta":
                block["signature"] = delta.signature
            case "citations_delta":
                cited = block.get("citations") or []
                block["citations"] = [*cited, event["delta"].get("citation")]

    def _end_block(self, event: dict[str, Any]) -> Iterator[Said | Called]:
        index = checked(BlockStop, event).index
        block = self._block(index)
        if index in self._written:
            block["input"] = arguments(self._written.pop(index))
        self._open.discard(index)
        if block["type"] == "tool_use":
            yield Called(tool=str(block.get("name")), args=block.get("input", {}))

    def _learn(self, event: dict[str, Any]) -> Iterator[Said | Called]:
        learnt = checked(MessageDelta, event)
        self._stop_reason = learnt.delta.stop_reason or self._stop_reason
        self._usage.update(_known(learnt.usage))
        yield from ()

    def _stop(self, _: dict[str, Any]) -> Iterator[Said | Called]:
        self.over = True
        yield from ()

    def _fail(self, event: dict[str, Any]) -> Iterator[Said | Called]:
        raise AnswerLost(f"{self._model} broke off in the middle of an answer: {words(event)}")

    def _block(self, index: int) -> dict[str, Any]:
        if index not in self._open:
            raise AnswerLost(f"{self._model} went on with a block {index} that is not open")
        return self._blocks[index]


def _written(block: dict[str, Any], field: str) -> str:
    """Read what a block holds so far; some servers begin it with null."""
    value = block.get(field)
    return value if isinstance(value, str) else ""


def _known(usage: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in usage.items() if value is not None}


def _usage(tokens: Tokens) -> Usage:
    return Usage(
        input_tokens=tokens.input_tokens or 0,
        cache_read_tokens=tokens.cache_read_input_tokens or 0,
        cache_written_tokens=tokens.cache_creation_input_tokens or 0,
        output_tokens=tokens.output_tokens or 0,
    )
